"""Collective calls across ranks: which kernels belong to one call, and how far the ranks' clocks are apart."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from typing import Final

import numpy as np

from surrogate.traces.columns import ABSENT, COMMUNICATION_CODE, IntArray, Trace
from surrogate.traces.graph import CollectiveCall

_ARGUMENT_LIST: Final = re.compile(r"[(<].*$", re.DOTALL)
CallKey = tuple[str, str, int]


def collective_rows(trace: Trace) -> IntArray:
    """Return the rows of the communication kernels of the main device, in time order."""
    rows = trace.main_device_rows
    selected: IntArray = rows[trace.kernel_class[rows] == COMMUNICATION_CODE]
    return selected


def matched_calls(traces: Sequence[Trace]) -> list[dict[int, int]]:
    """Return the calls that several ranks share, each as trace position -> row of its kernel.

    Calls match by group and sequence number where recorded, else by kernel name and order of appearance. A kernel
    name that appears unequally often on the ranks is not matched by order.
    """
    keyed = [_keyed_rows(trace) for trace in traces]
    shared: dict[CallKey, dict[int, int]] = defaultdict(dict)
    for position, rows_by_key in enumerate(keyed):
        for key, row in rows_by_key.items():
            shared[key][position] = row
    counts = [_count_by_name(rows_by_key) for rows_by_key in keyed]
    return [
        call
        for (group, name, _), call in shared.items()
        if len(call) > 1 and (group or len({counts[position][name] for position in call}) == 1)
    ]


def clock_offsets_ns(traces: Sequence[Trace]) -> list[int]:
    """Return what to add to each trace's clock to be on the first one's: matched calls end together."""
    offsets: list[list[int]] = [[] for _ in traces]
    for call in matched_calls(traces):
        if 0 in call:
            end = int(traces[0].end_ns[call[0]])
            for position, row in call.items():
                offsets[position].append(end - int(traces[position].end_ns[row]))
    return [int(np.median(each)) if each else 0 for each in offsets]


def join_collectives(
    traces: Sequence[Trace], tasks: Sequence[dict[int, int]], offsets_ns: Sequence[int]
) -> tuple[CollectiveCall, ...]:
    """Return the matched calls whose kernels really ran at the same time.

    Parameters
    ----------
    traces : sequence of Trace
    tasks : sequence of dict
        Task of each device row, per trace.
    offsets_ns : sequence of int
        Clock offsets of the traces.

    Notes
    -----
    The transfer is the shortest duration over the ranks: the last rank to arrive does not wait.
    """
    calls = []
    for call in matched_calls(traces):
        starts = [int(traces[position].start_ns[row]) + offsets_ns[position] for position, row in call.items()]
        lengths = [int(traces[position].duration_ns[row]) for position, row in call.items()]
        if max(starts) <= min(start + length for start, length in zip(starts, lengths, strict=True)):
            members = tuple(tasks[position][row] for position, row in call.items())
            calls.append(CollectiveCall(members, min(lengths)))
    return tuple(calls)


def _keyed_rows(trace: Trace) -> dict[CallKey, int]:
    seen: dict[str, int] = defaultdict(int)
    keyed: dict[CallKey, int] = {}
    for row in collective_rows(trace).tolist():
        known = trace.collectives.get(row)
        name = _ARGUMENT_LIST.sub("", trace.names[trace.name[row]])
        if known is not None and known.sequence != ABSENT and known.group:
            keyed.setdefault((known.group, known.operation, known.sequence), row)
        else:
            keyed["", name, seen[name]] = row
            seen[name] += 1
    return keyed


def _count_by_name(rows_by_key: dict[CallKey, int]) -> dict[str, int]:
    counts: dict[str, int] = defaultdict(int)
    for _, name, _ in rows_by_key:
        counts[name] += 1
    return counts
