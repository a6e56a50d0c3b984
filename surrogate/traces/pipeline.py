"""Measured pipelines: per rank and iteration, the start and end of the forward and backward of every micro-batch.

Format: a folder of ``pp_rank_<r>.json`` files (iteration -> ``total``, ``fwd_start``, ``fwd_end``, ``bwd_start``,
``bwd_end`` in ms) with an optional ``config.json`` (``pp_size``, ``vp_size``, ``num_mbs``).
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import orjson

from surrogate.analytic.pipeline_events import stage_order
from surrogate.analytic.workload import Schedule
from surrogate.errors import FileFormatError
from surrogate.traces.columns import FloatArray, json_object
from surrogate.traces.schedule import PipelineStep, PipelineTimes, simulate_step
from surrogate.units import MILLI

RANK_FILE: Final = re.compile(r"^pp_rank_(\d+)\.json$")
WARM_UP_ITERATIONS: Final = 3
"""Iterations dropped at the start where more than twice as many were measured."""
_KEYS: Final = ("fwd_start", "fwd_end", "bwd_start", "bwd_end")


class MeasuredPipeline(NamedTuple):
    """Times of one run, medians over its steady iterations.

    ``times`` holds lengths of shape (p, v, m); ``step_s`` is the measured iteration of rank 0.
    """

    path: Path
    times: PipelineTimes
    schedule: Schedule
    step_s: float
    num_iterations: int


class PipelineReplay(NamedTuple):
    """Measured against simulated step, s, and the textbook form (m + p - 1)(f + b) with rank means."""

    measured_s: float
    simulated_s: float
    textbook_s: float
    step: PipelineStep

    @property
    def relative_error(self) -> float:
        """(simulated - measured) / measured."""
        return self.simulated_s / self.measured_s - 1.0


def is_pipeline_folder(path: Path) -> bool:
    """Tell whether a folder holds measured pipeline files."""
    return path.is_dir() and any(RANK_FILE.match(each.name) for each in path.iterdir())


def read_pipeline(folder: Path) -> MeasuredPipeline:
    """Read a measured pipeline.

    Raises
    ------
    FileFormatError
        When a rank is missing, a file is not of this form, or the ranks disagree on the number of micro-batches.
    """
    files = {int(match[1]): file for file in folder.iterdir() if (match := RANK_FILE.match(file.name))}
    if sorted(files) != list(range(len(files))) or not files:
        raise FileFormatError(f"{folder}: ranks {sorted(files)} are not 0 to {len(files) - 1}")
    config = _load(folder / "config.json") if (folder / "config.json").exists() else {}
    vp = config.get("vp_size") or 1
    ranks = [_read_rank(files[rank]) for rank in range(len(files))]
    passes = {each.forward_s.shape[1] for each in ranks}
    if len(passes) != 1 or not isinstance(vp, int) or vp < 1 or (num_passes := passes.pop()) % vp:
        raise FileFormatError(
            f"{folder}: the ranks differ in their number of micro-batches, or vp_size={vp} does not divide it"
        )
    schedule = Schedule.ONE_F_ONE_B if vp == 1 else Schedule.INTERLEAVED
    shape = (len(ranks), vp, num_passes // vp)
    return MeasuredPipeline(
        path=folder,
        times=_pipeline_times(ranks, schedule, shape),
        schedule=schedule,
        step_s=float(np.median(ranks[0].total_s)),
        num_iterations=len(ranks[0].total_s),
    )


def replay_pipeline(measured: MeasuredPipeline) -> PipelineReplay:
    """Simulate a measured pipeline from its median pass times and compare with its measured step."""
    times = measured.times
    step = simulate_step(times, measured.schedule)
    p, v, m = times.forward_s.shape
    pass_s = v * float(np.mean(np.median(times.forward_s, axis=(1, 2)) + np.median(times.backward_s, axis=(1, 2))))
    return PipelineReplay(measured.step_s, step.step_s, (m + (p - 1) / v) * pass_s, step)


class _RankTimes(NamedTuple):
    """One rank over its used iterations: lengths and gaps in order of execution."""

    forward_s: FloatArray
    backward_s: FloatArray
    gap_s: FloatArray
    tail_s: float
    total_s: FloatArray


def _read_rank(file: Path) -> _RankTimes:
    iterations = _load(file)
    names = sorted((key for key in iterations if key.isdigit()), key=int)
    used = names[WARM_UP_ITERATIONS:] if len(names) > 2 * WARM_UP_ITERATIONS else names
    try:
        starts_ends = [np.array([iterations[name][key] for name in used], np.float64) * MILLI for key in _KEYS]
        total = np.array([iterations[name]["total"] for name in used], np.float64) * MILLI
    except (KeyError, TypeError, ValueError) as error:
        raise FileFormatError(f"{file}: not a measured pipeline: {error!r}") from error
    if (
        not used
        or len({each.shape for each in starts_ends}) != 1
        or starts_ends[0].ndim != 2
        or not starts_ends[0].size
    ):
        raise FileFormatError(f"{file}: every iteration needs equally long lists {', '.join(_KEYS)}")
    forward_start, forward_end, backward_start, backward_end = starts_ends
    starts = np.sort(np.concatenate([forward_start, backward_start], axis=1), axis=1)
    ends = np.sort(np.concatenate([forward_end, backward_end], axis=1), axis=1)
    return _RankTimes(
        forward_s=forward_end - forward_start,
        backward_s=backward_end - backward_start,
        gap_s=starts[:, 1:] - ends[:, :-1],
        tail_s=max(float(np.median(total - ends[:, -1])), 0.0),
        total_s=total,
    )


def _pipeline_times(ranks: list[_RankTimes], schedule: Schedule, shape: tuple[int, int, int]) -> PipelineTimes:
    """Medians over iterations, put at (rank, chunk, micro-batch) by the schedule's order of execution."""
    forward, backward = np.zeros(shape), np.zeros(shape)
    p, v, m = shape
    for rank, each in enumerate(ranks):
        order = stage_order(schedule=schedule, stage=rank, num_microbatches=m, pp=p, vp=v)
        for target, measured, backward_pass in ((forward, each.forward_s, False), (backward, each.backward_s, True)):
            own = [operation for operation in order if operation.backward is backward_pass]
            places = ([operation.chunk for operation in own], [operation.microbatch for operation in own])
            target[rank][places] = np.median(measured, axis=0)
    return PipelineTimes(forward, backward, _send_s(ranks, v), ranks[0].tail_s)


def _send_s(ranks: list[_RankTimes], vp: int) -> float:
    """Time of one send: the rank with the most work never waits for input in the steady phase, its gaps are sends.

    A forward and a backward in turn have two gaps; a rank sends twice in them; without
    interleaving the first and the last send once.
    """
    if len(ranks) == 1:
        return 0.0
    busiest = max(range(len(ranks)), key=lambda rank: float(ranks[rank].forward_s.sum() + ranks[rank].backward_s.sum()))
    gaps = ranks[busiest].gap_s
    sends = 1 if vp == 1 and busiest in {0, len(ranks) - 1} else 2
    return max(float(np.median(gaps[:, 1:] + gaps[:, :-1])) / sends, 0.0) if gaps.shape[1] > 1 else 0.0


def _load(file: Path) -> dict[str, Any]:
    try:
        return json_object(orjson.loads(file.read_bytes()))
    except (OSError, orjson.JSONDecodeError) as error:
        raise FileFormatError(f"{file}: not readable as JSON ({error})") from error
