"""Order on the device: streams, event waits, launch latencies, and the idle time that nothing explains.

The device's waits are derived: a task starts when its stream, its launch, its events and a kernel that fills the
device allow. A wait that none of them explains stays as a lag, and its share is reported.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from surrogate.traces.columns import ABSENT, BoolArray, IntArray, Trace
from surrogate.traces.graph import Dependency, Edges, stack_edges
from surrogate.traces.waits import GRAPH_LAUNCH, DeviceTasks, rows_matching, stream_waits

LATENCY_QUANTILE: Final = 0.95
"""Launch latencies beyond this quantile of those of idle streams are not believed to be latency."""

UNEXPLAINED_NS: Final = 10_000
"""Waits shorter than this are the scatter of latencies, not a missing dependency."""


class DeviceOrder(NamedTuple):
    """Edges among device tasks, and the lag behind their launch call of those in `launched`."""

    edges: Edges
    launched: IntArray
    launch_lag_ns: IntArray
    release_ns: IntArray
    waits_ns: tuple[int, int]


class _Situation(NamedTuple):
    """What is known of each device task, shape (d,), and the event waits as (source, target) tasks, shape (k,)."""

    is_first: BoolArray
    has_launch: BoolArray
    in_graph: BoolArray
    before_end: IntArray
    """End of the task before on the stream; 0 for the first."""
    waited_ns: IntArray
    """End of the latest event waited for; 0 without one."""
    source: IntArray
    target: IntArray


class _Lags(NamedTuple):
    """Time after the stream's previous task and after the launch call, shape (d,), and after each event, (k,); ns."""

    stream: IntArray
    launch: IntArray
    event: IntArray


class _Latencies(NamedTuple):
    """Typical times, ns: launch call to start on an idle stream, its upper bound, and between queued tasks."""

    launch: int
    launch_most: int
    queued_gap: int

    @classmethod
    def of(cls, latency: IntArray, gap: IntArray) -> _Latencies:
        """Summarise the latencies on idle streams and the gaps behind a task of the same stream."""
        latency, gap = latency[latency >= 0], gap[gap >= 0]
        return cls(
            launch=int(np.median(latency)) if len(latency) else 0,
            launch_most=int(np.quantile(latency, LATENCY_QUANTILE)) if len(latency) else 0,
            queued_gap=int(np.median(gap)) if len(gap) else 0,
        )


def device_order(trace: Trace, tasks: DeviceTasks, *, keep_unexplained: bool) -> DeviceOrder:
    """Derive the dependencies among the device tasks of one rank; waits that none explains stay or are dropped."""
    at = _situation(trace, tasks)
    lags = _lags(tasks, at)
    event_end = np.zeros(len(tasks.row), np.int64)
    np.maximum.at(event_end, at.target, tasks.end_ns[at.source] + lags.event)
    launch_end = np.where(at.has_launch, tasks.launch_ns + lags.launch, 0)
    allowed = np.stack([np.where(at.is_first, 0, at.before_end + lags.stream), launch_end, event_end])

    residual = np.where(at.is_first & ~at.has_launch, 0, np.maximum(tasks.start_ns - allowed.max(axis=0), 0))
    blocker = _blockers(tasks, np.flatnonzero(residual > UNEXPLAINED_NS))
    left = np.where(blocker == ABSENT, residual, 0)
    if keep_unexplained:
        lags = _keep_residual(lags, left, allowed.argmax(axis=0), at.target)
    blocked = np.flatnonzero(blocker != ABSENT)
    follow = np.flatnonzero(~at.is_first)
    edges = [
        Edges.of(follow - 1, follow, Dependency.STREAM_ORDER, lags.stream[follow]),
        Edges.of(at.source, at.target, Dependency.EVENT_WAIT, lags.event),
        Edges.of(
            blocker[blocked], blocked, Dependency.CONTENTION, tasks.start_ns[blocked] - tasks.end_ns[blocker[blocked]]
        ),
    ]
    idle = np.where(at.is_first, 0, np.maximum(tasks.start_ns - at.before_end, 0))
    unexplained = np.where(left > UNEXPLAINED_NS, np.minimum(left, idle), 0)
    return DeviceOrder(
        edges=stack_edges(edges),
        launched=np.flatnonzero(at.has_launch),
        launch_lag_ns=lags.launch[at.has_launch],
        release_ns=np.where(at.is_first & ~at.has_launch, tasks.start_ns, 0),
        waits_ns=(int(idle.sum()), int(unexplained.sum())),
    )


def _situation(trace: Trace, tasks: DeviceTasks) -> _Situation:
    is_first = np.isin(np.arange(len(tasks.row)), tasks.first)
    has_launch = tasks.launch_row != ABSENT
    source, target = _event_sources(trace, tasks)
    waited_ns = np.zeros(len(tasks.row), np.int64)
    np.maximum.at(waited_ns, target, tasks.end_ns[source])
    return _Situation(
        is_first=is_first,
        has_launch=has_launch,
        in_graph=has_launch & _next_to_graph_work(trace, tasks),
        before_end=np.where(is_first, 0, np.concatenate([[0], tasks.end_ns[:-1]])),
        waited_ns=waited_ns,
        source=source,
        target=target,
    )


def _lags(tasks: DeviceTasks, at: _Situation) -> _Lags:
    """Lags as short as typical latencies, so that a longer wait is left for a dependency to explain."""
    gap, latency = tasks.start_ns - at.before_end, tasks.start_ns - tasks.launch_ns
    stream_busy = ~at.is_first & (at.before_end > tasks.launch_ns)
    queued = stream_busy | (at.waited_ns > tasks.launch_ns)
    usual = _Latencies.of(
        latency[at.has_launch & ~queued & ~at.in_graph],
        gap[at.has_launch & stream_busy & (at.before_end > at.waited_ns) & ~at.in_graph],
    )
    launch_lag = np.minimum(latency, np.where(queued, usual.launch, usual.launch_most))
    # In and after a CUDA graph, and where no launch is recorded, the gap is all that is known of the dependency.
    return _Lags(
        stream=np.where((at.in_graph & stream_busy) | ~at.has_launch, gap, np.minimum(gap, usual.queued_gap)),
        launch=np.where(at.in_graph & ~queued, latency, launch_lag),
        event=np.minimum((tasks.start_ns - at.waited_ns)[at.target], usual.launch),
    )


def _next_to_graph_work(trace: Trace, tasks: DeviceTasks) -> BoolArray:
    """Tell which tasks are of a CUDA graph or follow one on their stream: only some of its nodes may be recorded."""
    by_graph = np.isin(tasks.launch_row, rows_matching(trace, GRAPH_LAUNCH))
    near: BoolArray = by_graph | np.concatenate([[False], by_graph[:-1] & (tasks.stream[1:] == tasks.stream[:-1])])
    return near


def _event_sources(trace: Trace, tasks: DeviceTasks) -> IntArray:
    """(source, target) tasks, shape (2, k): stream-wait calls, and streams of one CUDA graph that follow each other."""
    pairs = stream_waits(trace, tasks) + _graph_crossings(tasks)
    return np.array(sorted(set(pairs)), np.int64).reshape(-1, 2).T


def _graph_crossings(tasks: DeviceTasks) -> list[tuple[int, int]]:
    """Within one graph launch, a stream's first task follows the task of another stream that ended just before."""
    pairs = []
    order = np.lexsort((tasks.start_ns, tasks.launch_row))
    order = order[tasks.launch_row[order] != ABSENT]
    borders = np.flatnonzero(np.diff(tasks.launch_row[order])) + 1
    for group in np.split(order, borders):
        if len(group) < 2 or len(np.unique(tasks.stream[group])) < 2:
            continue
        for position, task in enumerate(group.tolist()):
            ended = group[:position][tasks.end_ns[group[:position]] <= tasks.start_ns[task]]
            if len(ended) and tasks.stream[last := int(ended[np.argmax(tasks.end_ns[ended])])] != tasks.stream[task]:
                pairs.append((last, task))
    return pairs


def _blockers(tasks: DeviceTasks, late: IntArray) -> IntArray:
    """For tasks that started late without a reason: the task of another stream at whose end they started.

    A kernel that fills the device keeps the others out until its last blocks drain.
    """
    blocker = np.full(len(tasks.row), ABSENT, np.int64)
    by_end = np.argsort(tasks.end_ns, kind="stable")
    ends = tasks.end_ns[by_end]
    for task in late.tolist():
        start = int(tasks.start_ns[task])
        low, high = np.searchsorted(ends, [start - UNEXPLAINED_NS, start + UNEXPLAINED_NS])
        near = by_end[low:high]
        near = near[
            (tasks.stream[near] != tasks.stream[task])
            & (tasks.device[near] == tasks.device[task])
            & (tasks.start_ns[near] < start)
        ]
        if len(near):
            blocker[task] = near[np.argmin(np.abs(tasks.end_ns[near] - start))]
    return blocker


def _keep_residual(lags: _Lags, left: IntArray, binding: IntArray, target: IntArray) -> _Lags:
    """Add what is left unexplained to the lag of the dependency that allowed the start last."""
    return _Lags(
        stream=lags.stream + np.where(binding == 0, left, 0),
        launch=lags.launch + np.where(binding == 1, left, 0),
        event=lags.event + np.where(binding == 2, left, 0)[target],
    )
