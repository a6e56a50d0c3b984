"""The chain of tasks that decided when the step ended."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from surrogate.traces.breakdown import seconds
from surrogate.traces.columns import ABSENT, Trace
from surrogate.traces.graph import TaskGraph
from surrogate.traces.kinds import CLASSES
from surrogate.traces.simulate import Timeline


class PathPart(NamedTuple):
    """One task on the critical path; times in s on the replay's clock."""

    rank: int
    lane: str
    name: str
    kind: str
    """``host`` or a kernel class."""
    start_s: float
    end_s: float


def critical_path(
    traces: Sequence[Trace], graph: TaskGraph, timeline: Timeline, window_ns: tuple[int, int]
) -> list[PathPart]:
    """Walk back from the last task that ended inside a window to the window's start.

    Each task's start was allowed last by its cause; a synchronisation's end by the device task it waited for.
    Neighbouring host tasks of one thread are joined.
    """
    inside = np.flatnonzero((timeline.end_ns <= window_ns[1]) & (timeline.end_ns > window_ns[0]))
    if not len(inside):
        return []
    parts: list[PathPart] = []
    task = int(inside[np.argmax(timeline.end_ns[inside])])
    moment, by_end = int(timeline.end_ns[task]), True
    while task != ABSENT and moment > window_ns[0]:
        waited = int(timeline.cause_of_end[task]) if by_end else ABSENT
        cause = waited if waited != ABSENT else int(timeline.cause[task])
        begin = int(timeline.start_ns[task])
        if waited != ABSENT or (cause != ABSENT and not graph.is_device[task] and not graph.is_device[cause]):
            # After a wait only the rest of the call counts; the gap before a host task is host work.
            begin = int(timeline.end_ns[cause])
        if by_end and begin < moment:
            parts.append(_part(traces, graph, task, (begin, moment)))
        # What launched a device task matters up to the start of the call, everything else up to its end.
        by_end = waited != ABSENT or cause == ABSENT or not (graph.is_device[task] and not graph.is_device[cause])
        moment = (
            min(int(timeline.end_ns[cause] if by_end else timeline.start_ns[cause]), moment) if cause != ABSENT else 0
        )
        task = cause
    return _joined(parts[::-1])


def time_by_kind(path: Sequence[PathPart], span_s: float) -> dict[str, float]:
    """Return seconds on the path by kind, the largest first; ``waiting`` is the rest of the span."""
    totals: dict[str, float] = {}
    for part in path:
        totals[part.kind] = totals.get(part.kind, 0.0) + part.end_s - part.start_s
    totals["waiting"] = max(float(span_s) - sum(totals.values()), 0.0)
    return dict(sorted(totals.items(), key=lambda item: -item[1]))


def _part(traces: Sequence[Trace], graph: TaskGraph, task: int, times_ns: tuple[int, int]) -> PathPart:
    position, row = int(graph.rank[task]), int(graph.row[task])
    trace = traces[position]
    on_device = bool(graph.is_device[task])
    return PathPart(
        rank=position if trace.info.rank is None else trace.info.rank,
        lane=f"stream {trace.stream[row]}" if on_device else f"thread {trace.lanes[trace.lane[row]][1]}",
        name=trace.names[trace.name[row]],
        kind=CLASSES[trace.kernel_class[row]].value if on_device else "host",
        start_s=seconds(times_ns[0]),
        end_s=seconds(times_ns[1]),
    )


def _joined(parts: list[PathPart]) -> list[PathPart]:
    joined: list[PathPart] = []
    for part in parts:
        if joined and part.kind == "host" and (joined[-1].kind, joined[-1].lane) == ("host", part.lane):
            joined[-1] = joined[-1]._replace(end_s=part.end_s)
        else:
            joined.append(part)
    return joined
