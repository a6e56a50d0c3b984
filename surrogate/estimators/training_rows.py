"""Which measured rows calibrate the site effects, how noisy each is, and what is left for the trees."""

from __future__ import annotations

from typing import Final

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from surrogate.analytic.workload import BoolArray, FloatArray
from surrogate.errors import InputError
from surrogate.estimators.site_data import SiteData
from surrogate.estimators.site_effects import SiteEffects
from surrogate.features.columns import lookup, numbers, texts

TARGET: Final = "measured_step_time_s"
NOISE_BY_QUALITY: Final = {"a": 0.03, "b": 0.05, "c": 0.10}
"""Standard deviation of log time by quality grade: 2.4 % between repeats of one source, 5 % across sources, and the
rounding of figures that were printed as utilisation (data/README.md)."""
_NOISE_BY_AUDIT: Final = {"do-not-train": 4.0, "low-weight": 2.0}


def measured_seconds(runs: pd.DataFrame, seconds: FloatArray | None = None) -> tuple[FloatArray, BoolArray]:
    """Return the step time of each row in seconds and which rows have one, shape (n,) each.

    Parameters
    ----------
    runs : DataFrame of n rows
        With a column `measured_step_time_s`, unless `seconds` are given.
    seconds : ndarray, shape (n,), optional
        Step times that replace the column.

    Raises
    ------
    InputError
        If there are not as many `seconds` as rows.
    """
    values = numbers(runs, TARGET) if seconds is None else np.asarray(seconds, dtype=np.float64)
    if values.shape != (len(runs),):
        raise InputError("y", f"must hold one step time per row of {len(runs)}", f"shape {values.shape}")
    return values, np.isfinite(values) & (values > 0.0)


def noise_sd(runs: pd.DataFrame) -> FloatArray:
    """Return the noise of log time per row, shape (n,): the grade's, the audit's factor, the run's own spread."""
    grade = np.asarray(lookup(texts(runs, "quality"), lambda text: NOISE_BY_QUALITY.get(text, 0.05)), np.float64)
    audit = np.asarray(lookup(texts(runs, "audit"), lambda text: _NOISE_BY_AUDIT.get(text, 1.0)), np.float64)
    spread = numbers(runs, "step_time_cv") / np.sqrt(np.maximum(numbers(runs, "n_steps"), 1.0))
    return np.hypot(grade * audit, np.nan_to_num(spread))


def diverse_rows(runs: pd.DataFrame, knobs: FloatArray, most_per_source: int) -> NDArray[np.int64]:
    """Return at most so many rows per source, farthest-first in knob space, in table order.

    One row per source seeds the choice: the one nearest to the source's mean.
    """
    source = texts(runs, "source")
    chosen = []
    for code in np.unique(source.codes):
        rows = np.flatnonzero(source.codes == code)
        chosen.append(rows if len(rows) <= most_per_source else rows[_farthest_first(knobs[rows], most_per_source)])
    return np.sort(np.concatenate(chosen))


def _farthest_first(points: FloatArray, count: int) -> NDArray[np.int64]:
    first = int(np.argmin(((points - points.mean(axis=0)) ** 2).sum(axis=1)))
    picked = [first]
    distance2 = ((points - points[first]) ** 2).sum(axis=1)
    while len(picked) < count:
        farthest = int(np.argmax(distance2))
        picked.append(farthest)
        distance2 = np.minimum(distance2, ((points - points[farthest]) ** 2).sum(axis=1))
    return np.array(picked)


def left_over(effects: SiteEffects, data: SiteData, rows: NDArray[np.int64], groups: NDArray[np.int64]) -> FloatArray:
    """Return what effects leave of each row's log time, shape (n,); rows they were fitted on without their group."""
    estimate = effects.predict(data.terms, data.levels, data.knobs, with_spread=False)
    remainder = data.log_time - estimate.log_time
    remainder[rows] = effects.left_out(groups[rows])
    return remainder
