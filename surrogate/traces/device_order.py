"""Order on the device: streams, event waits, launch latencies, and the idle time that nothing explains.

The device's waits are derived: a task starts when its stream, its launch, its events and a kernel that fills the
device allow. A wait that none of them explains stays as a lag, and its share is reported.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from surrogate.traces.columns import ABSENT, IntArray, Trace
from surrogate.traces.graph import Dependency, Edges, stack_edges
from surrogate.traces.waits import DeviceTasks, stream_waits

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


class _Lags(NamedTuple):
    """Moments at which the stream, the launch and the events would let each task start, ns; 0: does not apply."""

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


def device_order(trace: Trace, tasks: DeviceTasks) -> DeviceOrder:
    """Derive the dependencies among the device tasks of one rank."""
    index = np.arange(len(tasks.row))
    is_first = np.isin(index, tasks.first)
    has_launch = tasks.launch_row != ABSENT
    before_end = np.where(is_first, 0, np.concatenate([[0], tasks.end_ns[:-1]]))
    in_graph = ~is_first & has_launch & (tasks.launch_row == np.concatenate([[ABSENT], tasks.launch_row[:-1]]))
    source, target = _event_sources(trace, tasks)
    waited_ns = np.zeros(len(index), np.int64)
    np.maximum.at(waited_ns, target, tasks.end_ns[source])
    gap, latency = tasks.start_ns - before_end, tasks.start_ns - tasks.launch_ns
    queued = in_graph | (np.maximum(before_end, waited_ns) > tasks.launch_ns)
    behind_stream = ~is_first & (before_end > np.maximum(tasks.launch_ns, waited_ns))
    usual = _Latencies.of(latency[has_launch & ~queued], gap[has_launch & behind_stream])

    # Inside a CUDA graph, and where no launch is recorded, the gap is all that is known of the dependency.
    stream_lag = np.where(in_graph | ~has_launch, gap, np.minimum(gap, usual.queued_gap))
    launch_lag = np.minimum(latency, np.where(queued, usual.launch, usual.launch_most))
    event_lag = np.minimum((tasks.start_ns - waited_ns)[target], usual.launch)
    event_end = np.zeros(len(index), np.int64)
    np.maximum.at(event_end, target, tasks.end_ns[source] + event_lag)
    lags = _Lags(before_end + stream_lag, np.where(has_launch, tasks.launch_ns + launch_lag, 0), event_end)

    residual = np.maximum(tasks.start_ns - np.maximum.reduce(lags), 0)
    blocker = _blockers(tasks, np.flatnonzero(residual > UNEXPLAINED_NS))
    left = np.where(blocker == ABSENT, residual, 0)
    stream_lag, launch_lag, event_lag = _keep_residual(lags, left, (stream_lag, launch_lag, event_lag), target)
    blocked = np.flatnonzero(blocker != ABSENT)
    block_lag = tasks.start_ns[blocked] - tasks.end_ns[blocker[blocked]]
    follow = index[~is_first]
    edges = [
        Edges.of(follow - 1, follow, Dependency.STREAM_ORDER, stream_lag[follow]),
        Edges.of(source, target, Dependency.EVENT_WAIT, event_lag),
        Edges.of(blocker[blocked], blocked, Dependency.CONTENTION, block_lag),
    ]
    idle = np.where(is_first, 0, np.maximum(gap, 0))
    unexplained = np.where(left > UNEXPLAINED_NS, np.minimum(left, idle), 0)
    return DeviceOrder(
        edges=stack_edges(edges),
        launched=index[has_launch],
        launch_lag_ns=launch_lag[has_launch],
        release_ns=np.where(is_first & ~has_launch, tasks.start_ns, 0),
        waits_ns=(int(idle.sum()), int(unexplained.sum())),
    )


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


def _keep_residual(
    reached: _Lags, left: IntArray, lags: tuple[IntArray, IntArray, IntArray], target: IntArray
) -> tuple[IntArray, IntArray, IntArray]:
    """Add what is left unexplained to the lag of the dependency that allowed the start last."""
    stream_lag, launch_lag, event_lag = lags
    binding = np.argmax(np.stack(reached), axis=0)
    return (
        stream_lag + np.where(binding == 0, left, 0),
        launch_lag + np.where(binding == 1, left, 0),
        event_lag + np.where(binding == 2, left, 0)[target],
    )
