"""Parts of a training step: which device work belongs to the forward, the backward and the optimizer."""

from __future__ import annotations

import re
from enum import IntEnum
from typing import Final, NamedTuple

import numpy as np

from surrogate.traces.breakdown import seconds
from surrogate.traces.columns import ABSENT, COMMUNICATION_CODE, IntArray, Trace
from surrogate.traces.kinds import EventKind
from surrogate.traces.links import enclosing, host_parents, launch_rows
from surrogate.traces.steps import OPTIMIZER_STEP, PROFILER_STEP

_BACKWARD_OPERATOR: Final = re.compile(r"^autograd::engine|Backward\d*$|BackwardBase$", re.IGNORECASE)
_TRAINING_NAME: Final = re.compile(
    r"backward|autograd::engine|^Optimizer\.|optimizer[._ ]?step|wgrad|dgrad|_bwd_", re.IGNORECASE
)
MIN_RUN: Final = 5
"""Shorter runs of kernels of one phase do not open a micro-batch: a stray copy inside a backward pass is no forward."""


class Phase(IntEnum):
    """Part of the step a device event belongs to."""

    FORWARD = 0
    BACKWARD = 1
    OPTIMIZER = 2


class StepPhases(NamedTuple):
    """Wall time of the parts of one step, s; they sum to the step. `other_s` is what lies between two steps' work."""

    forward_s: float
    backward_s: float
    optimizer_s: float
    other_s: float
    num_microbatches: int


def is_training(trace: Trace) -> bool:
    """Tell whether a trace holds a backward pass or an optimizer step, by the names of its events."""
    return any(_TRAINING_NAME.search(name) for name in trace.names)


def device_phases(trace: Trace) -> IntArray:
    """Return the `Phase` of every row that was launched on the device, shape (n,); forward where nothing says else.

    Notes
    -----
    A kernel is backward when its launch lies inside an autograd operator or on a thread of the autograd engine: most
    of such a thread's launches are backward, and hooks that reduce gradients run on it. It is optimizer when its launch
    lies inside an optimizer annotation. Recomputed forwards run inside autograd operators and count as backward.
    """
    parents, launches = host_parents(trace), launch_rows(trace)
    launched = np.flatnonzero(launches != ABSENT)
    calls = launches[launched]
    backward, optimizer = _rows_named(trace, _BACKWARD_OPERATOR), _rows_named(trace, OPTIMIZER_STEP)
    in_backward = enclosing(trace, parents, calls, backward) != ABSENT
    main_lanes = trace.lane[np.concatenate([optimizer, _rows_named(trace, PROFILER_STEP)])]
    lanes = trace.lane[calls]
    all_calls, backward_calls = (np.bincount(each, minlength=len(trace.lanes)) for each in (lanes, lanes[in_backward]))
    mostly_backward = np.flatnonzero((backward_calls > 0) & (2 * backward_calls >= all_calls))
    engine_lanes = np.setdiff1d(mostly_backward, main_lanes)
    phases = np.full(len(trace), Phase.FORWARD, np.int64)
    phases[launched[in_backward | np.isin(lanes, engine_lanes)]] = Phase.BACKWARD
    phases[launched[enclosing(trace, parents, calls, optimizer) != ABSENT]] = Phase.OPTIMIZER
    return phases


def _rows_named(trace: Trace, pattern: re.Pattern[str]) -> IntArray:
    """Return the operators and annotations whose name a pattern finds."""
    codes = [code for code, name in enumerate(trace.names) if pattern.search(name)]
    host = (trace.kind == EventKind.OPERATOR) | (trace.kind == EventKind.ANNOTATION)
    return np.flatnonzero(host & np.isin(trace.name, codes))


def step_phases(
    trace: Trace, rows: IntArray, phases: IntArray, times_ns: tuple[IntArray, IntArray], step_ns: int
) -> StepPhases:
    """Split a step's wall time by the phase of the device work.

    Parameters
    ----------
    trace : Trace
    rows : array of int, shape (k,)
        Device rows launched in the step.
    phases : array of int, shape (n,)
        From `device_phases`.
    times_ns : (array, array), shape (k,)
        Starts and ends of the rows: measured or replayed.
    step_ns : int
        Length of the step.

    Notes
    -----
    The time from one compute event's start to the next one's belongs to the phase of the first. Communication does
    not open a phase: it overlaps.
    """
    compute = trace.kernel_class[rows] != COMMUNICATION_CODE
    start, end = (each[compute] for each in times_ns)
    if not len(start):
        return StepPhases(0.0, 0.0, 0.0, seconds(step_ns), 1)
    order = np.argsort(start, kind="stable")
    phase, start, end = phases[rows[compute]][order], start[order], end[order]
    spans = np.diff(np.append(start, max(int(end.max()), int(start[-1]))))
    wall = np.bincount(phase, weights=spans, minlength=len(Phase))
    scale = min(1.0, step_ns / max(float(wall.sum()), 1.0))
    forward, backward, optimizer = (seconds(float(each) * scale) for each in wall)
    return StepPhases(
        forward, backward, optimizer, seconds(max(step_ns - float(wall.sum()), 0.0)), _num_microbatches(phase)
    )


def _num_microbatches(phase: IntArray) -> int:
    """Count the turns from forward to backward, leaving out runs of a few kernels."""
    borders = np.flatnonzero(np.diff(phase)) + 1
    runs = [run for run in np.split(phase, borders) if len(run) >= MIN_RUN]
    kinds = [int(run[0]) for run in runs]
    turns = sum(
        1 for before, after in zip(kinds, kinds[1:], strict=False) if (before, after) == (Phase.FORWARD, Phase.BACKWARD)
    )
    return max(turns, 1)
