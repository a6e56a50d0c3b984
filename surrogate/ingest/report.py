"""What reading a log gives: one :class:`LogRun` per run, with what could not be derived and why."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from surrogate.ingest.numbers import NAN

Scalar: TypeAlias = str | int | float | bool


@dataclass(frozen=True, kw_only=True, slots=True)
class LogRegime:
    """A stretch of a run at one speed.

    Attributes
    ----------
    first_step, last_step : int or None
        Step counters at its ends.
    step_time_s : float
        Median seconds per step.
    """

    first_step: int | None
    last_step: int | None
    step_time_s: float


@dataclass(frozen=True, kw_only=True, slots=True)
class LogRun:
    """One training run found in a log; a value that the log does not give is NaN and has a reason.

    Attributes
    ----------
    status : str
        "ok" or "oom".
    step_time_s, step_time_p95_s, step_time_cv : float
        Steady-state median and 95th percentile in seconds, coefficient of variation.
    n_steps : int
        Optimizer steps behind the estimate; `n_records` is the number of lines.
    tokens_per_s_per_gpu, samples_per_s, achieved_flops_per_s, mfu : float
        Steady-state medians; FLOP/s per accelerator as printed.
    peak_memory_bytes : float
        Highest peak printed by any rank, of the kind `peak_memory_kind`.
    step_time_from : str
        "time", "tokens", "samples", "wall" (time stamps) or "".
    first_clock_s : float
        Time stamp of the first record, seconds since 1970 without a zone.
    regimes : tuple of LogRegime
        All speeds found; the longest is the one reported.
    settings : mapping of str to value
        Runs-table columns that the log prints or that follow from its numbers.
    reasons : mapping of str to str
        Column to why it cannot be derived.
    notes : tuple of str
        What a reader should know.
    """

    format: str
    framework: str
    framework_version: str = ""
    status: str = "ok"
    step_time_s: float = NAN
    step_time_p95_s: float = NAN
    step_time_cv: float = NAN
    n_steps: int = 0
    n_records: int = 0
    n_dropped: int = 0
    tokens_per_s_per_gpu: float = NAN
    samples_per_s: float = NAN
    achieved_flops_per_s: float = NAN
    mfu: float = NAN
    peak_memory_bytes: float = NAN
    peak_memory_kind: str = ""
    step_time_from: str = ""
    first_step: int | None = None
    last_step: int | None = None
    first_clock_s: float = NAN
    num_rank_copies: int = 0
    regimes: tuple[LogRegime, ...] = ()
    settings: Mapping[str, Scalar] = field(default_factory=dict)
    reasons: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class LogReport:
    """All runs of one file.

    Attributes
    ----------
    path : str
        The file as given.
    format : str
        Reader that was used; "" when none fits.
    runs : tuple of LogRun
        In the order of the file.
    notes : tuple of str
        What concerns the file as a whole.
    """

    path: str
    format: str
    runs: tuple[LogRun, ...] = ()
    notes: tuple[str, ...] = ()
