"""The ranks of one job put side by side into one `TaskGraph`."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from surrogate.traces.collectives import clock_offsets_ns, join_collectives
from surrogate.traces.columns import IntArray, Trace
from surrogate.traces.graph import Synchronisation, TaskGraph, stack_edges
from surrogate.traces.rank_graph import RankGraph, build_rank_graph


def build_graph(traces: Sequence[Trace], *, keep_unexplained: bool = True) -> TaskGraph:
    """Build the task graph of the ranks of one job.

    Parameters
    ----------
    traces : sequence of Trace
    keep_unexplained : bool
        Keep device waits that no dependency explains as they were measured. Without them a replay shows what the
        dependencies alone give.

    Raises
    ------
    FileFormatError
        When a trace has no device events, or none of them can be tied to its launch.
    """
    ranks = [build_rank_graph(trace, keep_unexplained=keep_unexplained) for trace in traces]
    tasks = np.cumsum([0, *(len(each.row) for each in ranks)]).tolist()
    processors = np.cumsum([0, *(int(each.processor.max()) + 1 for each in ranks)]).tolist()
    # Collectives tie the clocks together; without any, each rank keeps its own.
    offsets = clock_offsets_ns(traces) if len(traces) > 1 else [0]
    base = min(offsets)
    clocks = [offset - base for offset in offsets]
    places = [
        dict(zip(each.row[each.num_host :].tolist(), range(before + each.num_host, after), strict=True))
        for each, before, after in zip(ranks, tasks, tasks[1:], strict=False)
    ]
    return TaskGraph(
        rank=np.repeat(np.arange(len(ranks)), [len(each.row) for each in ranks]),
        row=np.concatenate([each.row for each in ranks]),
        processor=np.concatenate([each.processor + first for each, first in zip(ranks, processors, strict=False)]),
        is_device=np.concatenate([np.arange(len(each.row)) >= each.num_host for each in ranks]),
        start_ns=_on_one_clock([each.start_ns for each in ranks], clocks),
        end_ns=_on_one_clock([each.end_ns for each in ranks], clocks),
        duration_ns=np.concatenate([each.duration_ns for each in ranks]),
        release_ns=_on_one_clock([each.release_ns for each in ranks], clocks),
        edges=stack_edges([each.edges.shifted(first) for each, first in zip(ranks, tasks, strict=False)]),
        synchronisations=tuple(
            sync
            for each, first_task, first_processor in zip(ranks, tasks, processors, strict=False)
            for sync in _shifted(each, first_task, first_processor)
        ),
        collectives=join_collectives(traces, places, offsets) if len(traces) > 1 else (),
        unexplained_gap_fraction=_share([each.gaps_ns for each in ranks]),
        unexplained_wait_fraction=_share([each.waits_ns for each in ranks]),
    )


def _on_one_clock(columns: list[IntArray], clocks: list[int]) -> IntArray:
    return np.concatenate([column + clock for column, clock in zip(columns, clocks, strict=True)])


def _shifted(rank: RankGraph, first_task: int, first_processor: int) -> list[Synchronisation]:
    return [
        Synchronisation(
            task=sync.task + first_task,
            processors=tuple(each + first_processor for each in sync.processors),
            tasks=tuple(each + first_task for each in sync.tasks),
            residual_ns=sync.residual_ns,
        )
        for sync in rank.synchronisations
    ]


def _share(pairs: list[tuple[int, int]]) -> float:
    whole, part = (sum(each) for each in zip(*pairs, strict=True))
    return part / whole if whole else 0.0
