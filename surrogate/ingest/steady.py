"""The steady state of a run: which records count, and what they say.

Rule
----
1. *Warm-up*: the first record of every (re)start is dropped when it holds the first step (compilation, allocation);
   then leading records while they are more than 20 % (or three robust standard deviations) off the median of the
   rest, at most half of the records. With fewer than three records nothing is dropped and the report says so.
2. *Disturbances*: a record right after an evaluation or a checkpoint is left out when it is more than 3 % above the
   median; a record with skipped (overflowed) optimizer steps when at least three others remain.
3. *Regimes*: the remaining series is cut where its level changes by more than 5 % for at least five records
   (:mod:`surrogate.ingest.regimes`); the longest regime counts, with others at its level; the rest is reported.
4. The step time is the median over the records that count, weighted by nothing: one slow node at night is in the
   p95 and the coefficient of variation, not in the median.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from surrogate.ingest.regimes import SMALLEST_CHANGE, split_regimes

FloatArray: TypeAlias = NDArray[np.float64]
BoolArray: TypeAlias = NDArray[np.bool_]

WARM_UP_TOLERANCE: Final = 0.20
DISTURBED_TOLERANCE: Final = 0.03
MAD_TO_SIGMA: Final = 1.4826  # standard deviation of a normal distribution over its median absolute deviation
_FEWEST_FOR_WARM_UP: Final = 3
_FEWEST_UNSKIPPED: Final = 3


@dataclass(frozen=True, kw_only=True, slots=True)
class Regime:
    """A stretch of a run at one level."""

    first: int
    last: int
    num_records: int
    median: float


@dataclass(frozen=True, kw_only=True, slots=True)
class SteadyState:
    """Steady-state estimate of one series.

    Attributes
    ----------
    median, p95, cv : float
        In the unit of the series; `cv` is standard deviation over mean. NaN when nothing counts.
    used : ndarray of bool, shape (n,)
        Records that count.
    num_warm_up, num_disturbed : int
        Records left out for either reason.
    regimes : tuple of Regime
        All levels found, in order; one when the run was even.
    """

    median: float
    p95: float
    cv: float
    used: BoolArray
    num_warm_up: int
    num_disturbed: int
    regimes: tuple[Regime, ...]


def warm_up_length(values: FloatArray, *, starts_cold: bool) -> int:
    """Count the leading records to drop.

    Parameters
    ----------
    values : ndarray, shape (n,)
        Seconds per step, finite and positive.
    starts_cold : bool
        Whether the first record holds the first step after a start.

    Examples
    --------
    >>> warm_up_length(np.array([44.9, 0.32, 5.66, 5.40, 5.67, 5.67]), starts_cold=True)
    2
    """
    if values.size < _FEWEST_FOR_WARM_UP:
        return 0
    drop = int(starts_cold)
    rest = values[1:]
    median = float(np.median(rest))
    sigma = MAD_TO_SIGMA * float(np.median(np.abs(rest - median)))
    tolerance = max(WARM_UP_TOLERANCE * median, 3.0 * sigma)
    off = np.abs(values[: values.size // 2] - median) > tolerance
    off[:drop] = True
    return int(off.size if off.all() else np.argmin(off))


def estimate_steady(
    values: FloatArray, *, segments: list[int], cold: list[bool], disturbed: BoolArray, skipped: BoolArray
) -> SteadyState:
    """Estimate the steady state of a series of step times.

    Parameters
    ----------
    values : ndarray, shape (n,)
        Seconds per step; NaN where a record has none.
    segments : list of int
        First index after each (re)start; begins with 0.
    cold : list of bool
        For each segment, whether its first record holds the first step after the start.
    disturbed, skipped : ndarray of bool, shape (n,)
        Records after an evaluation or checkpoint; records with skipped optimizer steps.
    """
    known = np.isfinite(values) & (values > 0)
    used = known.copy()
    num_warm_up = 0
    for begin, end, is_cold in zip(segments, [*segments[1:], values.size], cold, strict=True):
        at = begin + np.flatnonzero(known[begin:end])
        drop = warm_up_length(values[at], starts_cold=is_cold and at.size > 0 and at[0] == begin)
        used[at[:drop]] = False
        num_warm_up += drop
    num_disturbed = _leave_out_disturbed(values, used, disturbed, skipped)
    at = np.flatnonzero(used)
    cuts = split_regimes(np.log(values[at]))
    regimes = tuple(
        Regime(first=int(at[a]), last=int(at[b - 1]), num_records=b - a, median=float(np.median(values[at[a:b]])))
        for a, b in zip(cuts[:-1], cuts[1:], strict=True)
    )
    if len(regimes) > 1:
        used &= _at_main_level(values.size, regimes)
    chosen = values[used]
    return SteadyState(
        median=float(np.median(chosen)) if chosen.size else float("nan"),
        p95=float(np.quantile(chosen, 0.95)) if chosen.size else float("nan"),
        cv=float(np.std(chosen) / np.mean(chosen)) if chosen.size > 1 else float("nan"),
        used=used,
        num_warm_up=num_warm_up,
        num_disturbed=num_disturbed,
        regimes=regimes,
    )


def _at_main_level(size: int, regimes: tuple[Regime, ...]) -> BoolArray:
    """Mark the longest regime, and those at its level before and after an interlude."""
    longest = max(regimes, key=lambda regime: regime.num_records)
    marked = np.zeros(size, dtype=bool)
    for regime in regimes:
        if abs(regime.median / longest.median - 1) <= SMALLEST_CHANGE:
            marked[regime.first : regime.last + 1] = True
    return marked


def _leave_out_disturbed(values: FloatArray, used: BoolArray, disturbed: BoolArray, skipped: BoolArray) -> int:
    """Clear `used` where a record is disturbed; return how many."""
    before = int(used.sum())
    if before and int((used & ~skipped).sum()) >= _FEWEST_UNSKIPPED:
        used &= ~skipped
    if used.any():
        limit = (1 + DISTURBED_TOLERANCE) * float(np.median(values[used]))
        slow = used & disturbed & (values > limit)
        if int(used.sum()) - int(slow.sum()) >= 1:
            used &= ~slow
    return before - int(used.sum())
