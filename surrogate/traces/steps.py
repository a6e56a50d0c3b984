"""Training steps of a trace: the host windows and the device work launched in each."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Final, NamedTuple

import numpy as np

from surrogate.traces.columns import ABSENT, IntArray, Trace
from surrogate.traces.kinds import EventKind
from surrogate.traces.links import launch_rows

PROFILER_STEP: Final = re.compile(r"^ProfilerStep\s*#\s*(\d+)$")
OPTIMIZER_STEP: Final = re.compile(r"^Optimizer\.step#|^optimizer[._ ]?step", re.IGNORECASE)
MIN_REPEATS: Final = 3
"""Fewer optimizer calls than this do not show a period."""


class Step(NamedTuple):
    """One step: its number, host window and thread. `from_annotation` tells ProfilerStep from inferred windows."""

    number: int
    start_ns: int
    end_ns: int
    lane: int
    from_annotation: bool


def find_steps(trace: Trace) -> list[Step]:
    """Return the steps in time order: ProfilerStep annotations, else windows between calls of the optimizer.

    A trace with neither has no steps; it is then looked at as a whole.
    """
    return _annotated_steps(trace) or _optimizer_steps(trace)


def _annotated_steps(trace: Trace) -> list[Step]:
    number_of = {code: int(match[1]) for code, name in enumerate(trace.names) if (match := PROFILER_STEP.match(name))}
    rows = np.flatnonzero((trace.kind <= EventKind.ANNOTATION) & np.isin(trace.name, list(number_of)))
    steps: dict[int, Step] = {}
    for row in rows.tolist():
        number = number_of[int(trace.name[row])]
        if number not in steps:
            steps[number] = _window(trace, number, int(trace.start_ns[row]), int(trace.end_ns[row]), row, True)
    return sorted(steps.values(), key=lambda step: step.start_ns)


def _optimizer_steps(trace: Trace) -> list[Step]:
    """Windows from the end of one optimizer call to the end of the next; the work before the first is not a step."""
    codes = [code for code, name in enumerate(trace.names) if OPTIMIZER_STEP.match(name)]
    rows = np.flatnonzero((trace.kind <= EventKind.ANNOTATION) & np.isin(trace.name, codes))
    if len(rows) < MIN_REPEATS:
        return []
    ends = trace.end_ns[rows].tolist()
    windows = zip(rows[1:].tolist(), ends[:-1], ends[1:], strict=True)
    return [_window(trace, n, start, end, row, False) for n, (row, start, end) in enumerate(windows, start=1)]


def _window(trace: Trace, number: int, start: int, end: int, row: int, annotated: bool) -> Step:
    return Step(number, start, end, int(trace.lane[row]), annotated)


def periods_ns(steps: list[Step]) -> list[int | None]:
    """Return the time from each step's start to the next one's; None for the last."""
    gaps: list[int | None] = [after.start_ns - step.start_ns for step, after in pairwise(steps)]
    return gaps + [None] * bool(steps)


def launched_rows(trace: Trace, steps: list[Step], rows: IntArray) -> list[IntArray]:
    """Return for each step those device `rows` whose launch call starts in the step's window.

    A device event without a recorded launch counts in no step, unless the trace records no launch at all:
    then the event's own start decides.
    """
    launches = launch_rows(trace)[rows]
    known = launches != ABSENT
    moment = np.where(known, trace.start_ns[launches], ABSENT)
    if not known.any():
        moment = trace.start_ns[rows]
    return [rows[(moment >= step.start_ns) & (moment < step.end_ns)] for step in steps]
