"""Is one predictor worse than another, or is it luck? A paired bootstrap over publisher families.

Rows of one publisher share its habits, so families, not rows, are what a new sample would redraw. Both predictors are
judged on the same rows; a family drawn twice counts twice.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Final, Literal

import numpy as np
import pandas as pd

from surrogate.analytic.workload import FloatArray
from surrogate.evaluation.scores import MEASURED, PREDICTED, log_errors, relative_errors

DRAWS: Final = 2000
CONFIDENCE: Final = 0.95
PAIR: Final = ["run_id", "draw"]
Verdict = Literal["better", "not worse", "worse"]
Figure = Literal["mape", "source_mape", "source_mean_abs_log_error"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Comparison:
    """A predictor's figure less a baseline's on the same rows, with its bootstrap interval; negative is better."""

    figure: Figure
    rows: int
    families: int
    figure_value: float
    baseline_value: float
    difference: float
    lower: float
    upper: float

    @property
    def verdict(self) -> Verdict:
        """Whether the interval lies below zero, spans it, or lies above."""
        if self.upper < 0.0:
            return "better"
        return "worse" if self.lower > 0.0 else "not worse"

    def to_dict(self) -> dict[str, object]:
        """Return the fields and the verdict."""
        return {**asdict(self), "verdict": self.verdict}


def compare_predictions(
    predictor: pd.DataFrame, baseline: pd.DataFrame, *, random_state: int = 0, draws: int = DRAWS
) -> list[Comparison]:
    """Compare two sets of predictions over the rows that both predict.

    Parameters
    ----------
    predictor, baseline : DataFrame
        `run_id`, `draw`, `source`, `publisher_family`, measured and predicted step time.
    random_state : int
        Seed of the bootstrap.
    draws : int
        Resamples.

    Returns
    -------
    list of Comparison
        MAPE over rows, MAPE and mean absolute log error with equal weight per source.
    """
    both = predictor.merge(baseline[[*PAIR, PREDICTED]], on=PAIR, suffixes=("", "_baseline"), validate="one_to_one")
    both = both[both[PREDICTED].notna() & both[PREDICTED + "_baseline"].notna()]
    if both.empty:
        return []
    family, names = pd.factorize(both["publisher_family"])
    source = pd.factorize(both["source"])[0]
    generator = np.random.default_rng(random_state)
    weights = generator.multinomial(len(names), np.full(len(names), 1.0 / len(names)), size=draws).astype(np.float64)
    measured = both[MEASURED].to_numpy()
    times = [both[column].to_numpy() for column in (PREDICTED, PREDICTED + "_baseline")]
    apes = [np.abs(relative_errors(measured, time)) for time in times]
    logs = [np.abs(log_errors(measured, time)) for time in times]
    cells = _Cells(family=family, source=source, weights=weights)
    everything = _Cells(family=family, source=np.zeros_like(source), weights=weights)
    figures: list[tuple[Figure, _Cells, list[FloatArray]]] = [
        ("mape", everything, apes),
        ("source_mape", cells, apes),
        ("source_mean_abs_log_error", cells, logs),
    ]
    return [_comparison(name, cell, values, len(names)) for name, cell, values in figures]


@dataclass(frozen=True, kw_only=True, slots=True)
class _Cells:
    """Rows by family and source, and how often each resample draws each family (shape (draws, families))."""

    family: np.typing.NDArray[np.int64]
    source: np.typing.NDArray[np.int64]
    weights: FloatArray

    def sums(self, values: FloatArray) -> FloatArray:
        """Return sums of shape (families, sources)."""
        table = np.zeros((self.weights.shape[1], int(self.source.max()) + 1))
        np.add.at(table, (self.family, self.source), values)
        return table

    def means(self, values: FloatArray, weights: FloatArray) -> FloatArray:
        """Return the mean over sources of their weighted means, shape (draws,); sources not drawn are left out."""
        totals = weights @ self.sums(values)
        counts = weights @ self.sums(np.ones_like(values))
        drawn = counts > 0.0
        means = np.divide(totals, counts, out=np.zeros_like(totals), where=drawn)
        return np.asarray(means.sum(axis=1) / drawn.sum(axis=1))


def _comparison(name: Figure, cells: _Cells, values: list[FloatArray], families: int) -> Comparison:
    once = np.ones((1, families))
    own, other = (float(cells.means(value, once)[0]) for value in values)
    resampled = cells.means(values[0], cells.weights) - cells.means(values[1], cells.weights)
    tail = 0.5 * (1.0 - CONFIDENCE)
    lower, upper = np.quantile(resampled, [tail, 1.0 - tail])
    return Comparison(
        figure=name,
        rows=len(values[0]),
        families=families,
        figure_value=own,
        baseline_value=other,
        difference=own - other,
        lower=float(lower),
        upper=float(upper),
    )
