"""Pipeline schedules task by task: who runs which micro-batch in which order, and when with measured times.

The closed forms and the event recursion of `surrogate.analytic` take one time per stage; here every forward and
backward of every micro-batch has its own measured length, and a send occupies its sender.

Notation: p ranks, v model chunks per rank, m micro-batches. Rank r holds the model parts r, r + p, ... (v of them).
"""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

import numpy as np

from surrogate.errors import InputError
from surrogate.traces.columns import FloatArray


class ScheduleName(StrEnum):
    """Schedules that can be regenerated for another layout."""

    ONE_F_ONE_B = "1f1b"
    INTERLEAVED = "interleaved"
    GPIPE = "gpipe"


class StageTask(NamedTuple):
    """One forward or backward pass of one micro-batch through one chunk."""

    forward: bool
    chunk: int
    micro_batch: int


class PipelineTimes(NamedTuple):
    """Measured or assumed lengths, s.

    ``forward_s``, ``backward_s`` have shape (p, v, m). ``send_s`` is the time one activation or gradient takes to the
    neighbour, during which its sender waits; ``tail_s`` is what a rank does after its last backward.
    """

    forward_s: FloatArray
    backward_s: FloatArray
    send_s: float = 0.0
    tail_s: float = 0.0


class PipelineTimeline(NamedTuple):
    """Simulated starts, s, of shape (p, v, m), and the step: the last end on any rank plus the tail."""

    forward_start_s: FloatArray
    backward_start_s: FloatArray
    step_s: float
    bubble_fraction: float
    """Share of the ranks' time in neither a forward nor a backward pass."""


def rank_order(schedule: ScheduleName, rank: int, shape: tuple[int, int, int]) -> list[StageTask]:
    """Return the order in which one rank runs its tasks.

    Parameters
    ----------
    schedule : ScheduleName
    rank : int
    shape : (p, v, m)
        Ranks, chunks per rank, micro-batches.

    Notes
    -----
    Warm-up forwards before the first backward: m for GPipe, min(m, p - 1 - r) for 1F1B and
    min(v m, 2 (p - 1 - r) + (v - 1) p) for the interleaved form, then one forward and one backward in turn.

    References
    ----------
    Narayanan et al. 2021, arXiv 2104.04473, section 2.2.
    """
    p, v, m = shape
    forwards = [
        StageTask(True, chunk, micro_batch)
        for group in range(0, m, p)
        for chunk in range(v)
        for micro_batch in range(group, min(group + p, m))
    ]
    backwards = [StageTask(False, v - 1 - chunk, micro_batch) for _, chunk, micro_batch in forwards]
    if schedule is ScheduleName.GPIPE:
        warm_up = len(forwards)
    elif v == 1:
        warm_up = min(m, p - 1 - rank)
    else:
        warm_up = min(v * m, 2 * (p - 1 - rank) + (v - 1) * p)
    steady = [task for pair in zip(forwards[warm_up:], backwards, strict=False) for task in pair]
    return forwards[:warm_up] + steady + backwards[len(forwards) - warm_up :]


def simulate_pipeline(times: PipelineTimes, schedule: ScheduleName) -> PipelineTimeline:
    """Run a schedule: each task starts when its rank is free and its input has arrived.

    Raises
    ------
    InputError
        When 1F1B or GPipe is asked for with several chunks per rank, or the shapes of the times differ.
    """
    p, v, m = _checked_shape(times, schedule)
    orders = [rank_order(schedule, rank, (p, v, m)) for rank in range(p)]
    ends: dict[tuple[int, StageTask], float] = {}
    free, position = [0.0] * p, [0] * p
    pending = sum(len(order) for order in orders)
    lengths = {True: times.forward_s, False: times.backward_s}
    starts = {True: np.zeros((p, v, m)), False: np.zeros((p, v, m))}
    while pending:
        before = pending
        for rank, order in enumerate(orders):
            while position[rank] < len(order):
                task = order[position[rank]]
                arrived = _arrival(ends, rank, task, (p, v), times.send_s)
                if arrived is None:
                    break
                index = (rank, task.chunk, task.micro_batch)
                start = max(free[rank], arrived)
                starts[task.forward][index] = start
                ends[rank, task] = end = start + float(lengths[task.forward][index])
                free[rank] = end + (times.send_s if _receiver(rank, task, (p, v)) is not None else 0.0)
                position[rank] += 1
                pending -= 1
        if pending == before:
            raise InputError("schedule", "must not wait in a circle", f"{schedule.value} with p={p}, v={v}, m={m}")
    busy = float(times.forward_s.sum() + times.backward_s.sum())
    last = max(ends.values())
    return PipelineTimeline(starts[True], starts[False], last + times.tail_s, 1.0 - busy / (p * last))


def _checked_shape(times: PipelineTimes, schedule: ScheduleName) -> tuple[int, int, int]:
    shape = times.forward_s.shape
    if shape != times.backward_s.shape or len(shape) != 3 or 0 in shape:
        raise InputError("backward_s", f"must have the shape {shape} of `forward_s`", times.backward_s.shape)
    if shape[1] > 1 and schedule is not ScheduleName.INTERLEAVED:
        raise InputError("vp", f"must be 1 with the schedule {schedule.value}", shape[1], "use interleaved")
    p, v, m = shape
    return p, v, m


def _receiver(rank: int, task: StageTask, layout: tuple[int, int]) -> tuple[int, int] | None:
    """(rank, chunk) that takes the result of a task; None at the last and, going back, the first model part."""
    p, v = layout
    part = task.chunk * p + rank + (1 if task.forward else -1)
    return (part % p, part // p) if 0 <= part < p * v else None


def _arrival(
    ends: dict[tuple[int, StageTask], float], rank: int, task: StageTask, layout: tuple[int, int], send_s: float
) -> float | None:
    """Time at which a task's input is there; None while its producer has not run."""
    p, v = layout
    part = task.chunk * p + rank
    if task.forward and part == 0:
        return 0.0
    if not task.forward and part == p * v - 1:
        return ends.get((rank, task._replace(forward=True)))
    giver = part - 1 if task.forward else part + 1
    end = ends.get((giver % p, StageTask(task.forward, giver // p, task.micro_batch)))
    if end is None:
        return None
    return end + (send_s if giver % p != rank else 0.0)
