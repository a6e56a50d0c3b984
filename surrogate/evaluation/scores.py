"""Figures of merit of predicted step times, over rows and with equal weight per source.

Notation: t measured and p predicted step time, [l, u] the interval of nominal coverage 1 - a, all in seconds;
e = p/t - 1 the relative error, g = ln(p/t) the log error. An average "per source" is the mean of the sources' means:
what a stranger's next publication should expect, while an average over rows is governed by the three large sweeps.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields

import numpy as np
import pandas as pd

from surrogate.analytic.workload import FloatArray

NOMINAL_COVERAGE = 0.9
MEASURED = "measured_step_time_s"
PREDICTED = "step_time_s"
LOWER = "step_time_lower_s"
UPPER = "step_time_upper_s"


@dataclass(frozen=True, kw_only=True, slots=True)
class Scores:
    """Errors as fractions, logarithms natural; NaN where nothing could be scored."""

    rows: int
    """Predictions scored; with several draws a run counts once per draw."""
    sources: int
    mape: float
    median_ape: float
    p90_ape: float
    mean_abs_log_error: float
    mean_log_error: float
    """The bias: positive when predicted too slow. A low MAPE with a negative bias is optimism, not skill."""
    source_mape: float
    source_mape_se: float
    """Standard error of `source_mape` over the sources."""
    source_mean_abs_log_error: float
    source_mean_log_error: float
    coverage: float
    """Share of measured times inside the interval."""
    source_coverage: float
    mean_log_width: float
    """Mean of ln(u/l)."""
    interval_score: float
    """Mean of ln(u/l) + 2/a (ln(l/t)+ + ln(t/u)+): small only for intervals that are narrow and right."""
    source_interval_score: float

    def to_dict(self) -> dict[str, float]:
        """Return the figures by name."""
        return asdict(self)


SCORE_NAMES = tuple(field.name for field in fields(Scores))


def relative_errors(measured_s: FloatArray, predicted_s: FloatArray) -> FloatArray:
    """Return p/t - 1, shape (n,): +0.1 is predicted 10 % too slow."""
    return np.asarray(predicted_s / measured_s - 1.0)


def log_errors(measured_s: FloatArray, predicted_s: FloatArray) -> FloatArray:
    """Return ln(p/t), shape (n,)."""
    return np.log(predicted_s / measured_s)


def interval_scores(
    measured_s: FloatArray, lower_s: FloatArray, upper_s: FloatArray, *, coverage: float = NOMINAL_COVERAGE
) -> FloatArray:
    """Return the interval score of log time, shape (n,).

    Parameters
    ----------
    measured_s, lower_s, upper_s : ndarray of shape (n,)
        Measured time and the bounds, in seconds.
    coverage : float
        Nominal coverage 1 - a of the interval.

    References
    ----------
    Gneiting and Raftery, JASA 102 (2007), eq. 43.

    Examples
    --------
    >>> interval_scores(np.array([1.0, 4.0]), np.array([0.5, 0.5]), np.array([2.0, 2.0])).round(3)
    array([ 1.386, 15.249])
    """
    penalty = 2.0 / (1.0 - coverage)
    below = np.maximum(np.log(lower_s / measured_s), 0.0)
    above = np.maximum(np.log(measured_s / upper_s), 0.0)
    return np.asarray(np.log(upper_s / lower_s) + penalty * (below + above))


def score(predictions: pd.DataFrame, *, coverage: float = NOMINAL_COVERAGE) -> Scores:
    """Score predictions.

    Parameters
    ----------
    predictions : DataFrame of n rows
        `source`, `measured_step_time_s`, `step_time_s`, and the bounds of the interval; rows without a prediction
        are left out, as are rows without bounds from the interval's figures.
    coverage : float
        Nominal coverage of the interval.
    """
    made = predictions[predictions[PREDICTED].notna()]
    source = made["source"].to_numpy()
    measured, predicted = made[MEASURED].to_numpy(), made[PREDICTED].to_numpy()
    ape, log_error = np.abs(relative_errors(measured, predicted)), log_errors(measured, predicted)
    by_source = source_means(ape, source)
    bounded = made[LOWER].notna().to_numpy()
    lower, upper, truth = (made[name].to_numpy()[bounded] for name in (LOWER, UPPER, MEASURED))
    inside = ((lower <= truth) & (truth <= upper)).astype(np.float64)
    penalised = interval_scores(truth, lower, upper, coverage=coverage)
    return Scores(
        rows=len(made),
        sources=len(by_source),
        mape=_mean(ape),
        median_ape=_quantile(ape, 0.5),
        p90_ape=_quantile(ape, 0.9),
        mean_abs_log_error=_mean(np.abs(log_error)),
        mean_log_error=_mean(log_error),
        source_mape=_mean(by_source),
        source_mape_se=_standard_error(by_source),
        source_mean_abs_log_error=_mean(source_means(np.abs(log_error), source)),
        source_mean_log_error=_mean(source_means(log_error, source)),
        coverage=_mean(inside),
        source_coverage=_mean(source_means(inside, source[bounded])),
        mean_log_width=_mean(np.log(upper / lower)),
        interval_score=_mean(penalised),
        source_interval_score=_mean(source_means(penalised, source[bounded])),
    )


def source_means(values: FloatArray, source: np.typing.NDArray[np.object_]) -> FloatArray:
    """Return the mean of the values of each source, shape (sources,)."""
    codes, names = pd.factorize(source)
    if not len(names):
        return np.zeros(0)
    return np.asarray(np.bincount(codes, weights=values) / np.bincount(codes))


def _mean(values: FloatArray) -> float:
    return float(values.mean()) if len(values) else float("nan")


def _quantile(values: FloatArray, level: float) -> float:
    return float(np.quantile(values, level)) if len(values) else float("nan")


def _standard_error(values: FloatArray) -> float:
    return float(values.std(ddof=1) / np.sqrt(len(values))) if len(values) > 1 else float("nan")
