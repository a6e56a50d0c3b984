"""Host threads as rows of tasks: leaf segments of nested events, so that segments plus gaps are the wall time."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from surrogate.traces.columns import IntArray, Trace
from surrogate.traces.kinds import EventKind


class HostSegments(NamedTuple):
    """Stretches in which one event is the innermost of its thread, ordered by thread and time; shape (k,)."""

    row: IntArray
    lane: IntArray
    start_ns: IntArray
    end_ns: IntArray


def host_segments(trace: Trace, needed: IntArray) -> HostSegments:
    """Cut the operators and runtime calls of each thread into leaf segments.

    Parameters
    ----------
    trace : Trace
    needed : array of int
        Rows that must have a segment even when they take no time: launches and synchronisations.

    Notes
    -----
    Annotations are not work: the time in which only an annotation is open is a gap. Threads that hold neither
    an operator nor a needed row (watchdogs that poll) are left out: nothing depends on them.
    """
    is_needed = np.zeros(len(trace), bool)
    is_needed[needed] = True
    host = (trace.kind == EventKind.OPERATOR) | (trace.kind == EventKind.RUNTIME)
    lanes = np.unique(trace.lane[host & (is_needed | (trace.kind == EventKind.OPERATOR))])
    pieces = [_lane_segments(trace, np.flatnonzero(host & (trace.lane == lane)), is_needed) for lane in lanes]
    table = np.array([piece for lane_pieces in pieces for piece in lane_pieces], np.int64).reshape(-1, 3)
    return HostSegments(table[:, 0], trace.lane[table[:, 0]].astype(np.int64), table[:, 1], table[:, 2])


def _lane_segments(
    trace: Trace, rows: IntArray, is_needed: np.ndarray[tuple[int], np.dtype[np.bool_]]
) -> list[tuple[int, int, int]]:
    """Sweep one thread with a stack of open events; each (row, start, end) is time at the top of the stack."""
    segments: list[tuple[int, int, int]] = []
    stack: list[tuple[int, int, bool]] = []
    cursor = 0

    def close_until(moment: int) -> None:
        nonlocal cursor
        while stack and stack[-1][1] <= moment:
            row, end, owed = stack.pop()
            if end > cursor or owed:
                segments.append((row, cursor, max(cursor, end)))
                cursor = max(cursor, end)

    columns = (trace.start_ns[rows], trace.end_ns[rows], is_needed[rows])
    for row, start, end, needed in zip(rows.tolist(), *(column.tolist() for column in columns), strict=True):
        close_until(start)
        if stack and start > cursor:
            top, top_end, _ = stack[-1]
            segments.append((top, cursor, start))
            stack[-1] = (top, top_end, False)
        cursor = max(cursor, start)
        stack.append((row, end, needed))
    close_until(int(trace.end_ns[rows].max(initial=0)))
    return segments
