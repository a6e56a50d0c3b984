"""Which event belongs to which: launch calls to device events, operators to their parts."""

from __future__ import annotations

import numpy as np

from surrogate.traces.columns import ABSENT, IntArray, Trace
from surrogate.traces.kinds import EventKind


def launch_rows(trace: Trace) -> IntArray:
    """Return the row of the runtime call that launched each event, shape (n,), by correlation id; `ABSENT` if none."""
    runtime = np.flatnonzero((trace.kind == EventKind.RUNTIME) & (trace.correlation > 0))
    launched = np.flatnonzero(trace.is_device & (trace.correlation > 0))
    rows = np.full(len(trace), ABSENT, np.int64)
    rows[launched] = rows_with(trace.correlation[launched], runtime, trace.correlation[runtime])
    return rows


def rows_with(wanted: IntArray, rows: IntArray, keys: IntArray) -> IntArray:
    """Look up `wanted` among `keys` and return the first matching of `rows`, `ABSENT` where there is none."""
    if not len(rows):
        return np.full(len(wanted), ABSENT, np.int64)
    order = np.argsort(keys, kind="stable")
    place = np.minimum(np.searchsorted(keys[order], wanted), len(rows) - 1)
    found = order[place]
    return np.where(keys[found] == wanted, rows[found], ABSENT)


def host_parents(trace: Trace) -> IntArray:
    """Return the innermost enclosing host event of each host event on its thread, shape (n,); `ABSENT` at the top.

    An event that starts inside another counts as its child even where rounding lets it end later.
    """
    parents = np.full(len(trace), ABSENT, np.int64)
    host = np.flatnonzero(trace.kind <= EventKind.ANNOTATION)
    stacks: dict[int, list[tuple[int, int]]] = {}
    columns = zip(
        host.tolist(),
        trace.lane[host].tolist(),
        trace.start_ns[host].tolist(),
        trace.end_ns[host].tolist(),
        strict=True,
    )
    for row, lane, start, end in columns:
        stack = stacks.setdefault(lane, [])
        while stack and stack[-1][1] <= start:
            stack.pop()
        if stack:
            parents[row] = stack[-1][0]
        stack.append((row, end))
    return parents


def enclosing(trace: Trace, parents: IntArray, rows: IntArray, accepted: IntArray) -> IntArray:
    """Return for each of `rows` the nearest row among itself and its ancestors that is in `accepted`, else `ABSENT`."""
    is_accepted = np.zeros(len(trace) + 1, bool)
    is_accepted[accepted] = True
    parent_of = np.append(parents, ABSENT)
    current = rows.copy()
    while (open_ := (current != ABSENT) & ~is_accepted[current]).any():
        current[open_] = parent_of[current[open_]]
    return current
