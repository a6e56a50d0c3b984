"""Discrete simulation of a task graph: every task starts as soon as what it waits for allows."""

from __future__ import annotations

import heapq
from collections import defaultdict
from typing import Final, NamedTuple

import numpy as np

from surrogate.errors import FileFormatError
from surrogate.traces.columns import ABSENT, IntArray
from surrogate.traces.graph import Dependency, Synchronisation, TaskGraph

UNFINISHED: Final = -(2**62)
"""End of a task that has not run."""


class Timeline(NamedTuple):
    """Simulated times of every task, ns, shape (n,), and why.

    `cause` is the task that the start waited for last; `cause_of_end`, for synchronisations and collectives, the task
    that the end waited for. `ABSENT`: none.
    """

    start_ns: IntArray
    end_ns: IntArray
    cause: IntArray
    cause_of_end: IntArray


def simulate(graph: TaskGraph) -> Timeline:
    """Replay a graph from its durations and dependencies alone.

    Returns
    -------
    Timeline
        `start_ns` and `end_ns` keep the order within every processor.

    Raises
    ------
    FileFormatError
        When tasks wait for each other in a circle; the message counts them.

    Notes
    -----
    Ready tasks are taken in the order of their possible starts. A synchronisation looks up at its own simulated
    start which device tasks were launched before it, and ends with the last of them. The kernels of one collective
    end together, one transfer after the last of them has started.
    """
    return _Simulation(graph).run()


class _Simulation:
    """State of one run: plain lists, because the loop touches single elements."""

    def __init__(self, graph: TaskGraph) -> None:
        self.graph = graph
        size = len(graph)
        self.duration: list[int] = graph.duration_ns.tolist()
        self.processor: list[int] = graph.processor.tolist()
        self.released: list[int] = graph.release_ns.tolist()
        self.missing: list[int] = np.bincount(graph.edges.target, minlength=size).tolist()
        self.cause = [ABSENT] * size
        self.start = [0] * size
        self.end = [UNFINISHED] * size
        self.at_start, self.at_end = _successors(graph)
        self.syncs: dict[int, list[Synchronisation]] = defaultdict(list)
        for sync in graph.synchronisations:
            self.syncs[sync.task].append(sync)
        self.call_of = {task: call for call, each in enumerate(graph.collectives) for task in each.tasks}
        self.absent_members = [len(each.tasks) for each in graph.collectives]
        self.last_launched = _launched_before(graph)
        self.waiting_for: dict[int, list[int]] = defaultdict(list)
        self.pending: dict[int, int] = {}
        self.awaited: dict[int, list[tuple[int, int]]] = {}
        self.cause_of_end: dict[int, int] = {}
        self.ready: list[tuple[int, int, int]] = []

    def run(self) -> Timeline:
        for task in np.flatnonzero(np.array(self.missing, np.int64) == 0).tolist():
            self._push(task)
        while self.ready:
            start, _, task = heapq.heappop(self.ready)
            self._begin(task, start)
        if left := self.end.count(UNFINISHED):
            raise FileFormatError(
                f"the trace's dependencies form a circle: {left} of {len(self.end)} tasks never start"
            )
        cause = np.array(self.cause, np.int64)
        awaited = np.full(len(cause), ABSENT, np.int64)
        awaited[list(self.cause_of_end)] = list(self.cause_of_end.values())
        return Timeline(np.array(self.start, np.int64), np.array(self.end, np.int64), cause, awaited)

    def _push(self, task: int) -> None:
        heapq.heappush(self.ready, (self.released[task], self.processor[task], task))

    def _begin(self, task: int, start: int) -> None:
        self.start[task] = start
        for target, lag in self.at_start[task]:
            stream = self.processor[target]
            self.last_launched[stream] = max(target, self.last_launched.get(stream, ABSENT))
            self._release(target, start + lag, task)
        if task in self.call_of:
            self._arrive(self.call_of[task])
        elif task in self.syncs:
            self._await(task)
        else:
            self._finish(task, start + self.duration[task])

    def _release(self, task: int, moment: int, source: int) -> None:
        if moment > self.released[task] or self.cause[task] == ABSENT:
            self.released[task] = max(moment, self.released[task])
            self.cause[task] = source
        self.missing[task] -= 1
        if not self.missing[task]:
            self._push(task)

    def _finish(self, task: int, end: int) -> None:
        self.end[task] = end
        for target, lag in self.at_end[task]:
            self._release(target, end + lag, task)
        for waiting in self.waiting_for.pop(task, ()):
            self.pending[waiting] -= 1
            if not self.pending[waiting]:
                self._return(waiting)

    def _arrive(self, call: int) -> None:
        """One kernel of a collective has started; the last one to start ends them all."""
        self.absent_members[call] -= 1
        if not self.absent_members[call]:
            members, transfer = self.graph.collectives[call]
            last = max(members, key=self.start.__getitem__)
            for member in members:
                if member != last:
                    self.cause_of_end[member] = last
                self._finish(member, self.start[last] + transfer)

    def _await(self, task: int) -> None:
        """Put a synchronisation aside until the tasks it waits for, known only now, have ended."""
        awaited = [(each, sync.residual_ns) for sync in self.syncs[task] for each in self._awaited(sync)]
        self.awaited[task] = awaited
        unfinished = {each for each, _ in awaited if self.end[each] == UNFINISHED}
        self.pending[task] = len(unfinished)
        for each in unfinished:
            self.waiting_for[each].append(task)
        if not unfinished:
            self._return(task)

    def _return(self, task: int) -> None:
        end = self.start[task] + self.duration[task]
        for each, residual in self.awaited.pop(task):
            if (moment := self.end[each] + residual) > end:
                end, self.cause_of_end[task] = moment, each
        self._finish(task, end)

    def _awaited(self, sync: Synchronisation) -> set[int]:
        launched = {self.last_launched[each] for each in sync.processors if each in self.last_launched}
        return launched | set(sync.tasks)


def _successors(graph: TaskGraph) -> tuple[list[list[tuple[int, int]]], list[list[tuple[int, int]]]]:
    """(target, lag) lists per source: those released by its start and those released by its end."""
    at_start: list[list[tuple[int, int]]] = [[] for _ in range(len(graph))]
    at_end: list[list[tuple[int, int]]] = [[] for _ in range(len(graph))]
    columns = (column.tolist() for column in graph.edges)
    for source, target, kind, lag in zip(*columns, strict=True):
        (at_start if kind == Dependency.LAUNCH else at_end)[source].append((target, lag))
    return at_start, at_end


def _launched_before(graph: TaskGraph) -> dict[int, int]:
    """Last task of each stream that no call of the trace launched: it was in flight when the trace began."""
    unlaunched = graph.is_device.copy()
    unlaunched[graph.edges.target[graph.edges.kind == Dependency.LAUNCH]] = False
    before: dict[int, int] = {}
    closed: set[int] = set()
    for task in np.flatnonzero(graph.is_device).tolist():
        stream = int(graph.processor[task])
        if stream in closed:
            continue
        if unlaunched[task]:
            before[stream] = task
        else:
            closed.add(stream)
    return before
