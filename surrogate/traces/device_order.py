"""Order on the device: streams, event waits, launch latencies, and the idle time that nothing explains.

The device's waits are not recorded but derived: a task starts when its stream, its launch and its events allow.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from surrogate.traces.columns import ABSENT, BoolArray, IntArray, Trace
from surrogate.traces.graph import Dependency, Edges, stack_edges
from surrogate.traces.waits import DeviceTasks, stream_waits

LATENCY_QUANTILE: Final = 0.95
"""Launch latencies beyond this quantile of those of idle streams are not believed to be latency."""


class DeviceOrder(NamedTuple):
    """Edges among device tasks, and the lag behind their launch call of those in `launched`."""

    edges: Edges
    launched: IntArray
    launch_lag_ns: IntArray
    release_ns: IntArray
    waits_ns: tuple[int, int]


class _Latencies(NamedTuple):
    """Typical times, ns: launch call to start on an idle stream, its upper bound, and between queued tasks."""

    launch: int
    launch_most: int
    queued_gap: int


def device_order(trace: Trace, tasks: DeviceTasks) -> DeviceOrder:
    """Derive the dependencies among the device tasks of one rank."""
    num_tasks = len(tasks.row)
    index = np.arange(num_tasks)
    is_first = np.isin(index, tasks.first)
    before_end = np.where(is_first, tasks.start_ns, np.concatenate([[0], tasks.end_ns[:-1]]))
    gap = tasks.start_ns - before_end
    has_launch = tasks.launch_row != ABSENT
    follows_in_graph = ~is_first & has_launch & (tasks.launch_row == np.concatenate([[ABSENT], tasks.launch_row[:-1]]))
    event_source = _event_sources(trace, tasks)
    waited_ns = np.full(num_tasks, np.iinfo(np.int64).min)
    np.maximum.at(waited_ns, event_source[1], tasks.end_ns[event_source[0]])
    queued = (np.where(is_first, 0, before_end) > tasks.launch_ns) | (waited_ns > tasks.launch_ns)
    usual = _latencies(tasks, gap, has_launch & ~follows_in_graph, queued)

    # Inside a CUDA graph, and where no launch is recorded, the gap is all that is known of the dependency.
    stream_lag = np.where(follows_in_graph | ~has_launch, gap, np.minimum(gap, usual.queued_gap))
    latency = tasks.start_ns - tasks.launch_ns
    launch_lag = np.minimum(latency, np.where(queued | follows_in_graph, usual.launch, usual.launch_most))
    launched = index[has_launch]
    event_lag = np.minimum(tasks.start_ns[event_source[1]] - tasks.end_ns[event_source[0]], usual.launch)

    explained = np.where(is_first, np.where(has_launch, 0, tasks.start_ns), before_end + stream_lag)
    np.maximum.at(explained, launched, (tasks.launch_ns + launch_lag)[launched])
    np.maximum.at(explained, event_source[1], tasks.end_ns[event_source[0]] + event_lag)
    idle = np.where(is_first, 0, np.maximum(gap, 0))
    return DeviceOrder(
        edges=stack_edges(
            [
                Edges.of(index[~is_first] - 1, index[~is_first], Dependency.STREAM_ORDER, stream_lag[~is_first]),
                Edges.of(event_source[0], event_source[1], Dependency.EVENT_WAIT, event_lag),
            ]
        ),
        launched=launched,
        launch_lag_ns=launch_lag[launched],
        release_ns=np.where(is_first & ~has_launch, tasks.start_ns, 0),
        waits_ns=(int(idle.sum()), int(np.minimum(np.maximum(tasks.start_ns - explained, 0), idle).sum())),
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


def _latencies(tasks: DeviceTasks, gap: IntArray, launched: BoolArray, queued: BoolArray) -> _Latencies:
    latency = (tasks.start_ns - tasks.launch_ns)[launched & ~queued]
    latency = latency[latency >= 0]
    between = gap[launched & queued & (gap >= 0)]
    return _Latencies(
        launch=int(np.median(latency)) if len(latency) else 0,
        launch_most=int(np.quantile(latency, LATENCY_QUANTILE)) if len(latency) else 0,
        queued_gap=int(np.median(between)) if len(between) else 0,
    )
