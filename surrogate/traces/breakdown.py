"""Where the time goes: compute, communication, their overlap and idle, by step, by class and by stream."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from surrogate.traces.columns import COMMUNICATION_CODE, IntArray, Trace
from surrogate.traces.intervals import Intervals, clip, overlap_length, union
from surrogate.traces.kinds import CLASSES, EventKind
from surrogate.traces.steps import Step, find_steps, launched_rows, periods_ns
from surrogate.units import GIGA

BIN_NS: Final = 1_000_000
MAX_BINS: Final = 2000


def seconds(ns: float) -> float:
    """Return nanoseconds of the trace clock in seconds."""
    return float(ns / GIGA)


class Occupancy(NamedTuple):
    """Use of the main device over a span; the four exclusive parts sum to `span_s`.

    Copies and memsets count as compute: whatever is busy and not communication.
    """

    span_s: float
    exposed_compute_s: float
    exposed_communication_s: float
    overlapped_s: float
    idle_s: float

    @property
    def busy_s(self) -> float:
        """Time with at least one device event."""
        return self.exposed_compute_s + self.exposed_communication_s + self.overlapped_s

    @property
    def compute_s(self) -> float:
        """Time with at least one device event that is not communication."""
        return self.exposed_compute_s + self.overlapped_s

    @property
    def communication_s(self) -> float:
        """Time with at least one communication kernel."""
        return self.exposed_communication_s + self.overlapped_s


class StepBreakdown(NamedTuple):
    """One step: host times, kernel counts, and the device's use in its window and by its launched work."""

    number: int
    host_s: float
    period_s: float | None
    kernels_launched: int
    kernels_started: int
    window: Occupancy
    launched: Occupancy


class BusyShare(NamedTuple):
    """Share of each bin of `bin_s` seconds, from the first device event on, with at least one running."""

    bin_s: float
    shares: tuple[float, ...]


class ClassTime(NamedTuple):
    """Device time of one kernel class: sum of durations, number of events."""

    kernel_class: str
    total_s: float
    num_events: int


def occupancy(start: IntArray, end: IntArray, is_communication: IntArray, window: tuple[int, int] | None) -> Occupancy:
    """Split a span into exposed compute, exposed communication, overlap and idle.

    Parameters
    ----------
    start, end : array of int, shape (n,)
        Device events, ns.
    is_communication : array of bool, shape (n,)
    window : (int, int), optional
        Span to look at, ns; from the first start to the last end when None.
    """
    if window is None:
        window = (int(start.min()), int(end.max())) if len(start) else (0, 0)
    compute, communication = (
        _clipped(start[mask], end[mask], window) for mask in (~is_communication, is_communication)
    )
    overlapped = overlap_length(compute, communication)
    parts = (compute.length - overlapped, communication.length - overlapped, overlapped)
    span = window[1] - window[0]
    return Occupancy(*(seconds(part) for part in (span, *parts, span - sum(parts))))


def _clipped(start: IntArray, end: IntArray, window: tuple[int, int]) -> Intervals:
    return clip(union(start, end), *window)


def rows_occupancy(trace: Trace, rows: IntArray, window: tuple[int, int] | None = None) -> Occupancy:
    """Return the `occupancy` of the given device rows of a trace."""
    return occupancy(trace.start_ns[rows], trace.end_ns[rows], trace.kernel_class[rows] == COMMUNICATION_CODE, window)


def break_down_steps(trace: Trace) -> list[StepBreakdown]:
    """Return the breakdown of every step of a trace, empty when no step can be told."""
    steps, rows = find_steps(trace), trace.main_device_rows
    launched = launched_rows(trace, steps, rows)
    return [
        _break_down(trace, step, period, rows, own)
        for step, period, own in zip(steps, periods_ns(steps), launched, strict=True)
    ]


def _break_down(trace: Trace, step: Step, period: int | None, rows: IntArray, launched: IntArray) -> StepBreakdown:
    started = (trace.start_ns[rows] >= step.start_ns) & (trace.start_ns[rows] < step.end_ns)
    return StepBreakdown(
        number=step.number,
        host_s=seconds(step.end_ns - step.start_ns),
        period_s=None if period is None else seconds(period),
        kernels_launched=int(np.sum(trace.kind[launched] == EventKind.KERNEL)),
        kernels_started=int(np.sum(trace.kind[rows[started]] == EventKind.KERNEL)),
        window=rows_occupancy(trace, rows, (step.start_ns, step.end_ns)),
        launched=rows_occupancy(trace, launched),
    )


def busy_share(trace: Trace, rows: IntArray) -> BusyShare:
    """Return the share of each time bin with at least one running device event; it is not occupancy.

    Notes
    -----
    Bins are 1 ms, wider where a trace would have more than `MAX_BINS` of them.
    """
    busy = union(trace.start_ns[rows], trace.end_ns[rows])
    begin, end = (int(busy.start[0]), int(busy.end[-1])) if len(busy.start) else (0, 0)
    width = max(BIN_NS, -(-(end - begin) // MAX_BINS))
    edges = np.arange(begin, end + width, width)
    # Busy time up to a moment is linear inside an interval and constant between two.
    knots = np.stack([busy.start, busy.end], axis=1).ravel()
    lengths = np.cumsum(busy.end - busy.start)
    reached = np.stack([np.concatenate([[0], lengths[:-1]]), lengths], axis=1).ravel() if len(lengths) else knots
    shares = np.diff(np.interp(edges, knots, reached)) / width if len(knots) else np.zeros(0)
    return BusyShare(seconds(width), tuple(np.round(shares, 4).tolist()))


def class_times(trace: Trace, rows: IntArray) -> list[ClassTime]:
    """Return device time by kernel class over `rows`, the longest first."""
    codes, duration = trace.kernel_class[rows].astype(np.int64), trace.duration_ns[rows]
    total = np.bincount(codes, weights=duration, minlength=len(CLASSES))
    count = np.bincount(codes, minlength=len(CLASSES))
    times = [
        ClassTime(kernel_class.value, seconds(total[code]), int(count[code]))
        for code, kernel_class in enumerate(CLASSES)
        if count[code]
    ]
    return sorted(times, key=lambda each: -each.total_s)


def busy_per_stream(trace: Trace, rows: IntArray) -> dict[int, float]:
    """Return the busy time of each stream over `rows`, seconds by stream id."""
    busy = {}
    for stream in np.unique(trace.stream[rows]).tolist():
        own = rows[trace.stream[rows] == stream]
        busy[stream] = seconds(union(trace.start_ns[own], trace.end_ns[own]).length)
    return busy
