"""The task graph of one or several ranks: tasks, processors and the dependencies between them.

A task is a leaf segment of a host thread or a device event; a processor is one (rank, thread) or (rank, device,
stream). An edge says: the target starts no earlier than the source's end (or start) plus a lag.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from surrogate.traces.columns import BoolArray, FloatArray, IntArray


class Dependency(IntEnum):
    """Kinds of edges; the code is what `Edges.kind` holds."""

    THREAD_ORDER = 0
    CROSS_THREAD = 1
    LAUNCH = 2
    STREAM_ORDER = 3
    EVENT_WAIT = 4
    CONTENTION = 5


class Edges(NamedTuple):
    """Fixed dependencies, shape (e,): target.start >= source.end (start for launches) + lag."""

    source: IntArray
    target: IntArray
    kind: NDArray[np.int8]
    lag_ns: IntArray

    @classmethod
    def of(cls, source: IntArray, target: IntArray, kind: Dependency, lag_ns: IntArray) -> Edges:
        """Return edges of one kind."""
        return cls(source, target, np.full(len(source), kind, np.int8), lag_ns)

    def shifted(self, num_tasks: int) -> Edges:
        """Return the edges with both ends counted `num_tasks` higher."""
        return self._replace(source=self.source + num_tasks, target=self.target + num_tasks)


def stack_edges(parts: Sequence[Edges]) -> Edges:
    """Return the edges of all parts as one."""
    return Edges(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))


class Synchronisation(NamedTuple):
    """A host task that returns only when device work has ended.

    ``processors`` are streams whose last task launched so far is waited for (known only while simulating);
    ``tasks`` are device tasks known beforehand. The task ends `residual_ns` after the last of them.
    """

    task: int
    processors: tuple[int, ...]
    tasks: tuple[int, ...]
    residual_ns: int


class CollectiveCall(NamedTuple):
    """Device tasks of several ranks that end together, `transfer_ns` after the last of them starts."""

    tasks: tuple[int, ...]
    transfer_ns: int


@dataclass(frozen=True, kw_only=True, slots=True)
class TaskGraph:
    """Tasks of shape (n,) with their measured times, and what each waits for.

    Times are ns on the clock of the first rank. `duration_ns` is the task's own length: for a host task that
    waited for the device, what remains without the wait.
    """

    rank: IntArray
    """Position of the task's trace among the traces."""
    row: IntArray
    """Row of the task's event in its trace."""
    processor: IntArray
    is_device: BoolArray
    start_ns: IntArray
    end_ns: IntArray
    duration_ns: IntArray
    release_ns: IntArray
    """Earliest start of tasks that wait for nothing recorded; 0 elsewhere."""
    edges: Edges
    synchronisations: tuple[Synchronisation, ...] = ()
    collectives: tuple[CollectiveCall, ...] = ()
    unexplained_gap_fraction: float = 0.0
    """Share of the long host gaps' time that no other thread's task ends."""
    unexplained_wait_fraction: float = 0.0
    """Share of the device's idle time between tasks that no dependency explains."""

    def __len__(self) -> int:
        return len(self.row)

    def without(self, kind: Dependency) -> TaskGraph:
        """Return the graph with one kind of edges taken out: what a model that ignores them would replay."""
        keep = self.edges.kind != kind
        return replace(self, edges=Edges(*(column[keep] for column in self.edges)))

    def with_durations(self, duration_ns: FloatArray | IntArray) -> TaskGraph:
        """Return the graph with other task lengths; collectives scale as the longest of their tasks does."""
        ratio = np.ones(len(self))
        np.divide(duration_ns, self.duration_ns, out=ratio, where=self.duration_ns > 0)
        collectives = tuple(
            CollectiveCall(call.tasks, round(call.transfer_ns * float(ratio[list(call.tasks)].max())))
            for call in self.collectives
        )
        return replace(self, duration_ns=np.rint(duration_ns).astype(np.int64), collectives=collectives)
