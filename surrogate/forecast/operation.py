"""Plans under a policy, resolved: failure rate, checkpoint times, interval, spares and goodput, all vectorised."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from surrogate.forecast.checkpoints import CheckpointPlan, checkpoint_plan
from surrogate.forecast.failure_law import FailureLaw, failure_law
from surrogate.forecast.inputs import RunPolicy, TrainingPlans
from surrogate.reliability.arrays import FloatArray, real
from surrogate.reliability.goodput import FaultTolerance, Goodput, goodput
from surrogate.reliability.recovery import published_restart_s
from surrogate.reliability.spares import node_unavailability, spares_for_repair
from surrogate.units import HOURS_PER_DAY, SECONDS_PER_DAY


@dataclass(frozen=True, kw_only=True, slots=True)
class Operation:
    """Everything about running each plan, arrays of shape (n,)."""

    failures: FailureLaw
    checkpoints: CheckpointPlan
    restart_s: FloatArray
    spares: FloatArray
    step_time_s: FloatArray
    job: FaultTolerance
    goodput: Goodput


@dataclass(frozen=True, kw_only=True, slots=True)
class TimeToTrain:
    """Days, accelerator hours and money at the expected rates, arrays of shape (n,).

    ``days`` is infinite, and ``ettr`` 0, for a plan that fails faster than it can commit work.
    """

    days: FloatArray
    gpu_hours: FloatArray
    cost: FloatArray | None
    ettr: FloatArray
    interruptions: FloatArray
    checkpoint_interval_s: FloatArray
    spares: FloatArray


def operate(plans: TrainingPlans, policy: RunPolicy) -> Operation:
    """Resolve how each plan runs under a policy.

    Parameters
    ----------
    plans : TrainingPlans
        Shape (n,).
    policy : RunPolicy
        Numbers, or arrays of shape (n,).

    Returns
    -------
    Operation

    Raises
    ------
    InputError
        For a given checkpoint interval shorter than a save, or a value out of range.
    """
    plans = plans.broadcast()
    failures = failure_law(plans, policy)
    checkpoints = checkpoint_plan(plans, policy, failures)
    tier, step = checkpoints.tier, real("step_time_s", plans.step_time_s)
    out = node_unavailability(failures_per_node_day=failures.removed_per_node_day, repair_s=policy.repair_s)
    restart = policy.restart_s if policy.restart_s is not None else published_restart_s(num_gpus=plans.num_gpus)
    spares = _spares(plans, policy, out)
    job = FaultTolerance(
        failures_per_day=failures.per_day,
        interval_s=tier.interval_s,
        stall_s=tier.stall_s,
        persist_s=tier.persist_s,
        detection_s=policy.detection_s,
        restart_s=restart,
        load_s=tier.load_s,
        silent_per_day=failures.per_day * failures.silent_share,
        silent_latency_s=policy.silent_latency_s,
        num_nodes=plans.num_nodes,
        spares=spares,
        unavailability=out,
    )
    return Operation(
        failures=failures,
        checkpoints=checkpoints,
        restart_s=np.broadcast_to(real("restart_s", restart), step.shape),
        spares=spares,
        step_time_s=step * _slowdown(policy, checkpoints),
        job=job,
        goodput=goodput(job, when_short=policy.when_short),
    )


def expected_time_to_train(plans: TrainingPlans, policy: RunPolicy) -> TimeToTrain:
    """Return days, accelerator hours and cost of each plan at the expected rates: the objective of a search.

    Parameters
    ----------
    plans : TrainingPlans
        Candidates, shape (n,).
    policy : RunPolicy
        How they are run.

    Returns
    -------
    TimeToTrain
    """
    plans = plans.broadcast()
    run = operate(plans, policy)
    useful = plans.steps * run.step_time_s
    with np.errstate(divide="ignore"):
        wall = np.where(run.goodput.finishes, useful / np.maximum(run.goodput.ettr, np.finfo(float).tiny), np.inf)
    startup = run.restart_s + run.checkpoints.tier.load_s
    days = (wall + startup) / SECONDS_PER_DAY / (1.0 - policy.planned_downtime_fraction)
    hours = gpu_hours(plans, run, days)
    return TimeToTrain(
        days=days,
        gpu_hours=hours,
        cost=None if policy.price_per_gpu_hour is None else hours * policy.price_per_gpu_hour,
        ettr=run.goodput.ettr,
        interruptions=run.failures.per_day * wall / SECONDS_PER_DAY,
        checkpoint_interval_s=run.checkpoints.interval_s,
        spares=run.spares,
    )


def gpu_hours(plans: TrainingPlans, run: Operation, days: FloatArray) -> FloatArray:
    """Return accelerator hours of ``days``, shape (..., n), spare nodes included."""
    per_node = np.asarray(plans.gpus_per_node, dtype=np.float64)
    held: FloatArray = np.asarray(plans.num_gpus, dtype=np.float64) + run.spares * per_node
    return days * HOURS_PER_DAY * held


def _spares(plans: TrainingPlans, policy: RunPolicy, unavailability: FloatArray) -> FloatArray:
    if policy.spares is None:
        return spares_for_repair(num_nodes=plans.num_nodes, unavailability=unavailability, risk=policy.spare_risk)
    return np.broadcast_to(real("spares", policy.spares), unavailability.shape)


def _slowdown(policy: RunPolicy, checkpoints: CheckpointPlan) -> FloatArray:
    """Return the factor on step time for checkpoints written behind training."""
    slowed = real("persist_slowdown_fraction", policy.persist_slowdown_fraction)
    period = checkpoints.interval_s + checkpoints.times.stall_s
    busy: FloatArray = np.minimum(checkpoints.times.persist_s / period, 1.0)
    return 1.0 + slowed * busy
