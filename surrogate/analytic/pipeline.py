"""Pipeline schedules in closed form: bubble, total time, micro-batches in flight.

F, B_in and W are the forward, input-gradient and weight-gradient time of one micro-batch on a device, all its
chunks together; B = B_in + W. p stages, m micro-batches, v chunks per device. Stage times include exposed
communication. Exact times of unequal stages follow from `pipeline_events`.
"""

from __future__ import annotations

import numpy as np

from surrogate.analytic.arrays import FloatLike, IntLike, as_floats
from surrogate.analytic.workload import FloatArray, Schedule


def bubble_fraction(*, num_microbatches: FloatLike, pp: FloatLike, vp: FloatLike) -> FloatArray:
    """Return idle time over ideal time of 1F1B (vp = 1), GPipe (vp = 1) and interleaved 1F1B.

    Parameters
    ----------
    num_microbatches, pp, vp : array_like, shape (n,)
        Micro-batches per step, stages, chunks per device.

    Returns
    -------
    ndarray, shape (n,)
        Fraction of the ideal time ``m (F + B)``; may exceed 1.

    Notes
    -----
    ``(p - 1) / (v m)``. Its share of the total time is ``(p - 1) / (v m + p - 1)``.

    References
    ----------
    Megatron-LM, arXiv 2104.04473, section 2.2.

    Examples
    --------
    >>> float(bubble_fraction(num_microbatches=32, pp=8, vp=1)), float(bubble_fraction(num_microbatches=32, pp=8, vp=2))
    (0.21875, 0.109375)
    """
    return as_floats((pp - 1.0) / (as_floats(num_microbatches) * vp))


def bubble_time_s(
    *,
    schedule: IntLike,
    forward_s: FloatLike,
    input_grad_s: FloatLike,
    weight_grad_s: FloatLike,
    pp: FloatLike,
    vp: FloatLike,
) -> FloatArray:
    """Return the idle time of a device for equal stages.

    Parameters
    ----------
    schedule : array_like of int, shape (n,)
        `Schedule` codes.
    forward_s, input_grad_s, weight_grad_s : array_like, shape (n,)
        F, B_in and W in seconds.
    pp, vp : array_like, shape (n,)
        Stages and chunks per device; only the interleaved schedule reads `vp`.

    Returns
    -------
    ndarray, shape (n,)
        Seconds; 0 for one stage.

    Notes
    -----
    ======================  ==========================
    GPipe, 1F1B             (p - 1) (F + B)
    interleaved 1F1B        (p - 1) (F + B) / v
    ZB-H1                   (p - 1) (F + B_in - W)
    ZB-H2                   (p - 1) (F + B_in - 2 W)
    ZB-V                    0
    V-Half                  (p - 1) (F + B) / 2
    V-Min                   2 (p - 1) (F + B) / 3
    DualPipe                (p / 2 - 1) (FB + B - 3 W)
    ======================  ==========================

    A negative value counts as 0. FB, the time of a forward and a backward pass that overlap, is ``F + B``.

    Assumptions: closed forms for many micro-batches (m >= 2 p for DualPipe); the V schedules are published for
    equal F, B_in and W only, V-Min loses more when they differ, and ZB-V is then no longer free of bubbles.

    References
    ----------
    GPipe arXiv 1811.06965; interleaving arXiv 2104.04473, section 2.2; ZB-H1 and H2 arXiv 2401.10241, section 2;
    V schedules arXiv 2405.15362 and github.com/sail-sg/zero-bubble-pipeline-parallelism at 47d9a8ed3afd, README;
    DualPipe arXiv 2412.19437, table 2.

    Examples
    --------
    Eight stages with F = B_in = W = 1.

    >>> times = {"forward_s": 1.0, "input_grad_s": 1.0, "weight_grad_s": 1.0, "pp": 8, "vp": 1}
    >>> kinds = (Schedule.ONE_F_ONE_B, Schedule.ZB_H1, Schedule.ZB_H2, Schedule.DUALPIPE)
    >>> [float(bubble_time_s(schedule=kind, **times)) for kind in kinds]
    [21.0, 7.0, 0.0, 6.0]
    """
    forward, input_grad, weight_grad = as_floats(forward_s), as_floats(input_grad_s), as_floats(weight_grad_s)
    whole = forward + input_grad + weight_grad
    code = np.asarray(schedule)
    per_stage = np.select(
        [
            code == Schedule.INTERLEAVED,
            code == Schedule.ZB_H1,
            code == Schedule.ZB_H2,
            code == Schedule.ZB_V,
            code == Schedule.V_HALF,
            code == Schedule.V_MIN,
            code == Schedule.DUALPIPE,
        ],
        [
            whole / vp,
            forward + input_grad - weight_grad,
            forward + input_grad - 2.0 * weight_grad,
            np.zeros_like(whole),
            whole / 2.0,
            2.0 * whole / 3.0,
            whole + input_grad - 2.0 * weight_grad,
        ],
        default=whole,
    )
    stages = np.where(code == Schedule.DUALPIPE, as_floats(pp) / 2.0 - 1.0, as_floats(pp) - 1.0)
    return as_floats(np.maximum(stages, 0.0) * np.maximum(per_stage, 0.0))


def pipeline_time_bound_s(
    *,
    num_microbatches: FloatLike,
    slowest_stage_s: FloatLike,
    mean_stage_s: FloatLike,
    bubble_s: FloatLike,
) -> FloatArray:
    """Return the time of a pipeline whose stages differ, from the bubble of the mean stage.

    Parameters
    ----------
    num_microbatches : array_like, shape (n,)
        m.
    slowest_stage_s, mean_stage_s : array_like, shape (n,)
        Largest and mean ``F_i + B_i`` over the stages, in seconds.
    bubble_s : array_like, shape (n,)
        `bubble_time_s` of the mean stage.

    Returns
    -------
    ndarray, shape (n,)
        Seconds.

    Notes
    -----
    ``m max + bubble(mean) - (max - mean)``: the slowest stage works m times; filling and draining cross every
    stage once, and one slowest stage is already counted. For 1F1B it is the upper bound
    ``sum_i (F_i + B_i) + (m - 1) max_i (F_i + B_i)``; for equal stages it is exact.

    Assumptions and error: against the event recursion with stages spread by 20 %, 0 to 14 % above, never below
    (1F1B, p 2 to 8, m from p to 32). For other schedules the form is carried over.

    References
    ----------
    Upper bound: longest path argument over the dependency graph of arXiv 2104.04473, figure 4.

    Examples
    --------
    p = 4, m = 8, F = (1, 1, 1, 1.3), B = 2 F: slowest 3.9, mean 3.225, bubble 3 * 3.225.

    >>> args = {"num_microbatches": 8, "slowest_stage_s": 3.9, "mean_stage_s": 3.225, "bubble_s": 3 * 3.225}
    >>> round(float(pipeline_time_bound_s(**args)), 6)
    40.2
    """
    return as_floats((as_floats(num_microbatches) - 1.0) * slowest_stage_s + mean_stage_s + bubble_s)


def one_f_one_b_bound_s(
    *, num_microbatches: FloatLike, sum_stages_s: FloatLike, slowest_stage_s: FloatLike
) -> FloatArray:
    """Return the upper bound of the time of 1F1B with unequal stages.

    Parameters
    ----------
    num_microbatches : array_like, shape (n,)
        m.
    sum_stages_s, slowest_stage_s : array_like, shape (n,)
        Sum and largest of ``F_i + B_i``, in seconds.

    Returns
    -------
    ndarray, shape (n,)
        Seconds.

    Notes
    -----
    ``U = sum_i (F_i + B_i) + (m - 1) max_i (F_i + B_i)``.

    References
    ----------
    As `pipeline_time_bound_s`.

    Examples
    --------
    >>> round(float(one_f_one_b_bound_s(num_microbatches=8, sum_stages_s=12.9, slowest_stage_s=3.9)), 6)
    40.2
    """
    return as_floats(sum_stages_s + (as_floats(num_microbatches) - 1.0) * slowest_stage_s)


def gpipe_time_s(
    *,
    num_microbatches: FloatLike,
    sum_stages_s: FloatLike,
    slowest_forward_s: FloatLike,
    slowest_backward_s: FloatLike,
) -> FloatArray:
    """Return the exact time of GPipe with unequal stages.

    Parameters
    ----------
    num_microbatches : array_like, shape (n,)
        m.
    sum_stages_s : array_like, shape (n,)
        Sum of ``F_i + B_i``, in seconds.
    slowest_forward_s, slowest_backward_s : array_like, shape (n,)
        Largest F_i and largest B_i, in seconds.

    Returns
    -------
    ndarray, shape (n,)
        Seconds.

    Notes
    -----
    ``sum_i (F_i + B_i) + (m - 1) (max_i F_i + max_i B_i)``.

    References
    ----------
    GPipe, arXiv 1811.06965, section 2.3; flow shop with identical jobs.

    Examples
    --------
    >>> args = {"sum_stages_s": 9.0, "slowest_forward_s": 2.0, "slowest_backward_s": 3.0}
    >>> float(gpipe_time_s(num_microbatches=3, **args))
    19.0
    """
    slowest = as_floats(slowest_forward_s) + slowest_backward_s
    return as_floats(sum_stages_s + (as_floats(num_microbatches) - 1.0) * slowest)


def microbatches_in_flight(
    *, schedule: IntLike, stage: FloatLike, num_microbatches: FloatLike, pp: FloatLike, vp: FloatLike
) -> FloatArray:
    """Return the micro-batches whose activations a stage holds at its peak, in units of its own layers.

    Parameters
    ----------
    schedule : array_like of int, shape (n,)
        `Schedule` codes.
    stage : array_like, shape (n,)
        Index i of the stage from 0.
    num_microbatches, pp, vp : array_like, shape (n,)
        m, p and v.

    Returns
    -------
    ndarray, shape (n,)
        Micro-batches over all the layers of the device; a fraction where chunks count apart.

    Notes
    -----
    GPipe m; 1F1B ``min(m, p - i)``; interleaved ``min(m v, 2 (p - i - 1) + (v - 1) p + 1) / v``; ZB-H1 and ZB-V
    ``min(m, p)``; ZB-H2 ``min(m, 2 p - 1)``; V-Half and V-Min a half and a third of p, at least 1; DualPipe
    ``min(m, p + 1)``.

    Assumptions: the zero-bubble figures are the published peaks over all stages.

    References
    ----------
    As `bubble_time_s`; interleaved chunks also arXiv 2205.05198, section 4.2.3.

    Examples
    --------
    Chunks of p = 8, v = 2, m = 32 on the first and the last stage, halved.

    >>> args = {"schedule": Schedule.INTERLEAVED, "num_microbatches": 32, "pp": 8, "vp": 2}
    >>> [float(microbatches_in_flight(stage=i, **args)) for i in (0, 7)]
    [11.5, 4.5]
    """
    p, v, m = as_floats(pp), as_floats(vp), as_floats(num_microbatches)
    code = np.asarray(schedule)
    limit = np.select(
        [
            code == Schedule.GPIPE,
            code == Schedule.INTERLEAVED,
            (code == Schedule.ZB_H1) | (code == Schedule.ZB_V),
            code == Schedule.ZB_H2,
            code == Schedule.V_HALF,
            code == Schedule.V_MIN,
            code == Schedule.DUALPIPE,
        ],
        [
            m,
            (2.0 * (p - stage - 1.0) + (v - 1.0) * p + 1.0) / v,
            p,
            2.0 * p - 1.0,
            np.maximum(p / 2.0, 1.0),
            np.maximum(p / 3.0, 1.0),
            p + 1.0,
        ],
        default=p - as_floats(stage),
    )
    return as_floats(np.minimum(m, limit))
