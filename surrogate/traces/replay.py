"""Replay: the simulated step against the measured one, by step and rank."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from surrogate.traces.breakdown import (
    Occupancy,
    StepBreakdown,
    break_down_steps,
    busy_per_stream,
    occupancy,
    rows_occupancy,
    seconds,
)
from surrogate.traces.columns import COMMUNICATION_CODE, FloatArray, IntArray, Trace
from surrogate.traces.graph import TaskGraph
from surrogate.traces.intervals import union
from surrogate.traces.simulate import Timeline
from surrogate.traces.steps import find_steps, launched_rows

MIN_STEADY_SHARE: Final = 0.97
"""A host step shorter than this share of the device time it launched runs ahead of the device: it is not a period."""


class StepReplay(NamedTuple):
    """One step of one rank: length and device use of its launched work, measured and replayed.

    The length is the time to the next step's start; of the last step, its host window.
    """

    rank: int
    number: int
    is_steady: bool
    measured_s: float
    replayed_s: float
    measured: Occupancy
    replayed: Occupancy


class Replay(NamedTuple):
    """Mean step over the steady steps of the slowest rank, and all steps."""

    measured_step_s: float
    replayed_step_s: float
    steps: tuple[StepReplay, ...]
    stream_busy_s: dict[int, tuple[float, float]]
    """Busy time per stream of the first rank over the whole trace: measured and replayed."""
    unexplained_gap_fraction: float
    unexplained_wait_fraction: float

    @property
    def relative_error(self) -> float:
        """(replayed - measured) / measured."""
        return self.replayed_step_s / self.measured_step_s - 1.0 if self.measured_step_s else 0.0


class HostClock:
    """Maps moments of a host thread from the measured to the simulated clock."""

    def __init__(self, graph: TaskGraph, timeline: Timeline, trace: Trace, position: int) -> None:
        own = np.flatnonzero((graph.rank == position) & ~graph.is_device)
        self._tasks_of_lane = {
            int(lane): own[trace.lane[graph.row[own]] == lane] for lane in np.unique(trace.lane[graph.row[own]])
        }
        self._all = own[np.argsort(graph.start_ns[own], kind="stable")]
        self._graph, self._timeline = graph, timeline
        # Ranks share one clock in the graph; a trace's own clock may differ by an offset.
        any_task = np.flatnonzero((graph.rank == position) & graph.is_device)[0]
        self.offset_ns = int(graph.start_ns[any_task] - trace.start_ns[graph.row[any_task]])

    def simulated_ns(self, moment_ns: int, lane: int) -> int:
        """Return when a moment of a thread comes: as long before the thread's next task as it was measured."""
        tasks = self._tasks_of_lane.get(lane, self._all)
        moment = moment_ns + self.offset_ns
        if not len(tasks):
            return moment
        place = int(np.searchsorted(self._graph.start_ns[tasks], moment))
        if place < len(tasks):
            task = tasks[place]
            return int(self._timeline.start_ns[task] - (self._graph.start_ns[task] - moment))
        task = tasks[-1]
        return int(self._timeline.end_ns[task] + (moment - self._graph.end_ns[task]))


def replay(traces: Sequence[Trace], graph: TaskGraph, timeline: Timeline) -> Replay:
    """Compare a simulated timeline with the traces its graph came from.

    Notes
    -----
    The step time is the mean over the steady steps: those whose period is known and not shorter than the device work
    they launched. Without steps the whole trace counts as one.
    """
    steps = [step for position, trace in enumerate(traces) for step in _rank_steps(trace, position, graph, timeline)]
    by_rank = {rank: [step for step in steps if step.rank == rank] for rank in {step.rank for step in steps}}
    means = [_steady_means(each) for each in by_rank.values()]
    measured, replayed = max(means)
    return Replay(
        measured_step_s=measured,
        replayed_step_s=replayed,
        steps=tuple(steps),
        stream_busy_s=_stream_busy(traces[0], graph, timeline),
        unexplained_gap_fraction=graph.unexplained_gap_fraction,
        unexplained_wait_fraction=graph.unexplained_wait_fraction,
    )


def device_times(graph: TaskGraph, timeline: Timeline, trace: Trace, position: int) -> tuple[IntArray, IntArray]:
    """Return simulated starts and ends by row of a trace, shape (n,); rows that are no device task keep their own."""
    start, end = trace.start_ns.copy(), trace.end_ns.copy()
    tasks = np.flatnonzero((graph.rank == position) & graph.is_device)
    start[graph.row[tasks]], end[graph.row[tasks]] = timeline.start_ns[tasks], timeline.end_ns[tasks]
    return start, end


def is_steady(step: StepBreakdown) -> bool:
    """Tell whether a step's period is the time of a step: known, and no shorter than its device work."""
    return step.period_s is not None and step.period_s >= MIN_STEADY_SHARE * step.launched.busy_s


def steady_mean_s(steps: Sequence[StepBreakdown]) -> float:
    """Return the mean period of the steady steps; without any, the mean of what the device or the host took."""
    steady = [step.period_s for step in steps if step.period_s is not None and is_steady(step)]
    return float(np.mean(steady or [max(step.host_s, step.launched.busy_s) for step in steps]))


def _rank_steps(trace: Trace, position: int, graph: TaskGraph, timeline: Timeline) -> list[StepReplay]:
    rank = position if trace.info.rank is None else trace.info.rank
    start, end = device_times(graph, timeline, trace, position)
    steps, measured = find_steps(trace), break_down_steps(trace)
    if not steps:
        return [_whole_trace(trace, rank, start, end)]
    clock = HostClock(graph, timeline, trace, position)
    begins = [clock.simulated_ns(step.start_ns, step.lane) for step in steps]
    begins.append(clock.simulated_ns(steps[-1].end_ns, steps[-1].lane))
    rows = launched_rows(trace, steps, trace.main_device_rows)
    return [
        StepReplay(
            rank=rank,
            number=step.number,
            is_steady=is_steady(known),
            measured_s=known.host_s if known.period_s is None else known.period_s,
            replayed_s=seconds(after - before),
            measured=known.launched,
            replayed=occupancy(start[own], end[own], trace.kernel_class[own] == COMMUNICATION_CODE, None),
        )
        for step, known, own, before, after in zip(steps, measured, rows, begins, begins[1:], strict=False)
    ]


def _whole_trace(trace: Trace, rank: int, start: IntArray, end: IntArray) -> StepReplay:
    rows = trace.main_device_rows
    measured = rows_occupancy(trace, rows)
    replayed = occupancy(start[rows], end[rows], trace.kernel_class[rows] == COMMUNICATION_CODE, None)
    return StepReplay(rank, 0, False, measured.span_s, replayed.span_s, measured, replayed)


def _steady_means(steps: list[StepReplay]) -> tuple[float, float]:
    chosen = [step for step in steps if step.is_steady] or steps
    times: FloatArray = np.array([[step.measured_s, step.replayed_s] for step in chosen])
    measured, replayed = times.mean(axis=0)
    return float(measured), float(replayed)


def _stream_busy(trace: Trace, graph: TaskGraph, timeline: Timeline) -> dict[int, tuple[float, float]]:
    rows = trace.main_device_rows
    start, end = device_times(graph, timeline, trace, 0)
    replayed = {
        stream: seconds(union(start[own], end[own]).length)
        for stream in np.unique(trace.stream[rows]).tolist()
        if len(own := rows[trace.stream[rows] == stream])
    }
    return {stream: (busy, replayed[stream]) for stream, busy in busy_per_stream(trace, rows).items()}
