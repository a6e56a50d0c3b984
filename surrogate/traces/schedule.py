"""Pipeline steps from measured times: every forward and backward of every micro-batch has its own length.

`surrogate.analytic.pipeline_events` gives the order of the schedules and their times with one length per stage; in
a measured pipeline lengths differ from micro-batch to micro-batch, and a send occupies its sender.

Notation: p ranks, v model chunks per rank, m micro-batches; virtual stage c p + r is chunk c of rank r.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from surrogate.analytic.pipeline_events import Operation, stage_order
from surrogate.analytic.workload import Schedule
from surrogate.errors import InputError
from surrogate.traces.columns import FloatArray


class PipelineTimes(NamedTuple):
    """Measured or assumed lengths, s.

    ``forward_s``, ``backward_s`` have shape (p, v, m). ``send_s`` is the time one activation or gradient takes to the
    neighbour, during which its sender waits; ``tail_s`` is what a rank does after its last backward.
    """

    forward_s: FloatArray
    backward_s: FloatArray
    send_s: float = 0.0
    tail_s: float = 0.0


class PipelineStep(NamedTuple):
    """Simulated starts, s, of shape (p, v, m), and the step: the last end on any rank plus the tail."""

    forward_start_s: FloatArray
    backward_start_s: FloatArray
    step_s: float
    bubble_fraction: float
    """Share of the ranks' time in neither a forward nor a backward pass."""


def simulate_step(times: PipelineTimes, schedule: Schedule) -> PipelineStep:
    """Run a schedule: each pass starts when its rank is free and its input has arrived.

    Raises
    ------
    InputError
        When the shapes of the times differ, or the schedule does not allow this p, v, m.

    Examples
    --------
    m = 2 on p = 2 with F = 1, B = 2: (m + p - 1)(F + B).

    >>> times = PipelineTimes(np.ones((2, 1, 2)), np.full((2, 1, 2), 2.0))
    >>> simulate_step(times, Schedule.ONE_F_ONE_B).step_s
    9.0
    """
    p, v, m = _checked_shape(times)
    queues = [stage_order(schedule=schedule, stage=rank, num_microbatches=m, pp=p, vp=v) for rank in range(p)]
    ends: dict[Operation, float] = {}
    free = [0.0] * p
    lengths = (times.forward_s, times.backward_s)
    starts = (np.zeros((p, v, m)), np.zeros((p, v, m)))
    while any(queues):
        progress = len(ends)
        for rank, queue in enumerate(queues):
            while queue and (arrived := _arrival(ends, queue[0], (p, v), times.send_s)) is not None:
                operation = queue.pop(0)
                index = (rank, operation.chunk, operation.microbatch)
                start = max(free[rank], arrived)
                starts[operation.backward][index] = start
                ends[operation] = end = start + float(lengths[operation.backward][index])
                free[rank] = end + (times.send_s if _sends(operation, (p, v)) else 0.0)
        if len(ends) == progress:
            raise InputError("schedule", "must not wait in a circle", f"{schedule.name} with p={p}, v={v}, m={m}")
    last = max(ends.values())
    busy = float(times.forward_s.sum() + times.backward_s.sum())
    return PipelineStep(*starts, step_s=last + times.tail_s, bubble_fraction=1.0 - busy / (p * last) if last else 0.0)


def _checked_shape(times: PipelineTimes) -> tuple[int, int, int]:
    shape = times.forward_s.shape
    if shape != times.backward_s.shape or len(shape) != 3 or 0 in shape:
        raise InputError("backward_s", f"must have the shape {shape} (p, v, m) of `forward_s`", times.backward_s.shape)
    p, v, m = shape
    return p, v, m


def _sends(operation: Operation, layout: tuple[int, int]) -> bool:
    """Tell whether another rank waits for the result."""
    p, v = layout
    to = operation.chunk * p + operation.stage + (-1 if operation.backward else 1)
    return p > 1 and 0 <= to < p * v


def _arrival(
    ends: dict[Operation, float], operation: Operation, layout: tuple[int, int], send_s: float
) -> float | None:
    """Time at which an operation's input is there; None while its producer has not run."""
    p, v = layout
    virtual = operation.chunk * p + operation.stage
    if not operation.backward and virtual == 0:
        return 0.0
    if operation.backward and virtual == p * v - 1:
        return ends.get(operation._replace(backward=False))
    chunk, stage = divmod(virtual + (1 if operation.backward else -1), p)
    end = ends.get(operation._replace(stage=stage, chunk=chunk))
    if end is None:
        return None
    return end + (send_s if stage != operation.stage else 0.0)
