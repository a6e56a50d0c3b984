"""What-if for the pipeline: other numbers of stages, chunks and micro-batches, by regenerating the schedule.

The traced step is reduced to a model of its phases; the answer is the replayed step times the ratio of that model
at the new and at the traced layout, so that what the model leaves out cancels.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from surrogate.analytic.workload import Schedule
from surrogate.errors import InputError
from surrogate.traces.edits import LAYOUT, Edit
from surrogate.traces.phases import StepPhases
from surrogate.traces.pipeline import MeasuredPipeline, PipelineReplay, replay_pipeline
from surrogate.traces.schedule import PipelineTimes, simulate_step


class Layout(NamedTuple):
    """Pipeline stages, chunks per stage, micro-batches per step, seconds per send."""

    pp: int
    vp: int
    microbatches: int
    send_s: float

    @property
    def schedule(self) -> Schedule:
        """1F1B, or the interleaved form with several chunks per stage."""
        return Schedule.ONE_F_ONE_B if self.vp == 1 else Schedule.INTERLEAVED


def edited_layouts(traced: Layout, edits: Sequence[Edit]) -> tuple[Layout, Layout]:
    """Return the traced and the new layout; a traced value that an edit names wins over the trace's.

    Raises
    ------
    InputError
        When several chunks are asked for on one stage.
    """
    before, after = traced._asdict(), traced._asdict()
    for edit in edits:
        if edit.name in LAYOUT:
            kind = float if edit.name == "send_s" else int
            if edit.source is not None:
                before[edit.name] = kind(edit.source)
            after[edit.name] = kind(edit.value)
    new = Layout(**after)
    if new.vp > 1 and new.pp == 1:
        raise InputError("--what-if vp", "needs a pipeline", new.vp, "add pp=FROM:TO")
    return Layout(**before), new


def predict_layout(step_s: float, phases: StepPhases, traced: Layout, new: Layout) -> float:
    """Return the step time at a new pipeline layout.

    Parameters
    ----------
    step_s : float
        Replayed step, s.
    phases : StepPhases
        Wall time of its parts on one rank.
    traced, new : Layout
        From `edited_layouts`.

    Notes
    -----
    Layers are split evenly: a stage's pass takes traced.pp / new.pp of the traced one's time, its optimizer
    likewise. What lies between steps stays.
    """
    modelled_s = _modelled_s(phases, traced, traced)
    return step_s * _modelled_s(phases, traced, new) / modelled_s if modelled_s else step_s


def predict_pipeline(measured: MeasuredPipeline, edits: Sequence[Edit]) -> tuple[PipelineReplay, float]:
    """Return the replay of a measured pipeline and its step time at an edited layout, s.

    Raises
    ------
    InputError
        When an edit is not about the layout.
    """
    wrong = [edit for edit in edits if edit.name not in LAYOUT]
    if wrong:
        raise InputError(f"--what-if {wrong[0].name}", f"must be one of {', '.join(LAYOUT)}", str(wrong[0]))
    replayed, times = replay_pipeline(measured), measured.times
    p, v, m = times.forward_s.shape
    _, new = edited_layouts(Layout(p, v, m, times.send_s), edits)
    if (new.pp, new.vp, new.microbatches) == (p, v, m):
        edited = times._replace(send_s=new.send_s)
    else:
        edited = _regrouped(times, new)
    return replayed, replayed.measured_s * simulate_step(edited, new.schedule).step_s / replayed.simulated_s


def _modelled_s(phases: StepPhases, traced: Layout, layout: Layout) -> float:
    share = traced.pp / layout.pp
    passes = [part * share / (traced.microbatches * layout.vp) for part in (phases.forward_s, phases.backward_s)]
    forward, backward = (np.full((layout.pp, layout.vp, layout.microbatches), each) for each in passes)
    pipeline = simulate_step(PipelineTimes(forward, backward, layout.send_s), layout.schedule)
    return pipeline.step_s + phases.optimizer_s * share + phases.other_s


def _regrouped(times: PipelineTimes, new: Layout) -> PipelineTimes:
    """Spread the measured model over other stages: the median pass over all model parts, cut into equal pieces.

    With the same stages and chunks each keeps its own median, so that an uneven split stays uneven.
    """
    p, v, _ = times.forward_s.shape
    shape = (new.pp, new.vp, new.microbatches)
    passes = []
    for each in (times.forward_s, times.backward_s):
        per_part = np.median(each, axis=2)
        if (p, v) != (new.pp, new.vp):
            per_part = np.full((new.pp, new.vp), per_part.sum() / (new.pp * new.vp))
        passes.append(np.broadcast_to(per_part[:, :, None], shape).copy())
    return PipelineTimes(passes[0], passes[1], new.send_s, times.tail_s)
