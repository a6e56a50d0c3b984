"""Exact pipeline times by event recursion, for 1F1B, interleaved 1F1B and GPipe with unequal stages.

Each device executes a fixed list of operations in order; an operation starts when its device is free and its
predecessor has arrived. Model chunk c of stage i is virtual stage ``c p + i``. Stage times may carry leading axes:
configurations that share p, v and m are recursed together.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from surrogate.analytic.arrays import FloatLike
from surrogate.analytic.workload import FloatArray, IntArray, Schedule
from surrogate.errors import InputError


class Operation(NamedTuple):
    """One pass of one micro-batch through one model chunk."""

    stage: int
    chunk: int
    microbatch: int
    backward: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class PipelineTimeline:
    """When every operation ran; k operations in an order that respects all dependencies."""

    operations: tuple[Operation, ...]
    start_s: FloatArray
    """Shape (k, ...)."""
    end_s: FloatArray
    """Shape (k, ...)."""

    @property
    def total_s(self) -> FloatArray:
        """End of the last operation, shape (...)."""
        return np.asarray(self.end_s.max(axis=0))

    def busy_s(self, stage: int) -> FloatArray:
        """Return the time that a stage works, shape (...)."""
        rows = [row for row, operation in enumerate(self.operations) if operation.stage == stage]
        return np.asarray((self.end_s[rows] - self.start_s[rows]).sum(axis=0))


def stage_order(*, schedule: Schedule, stage: int, num_microbatches: int, pp: int, vp: int) -> list[Operation]:
    """Return the list of operations that one device executes.

    Parameters
    ----------
    schedule : Schedule
        GPipe, 1F1B or interleaved.
    stage, num_microbatches, pp, vp : int
        Stage from 0, micro-batches m, stages p, chunks per device v.

    Returns
    -------
    list of Operation
        ``2 m v`` operations.

    Raises
    ------
    InputError
        If the schedule has no fixed list here, or m is no multiple of p for interleaving.

    Notes
    -----
    Warm-up forwards: m for GPipe, ``p - i - 1`` for 1F1B, ``2 (p - i - 1) + (v - 1) p`` for interleaving; then
    forward and backward in turn; then the remaining backwards.

    References
    ----------
    Megatron-LM, arXiv 2104.04473, figures 3 and 4.

    Examples
    --------
    >>> order = stage_order(schedule=Schedule.ONE_F_ONE_B, stage=1, num_microbatches=2, pp=2, vp=1)
    >>> ["B" if op.backward else "F" for op in order]
    ['F', 'B', 'F', 'B']
    """
    _check(schedule, num_microbatches, pp, vp)
    total = num_microbatches * vp
    warm_up = {
        Schedule.GPIPE: total,
        Schedule.ONE_F_ONE_B: pp - stage - 1,
        Schedule.INTERLEAVED: 2 * (pp - stage - 1) + (vp - 1) * pp,
    }[schedule]
    warm_up = min(warm_up, total)
    forward = [_operation(stage, k, pp, vp, backward=False) for k in range(total)]
    backward = [_operation(stage, k, pp, vp, backward=True) for k in range(total)]
    order = forward[:warm_up]
    for ahead, behind in zip(forward[warm_up:], backward, strict=False):
        order += [ahead, behind]
    return order + backward[total - warm_up :]


def _operation(stage: int, position: int, pp: int, vp: int, *, backward: bool) -> Operation:
    """Return the operation at `position`: groups of p micro-batches go through one chunk after another."""
    group, inside = divmod(position, pp * vp)
    chunk, offset = divmod(inside, pp)
    return Operation(stage, vp - 1 - chunk if backward else chunk, group * pp + offset, backward)


def _check(schedule: Schedule, num_microbatches: int, pp: int, vp: int) -> None:
    if schedule not in (Schedule.GPIPE, Schedule.ONE_F_ONE_B, Schedule.INTERLEAVED):
        raise InputError(
            "pipeline_schedule",
            "must be gpipe, 1f1b or interleaved-1f1b for event simulation",
            schedule.name,
            "use the closed forms of surrogate.analytic.pipeline",
        )
    if schedule != Schedule.INTERLEAVED and vp != 1:
        raise InputError("vp", f"must be 1 for {schedule.name}", vp, "choose the interleaved schedule")
    if schedule == Schedule.INTERLEAVED and num_microbatches % pp:
        raise InputError(
            "num_microbatches",
            f"must be a multiple of pp = {pp} for interleaving",
            num_microbatches,
            "change the batch",
        )


def simulate_pipeline(
    *,
    schedule: Schedule,
    num_microbatches: int,
    forward_s: FloatArray,
    backward_s: FloatArray,
    send_s: FloatLike,
) -> PipelineTimeline:
    """Return when each operation of a step runs.

    Parameters
    ----------
    schedule : Schedule
        GPipe, 1F1B or interleaved.
    num_microbatches : int
        m.
    forward_s, backward_s : ndarray, shape (..., p, v)
        Time of each chunk of each stage for one micro-batch, in seconds; leading axes are configurations.
    send_s : array_like, shape (...)
        Time from the end of an operation to the arrival of its result on the next virtual stage.

    Returns
    -------
    PipelineTimeline
        Starts and ends of ``2 m p v`` operations.

    Raises
    ------
    InputError
        If shapes differ or the schedule cannot be simulated.

    Notes
    -----
    ``start = max(device free, end of predecessor + send)``; the predecessor of F on virtual stage q is F on q - 1,
    of B it is B on q + 1, or F on the last. Cost O(m p v).

    References
    ----------
    Longest path through the dependency graph of arXiv 2104.04473, figure 4.

    Examples
    --------
    p = 4, m = 8, F = (1, 1, 1, 1.3), B = 2 F.

    >>> forward = np.array([[1.0], [1.0], [1.0], [1.3]])
    >>> args = {"schedule": Schedule.ONE_F_ONE_B, "num_microbatches": 8, "send_s": 0.0}
    >>> round(float(simulate_pipeline(forward_s=forward, backward_s=2 * forward, **args).total_s), 6)
    40.2
    """
    if np.shape(forward_s) != np.shape(backward_s) or np.ndim(forward_s) < 2:
        rule = "must have the shape (..., pp, vp) of `forward_s`"
        raise InputError("backward_s", rule, np.shape(backward_s), f"give {np.shape(forward_s)}")
    pp, vp = np.shape(forward_s)[-2:]
    operations = _dependency_order(schedule, num_microbatches, pp, vp)
    times = np.stack([forward_s, backward_s])
    leading = np.broadcast_shapes(np.shape(send_s), np.shape(forward_s)[:-2])
    start, end = np.empty((2, len(operations), *leading))
    row_of = {operation: row for row, operation in enumerate(operations)}
    device_free = np.zeros((pp, *leading))
    for row, operation in enumerate(operations):
        before = _predecessor(operation, pp, vp)
        ready = device_free[operation.stage]
        if before is not None:
            send = 0.0 if before.stage == operation.stage else send_s
            ready = np.maximum(ready, end[row_of[before]] + send)
        start[row] = ready
        end[row] = ready + times[int(operation.backward), ..., operation.stage, operation.chunk]
        device_free[operation.stage] = end[row]
    return PipelineTimeline(operations=tuple(operations), start_s=start, end_s=end)


def _predecessor(operation: Operation, pp: int, vp: int) -> Operation | None:
    """Return the operation whose result this one needs; None for a forward pass on the first virtual stage."""
    virtual = operation.chunk * pp + operation.stage
    if operation.backward and virtual == pp * vp - 1:
        return operation._replace(backward=False)
    before = virtual + (1 if operation.backward else -1)
    if before < 0:
        return None
    chunk, stage = divmod(before, pp)
    return operation._replace(stage=stage, chunk=chunk)


def _dependency_order(schedule: Schedule, num_microbatches: int, pp: int, vp: int) -> list[Operation]:
    """Merge the lists of all devices into one order in which predecessors come first."""
    queues = [
        stage_order(schedule=schedule, stage=stage, num_microbatches=num_microbatches, pp=pp, vp=vp)
        for stage in range(pp)
    ]
    position = [0] * pp
    done: set[Operation] = set()
    order: list[Operation] = []
    while len(order) < 2 * num_microbatches * pp * vp:
        for stage, queue in enumerate(queues):
            while position[stage] < len(queue):
                operation = queue[position[stage]]
                before = _predecessor(operation, pp, vp)
                if before is not None and before not in done:
                    break
                done.add(operation)
                order.append(operation)
                position[stage] += 1
    return order


def peak_chunks_in_flight(*, schedule: Schedule, num_microbatches: int, pp: int, vp: int) -> IntArray:
    """Return the largest number of chunk activations each device holds, counted from its list of operations.

    Parameters
    ----------
    schedule : Schedule
        GPipe, 1F1B or interleaved.
    num_microbatches, pp, vp : int
        m, p and v.

    Returns
    -------
    ndarray of int, shape (p,)
        Chunks of ``L / (p v)`` layers each.

    Notes
    -----
    Running count of forward minus backward operations; equals ``min(m v, 2 (p - i - 1) + (v - 1) p + 1)`` for
    interleaving.

    References
    ----------
    arXiv 2205.05198, section 4.2.3.

    Examples
    --------
    >>> args = {"schedule": Schedule.INTERLEAVED, "num_microbatches": 32, "pp": 8, "vp": 2}
    >>> peak_chunks_in_flight(**args).tolist()
    [23, 21, 19, 17, 15, 13, 11, 9]
    """
    peaks = []
    for stage in range(pp):
        order = stage_order(schedule=schedule, stage=stage, num_microbatches=num_microbatches, pp=pp, vp=vp)
        peaks.append(np.cumsum([-1 if operation.backward else 1 for operation in order]).max())
    return np.asarray(peaks, dtype=np.int64)
