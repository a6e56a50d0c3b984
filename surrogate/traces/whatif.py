"""What-if on traces: edit the graph, replay it, and read the step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from surrogate.errors import InputError
from surrogate.traces.columns import Trace
from surrogate.traces.edits import LAYOUT, Edit, scale_durations
from surrogate.traces.graph import TaskGraph
from surrogate.traces.layout import Layout, edited_layouts, predict_layout
from surrogate.traces.phases import StepPhases, device_phases, is_training, step_phases
from surrogate.traces.replay import Replay, device_times, replay
from surrogate.traces.simulate import Timeline, simulate
from surrogate.traces.steps import find_steps, launched_rows
from surrogate.units import GIGA


class WhatIf(NamedTuple):
    """Step time as replayed and as predicted with the edits, s."""

    edits: tuple[str, ...]
    replayed_step_s: float
    predicted_step_s: float

    @property
    def speed_up(self) -> float:
        """Replayed over predicted step time."""
        return self.replayed_step_s / self.predicted_step_s if self.predicted_step_s else 1.0


def predict_edits(traces: Sequence[Trace], graph: TaskGraph, baseline: Replay, edits: Sequence[Edit]) -> WhatIf:
    """Predict the step time under edits: of durations through the graph, of the layout through the schedule.

    Raises
    ------
    InputError
        When an edit concerns nothing in the traces, or needs a backward pass that they do not have.
    """
    layout_edits = [edit for edit in edits if edit.name in LAYOUT]
    if layout_edits and not is_training(traces[0]):
        raise InputError(
            f"--what-if {layout_edits[0].name}",
            "needs a training trace",
            str(layout_edits[0]),
            "it has no backward pass",
        )
    edited = scale_durations(traces, graph, edits)
    timeline = simulate(edited)
    step_s = replay(traces, edited, timeline).replayed_step_s
    if layout_edits:
        phases = typical_phases(traces[0], edited, timeline, step_s)
        traced = Layout(pp=1, vp=1, microbatches=phases.num_microbatches, send_s=0.0)
        step_s = predict_layout(step_s, phases, *edited_layouts(traced, layout_edits))
    return WhatIf(tuple(map(str, edits)), baseline.replayed_step_s, step_s)


def typical_phases(trace: Trace, graph: TaskGraph, timeline: Timeline, step_s: float) -> StepPhases:
    """Return the phases of the step whose launched work spans about the step time, on the first rank."""
    start, end = device_times(graph, timeline, trace, 0)
    rows = trace.main_device_rows
    candidates = [own for own in launched_rows(trace, find_steps(trace), rows) if len(own)] or [rows]
    spans = [int(end[own].max() - start[own].min()) for own in candidates]
    own = candidates[int(np.argmin(np.abs(np.array(spans) - step_s * GIGA)))]
    return step_phases(trace, own, device_phases(trace), (start[own], end[own]), round(step_s * GIGA))
