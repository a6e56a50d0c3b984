"""The tasks and dependencies of one rank."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from surrogate.errors import FileFormatError
from surrogate.traces.columns import ABSENT, BoolArray, IntArray, Trace
from surrogate.traces.device_order import DeviceOrder, device_order
from surrogate.traces.graph import Dependency, Edges, Synchronisation, stack_edges
from surrogate.traces.host import HostSegments, host_segments
from surrogate.traces.links import launch_rows
from surrogate.traces.waits import ROUNDING_NS, DeviceTasks, HostWait, device_tasks, host_waits

LONG_GAP_FACTOR: Final = 20
"""A host gap this many times its thread's median gap is "unusually long"..."""
LONG_GAP_NS: Final = 50_000
"""...and never shorter than this."""


class RankGraph(NamedTuple):
    """One rank: host tasks first, then device tasks; processors and tasks count from 0 within the rank."""

    row: IntArray
    processor: IntArray
    num_host: int
    start_ns: IntArray
    end_ns: IntArray
    duration_ns: IntArray
    release_ns: IntArray
    edges: Edges
    synchronisations: list[Synchronisation]
    gaps_ns: tuple[int, int]
    """Long host gaps: total, and without a releasing task."""
    waits_ns: tuple[int, int]
    """Device idle between tasks: total, and without a dependency that explains it."""


class _ThreadOrder(NamedTuple):
    edges: Edges
    release_ns: IntArray
    gaps_ns: tuple[int, int]


def build_rank_graph(trace: Trace, *, keep_unexplained: bool = True) -> RankGraph:
    """Build the graph of one rank.

    Raises
    ------
    FileFormatError
        When the trace has no device events, or none of them can be tied to its launch.
    """
    tasks = device_tasks(trace, launch_rows(trace))
    _check_replayable(trace, tasks)
    waits = host_waits(trace, tasks)
    calls = tasks.launch_row[tasks.launch_row != ABSENT]
    segments = host_segments(trace, np.unique(np.concatenate([calls, np.array([w.row for w in waits], np.int64)])))
    num_host = len(segments.row)
    threads, devices = _thread_order(segments), device_order(trace, tasks, keep_unexplained=keep_unexplained)
    lanes, lane = np.unique(segments.lane, return_inverse=True)
    syncs, host_ns = _synchronisations(tasks, segments, waits, len(lanes))
    return RankGraph(
        row=np.concatenate([segments.row, tasks.row]),
        processor=np.concatenate([lane.astype(np.int64), tasks.stream + len(lanes)]),
        num_host=num_host,
        start_ns=np.concatenate([segments.start_ns, tasks.start_ns]),
        end_ns=np.concatenate([segments.end_ns, tasks.end_ns]),
        duration_ns=np.concatenate([host_ns, tasks.end_ns - tasks.start_ns]),
        release_ns=np.concatenate([threads.release_ns, devices.release_ns]),
        edges=stack_edges([threads.edges, devices.edges.shifted(num_host), _launch_edges(tasks, segments, devices)]),
        synchronisations=syncs,
        gaps_ns=threads.gaps_ns,
        waits_ns=devices.waits_ns,
    )


def _check_replayable(trace: Trace, tasks: DeviceTasks) -> None:
    path = trace.info.path
    if not len(tasks.row):
        raise FileFormatError(f"{path}: no device events, nothing to replay: record with ProfilerActivity.CUDA")
    if (tasks.launch_row == ABSENT).all():
        raise FileFormatError(f"{path}: no correlation id ties a device event to its launch: it cannot be replayed")


def _thread_order(segments: HostSegments) -> _ThreadOrder:
    """Order each thread; long gaps end when a task of another thread ends, other gaps are host work."""
    index = np.arange(len(segments.row))
    is_first = np.concatenate([[True], segments.lane[1:] != segments.lane[:-1]]) if len(index) else np.zeros(0, bool)
    before_end = np.where(is_first, 0, np.concatenate([[0], segments.end_ns[:-1]])[: len(index)])
    gap = segments.start_ns - before_end
    usual, is_long = _usual_gaps(segments, gap, is_first)
    releaser = _releasers(segments, before_end, np.flatnonzero(is_long))
    released = releaser != ABSENT
    lag = np.where(released, np.minimum(gap, usual), gap)
    order = Edges.of(index[~is_first] - 1, index[~is_first], Dependency.THREAD_ORDER, lag[~is_first])
    source = releaser[released]
    crossing = Edges.of(
        source, index[released], Dependency.CROSS_THREAD, segments.start_ns[released] - segments.end_ns[source]
    )
    return _ThreadOrder(
        edges=stack_edges([order, crossing]),
        release_ns=np.where(is_first & ~released, segments.start_ns, 0),
        gaps_ns=(int(gap[is_long].sum()), int(gap[is_long & ~released].sum())),
    )


def _usual_gaps(segments: HostSegments, gap: IntArray, is_first: BoolArray) -> tuple[IntArray, BoolArray]:
    """Median positive gap of each task's thread, and which gaps are unusually long."""
    usual = np.zeros(len(gap), np.int64)
    for lane in np.unique(segments.lane).tolist():
        own = segments.lane == lane
        positive = gap[own & ~is_first & (gap > 0)]
        usual[own] = int(np.median(positive)) if len(positive) else 0
    return usual, gap > np.maximum(LONG_GAP_NS, LONG_GAP_FACTOR * usual)


def _releasers(segments: HostSegments, before_end: IntArray, long: IntArray) -> IntArray:
    """For the tasks after a long gap: the task of another thread that ended last within the gap; else `ABSENT`."""
    best_end = before_end.copy()
    releaser = np.full(len(segments.row), ABSENT, np.int64)
    for lane in np.unique(segments.lane).tolist():
        own = np.flatnonzero(segments.lane == lane)
        others = long[segments.lane[long] != lane]
        last = np.searchsorted(segments.end_ns[own], segments.start_ns[others], side="right") - 1
        others, last = others[last >= 0], own[last[last >= 0]]
        later = segments.end_ns[last] > best_end[others]
        best_end[others[later]] = segments.end_ns[last[later]]
        releaser[others[later]] = last[later]
    return releaser


def _launch_edges(tasks: DeviceTasks, segments: HostSegments, order: DeviceOrder) -> Edges:
    """From the first segment of each launch call to what it launched."""
    launched = order.launched
    rows, first = np.unique(segments.row, return_index=True)
    source = first[np.searchsorted(rows, tasks.launch_row[launched])]
    return Edges.of(source, launched + len(segments.row), Dependency.LAUNCH, order.launch_lag_ns)


def _synchronisations(
    tasks: DeviceTasks, segments: HostSegments, waits: list[HostWait], num_lanes: int
) -> tuple[list[Synchronisation], IntArray]:
    """Return the waits as synchronisations and the host tasks' own time: without what they waited."""
    own = segments.end_ns - segments.start_ns
    last_of_row = dict(zip(segments.row.tolist(), range(len(segments.row)), strict=True))
    syncs = []
    for wait in waits:
        task = last_of_row[wait.row]
        start, end = int(segments.start_ns[task]), int(segments.end_ns[task])
        last = {stream: tasks.last_launched(stream, start) for stream in wait.streams}
        ends = {stream: int(tasks.end_ns[each]) for stream, each in last.items() if each != ABSENT}
        # A stream whose outstanding work ended after the call had returned was not waited for.
        streams = [stream for stream in wait.streams if ends.get(stream, 0) <= end + ROUNDING_NS]
        known_ends = [int(tasks.end_ns[each]) for each in wait.tasks]
        awaited = max([*known_ends, *(ends.get(stream, 0) for stream in streams)], default=0)
        residual = 0
        if awaited > start:
            residual = end - awaited
            own[task] = min(int(own[task]), max(residual, 0))
        processors = tuple(stream + num_lanes for stream in streams)
        syncs.append(Synchronisation(task, processors, tuple(t + len(own) for t in wait.tasks), residual))
    return syncs, own
