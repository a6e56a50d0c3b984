"""From the records of a run to one series of step times, by the best source the log offers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

import numpy as np

from surrogate.ingest.numbers import is_known
from surrogate.ingest.records import StepRecord
from surrogate.ingest.run_data import RunLogData
from surrogate.ingest.steady import BoolArray, FloatArray, SteadyState, estimate_steady

Source: TypeAlias = Literal["time", "tokens", "samples", "wall", "rate"]

_FEWEST_INTERVALS: Final = 3
_MOST_CLOCK_SPREAD: Final = 0.10  # robust relative spread beyond which time stamps are no measure
_FEW_RECORDS: Final = 3  # with fewer, a printed running average says more than the last step


@dataclass(frozen=True, kw_only=True, slots=True)
class SizeOfStep:
    """What turns a rate into a step time; NaN when unknown."""

    samples: float
    tokens_per_gpu: float
    tokens: float


def column(records: Sequence[StepRecord], attribute: str) -> FloatArray:
    """One attribute of all records, NaN where unknown."""
    return np.array([getattr(record, attribute) for record in records], dtype=np.float64)


def steady_of(run: RunLogData, values: FloatArray) -> SteadyState:
    """Steady state of a series over the records of `run`."""
    records = run.records
    cold = [_starts_cold(records, at, is_first=index == 0) for index, at in enumerate(run.segments)]
    skipped = np.array([record.disturbed == "skipped" for record in records], dtype=bool)
    return estimate_steady(values, segments=run.segments, cold=cold, disturbed=_is_disturbed(records), skipped=skipped)


def _is_disturbed(records: Sequence[StepRecord]) -> BoolArray:
    """Mark records between which and the one before an evaluation or a checkpoint lies."""
    return np.array([record.disturbed in ("evaluation", "checkpoint") for record in records], dtype=bool)


def _starts_cold(records: Sequence[StepRecord], at: int, *, is_first: bool) -> bool:
    """Whether a record holds the first step after a start: a restart always, a run by step number and log interval."""
    if at >= len(records):
        return False
    step = records[at].step
    if not is_first or step is None:
        return True
    interval = records[at + 1].steps if at + 1 < len(records) else records[at].steps
    return step <= max(interval, 1)


def step_times(run: RunLogData, size: SizeOfStep) -> tuple[Source, FloatArray] | None:
    """Seconds per step of each record, by the best source: printed, from a rate, from the clock.

    Returns
    -------
    tuple of (source, ndarray) or None
        None when neither is possible.
    """
    records = run.records
    times = column(records, "time_s")
    averages = column(records, "average_time_s")
    if 0 < np.isfinite(times).sum() < _FEW_RECORDS and np.isfinite(averages).any():
        return "time", np.where(np.isfinite(averages), averages, times)
    if np.isfinite(times).any():
        return "time", times
    rates: tuple[tuple[Source, str, float], ...] = (
        ("tokens", "tokens_per_s_per_gpu", size.tokens_per_gpu),
        ("tokens", "tokens_per_s", size.tokens),
        ("samples", "samples_per_s", size.samples),
    )
    wall = np.where(_is_disturbed(records), np.nan, column(records, "wall_s"))
    has_clock = is_regular(run, wall)
    for source, attribute, amount in rates:
        values = column(records, attribute)
        if is_known(amount) and np.isfinite(values).any():
            by_rate = amount / values
            return ("wall", wall) if has_clock and _disagree(run, by_rate, wall) else (source, by_rate)
    return ("wall", wall) if has_clock else None


def _disagree(run: RunLogData, by_rate: FloatArray, wall_s: FloatArray) -> bool:
    """Whether a rate leaves out time between steps, or the size of a step is not what the log seemed to say."""
    return abs(steady_of(run, by_rate).median / steady_of(run, wall_s).median - 1) > _MOST_CLOCK_SPREAD


def is_regular(run: RunLogData, wall_s: FloatArray) -> bool:
    """Whether time stamps are spaced evenly enough to be a measure of the step."""
    known = int(np.isfinite(wall_s).sum())
    if known < _FEWEST_INTERVALS and not _is_elapsed(run, known):
        return False
    used = wall_s[steady_of(run, wall_s).used]
    if used.size < 2:
        return False
    median = float(np.median(used))
    return bool(np.median(np.abs(used - median)) <= _MOST_CLOCK_SPREAD * median)


def _is_elapsed(run: RunLogData, known: int) -> bool:
    """Two intervals of a program's own clock are enough."""
    return known >= 2 and any(is_known(record.elapsed_s) for record in run.records)


def median_where(values: FloatArray, used: BoolArray) -> float:
    """Median of the known values among the records that count; of all known ones when none counts."""
    for chosen in (values[used], values):
        known = chosen[np.isfinite(chosen) & (chosen > 0)]
        if known.size:
            return float(np.median(known))
    return float("nan")


def steady_rate(run: RunLogData, attribute: str) -> float:
    """Steady value of a rate for which no step time can be had; NaN when it is not printed."""
    values = column(run.records, attribute)
    if not np.isfinite(values).any():
        return float("nan")
    return 1.0 / steady_of(run, 1.0 / values).median
