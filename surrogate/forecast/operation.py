"""Plans under a policy, resolved: failure rate, checkpoint times, interval, spares and goodput, all vectorised."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from surrogate.forecast.inputs import RunPolicy, TrainingPlans
from surrogate.reliability._arrays import FloatArray, IntArray, real
from surrogate.reliability.checkpointing import (
    CheckpointLayout,
    CheckpointSize,
    CheckpointTimes,
    StorageSpec,
    checkpoint_size,
    checkpoint_times,
)
from surrogate.reliability.failures import ComponentRates, component_index, job_rate_gamma
from surrogate.reliability.goodput import FaultTolerance, Goodput, goodput
from surrogate.reliability.hardware import COMPONENTS, NODE_REMOVING_COMPONENTS, HardwareCounts, hardware_counts
from surrogate.reliability.intervals import best_interval, check_interval, shortest_interval
from surrogate.reliability.priors import accelerator_family, published_prior
from surrogate.reliability.recovery import published_restart_s
from surrogate.reliability.spares import node_unavailability, spares_for_repair
from surrogate.units import HOURS_PER_DAY, SECONDS_PER_DAY


@dataclass(frozen=True, kw_only=True, slots=True)
class FailureLaw:
    """A job's failures: Gamma rate per day and what share silently corrupts or removes nodes, shape (n,)."""

    shape: FloatArray
    exposure_days: FloatArray
    silent_share: FloatArray
    removed_per_node_day: FloatArray
    dispersion: float

    @property
    def per_day(self) -> FloatArray:
        """Expected failures per day."""
        return self.shape / self.exposure_days


@dataclass(frozen=True, kw_only=True, slots=True)
class Operation:
    """Everything about running each plan, arrays of shape (n,)."""

    failures: FailureLaw
    checkpoint: CheckpointSize
    times: CheckpointTimes
    interval_s: FloatArray
    shortest_interval_s: FloatArray
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
    size, times = _checkpoint(plans, policy)
    step = np.asarray(plans.step_time_s, dtype=np.float64)
    shortest = shortest_interval(
        stall_s=times.stall_s,
        persist_s=times.persist_s,
        step_time_s=step,
        storage_duty_fraction=policy.storage_duty_fraction,
    )
    interval = _interval(policy, failures, times, shortest, step)
    out = node_unavailability(failures_per_node_day=failures.removed_per_node_day, repair_s=policy.repair_s)
    restart = policy.restart_s if policy.restart_s is not None else published_restart_s(num_gpus=plans.num_gpus)
    spares = _spares(plans, policy, out)
    job = FaultTolerance(
        failures_per_day=failures.per_day,
        interval_s=interval,
        stall_s=times.stall_s,
        persist_s=times.persist_s,
        detection_s=policy.detection_s,
        restart_s=restart,
        load_s=times.load_s,
        silent_per_day=failures.per_day * failures.silent_share,
        silent_latency_s=policy.silent_latency_s,
        num_nodes=plans.num_nodes,
        spares=spares,
        unavailability=out,
    )
    return Operation(
        failures=failures,
        checkpoint=size,
        times=times,
        interval_s=interval,
        shortest_interval_s=shortest,
        restart_s=np.broadcast_to(np.asarray(restart, dtype=np.float64), step.shape),
        spares=spares,
        step_time_s=step * _slowdown(policy, times, interval),
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
    startup = run.restart_s + run.times.load_s
    days = (wall + startup) / SECONDS_PER_DAY / (1.0 - policy.planned_downtime_fraction)
    hours = gpu_hours(plans, run, days)
    return TimeToTrain(
        days=days,
        gpu_hours=hours,
        cost=None if policy.price_per_gpu_hour is None else hours * policy.price_per_gpu_hour,
        ettr=run.goodput.ettr,
        interruptions=run.failures.per_day * wall / SECONDS_PER_DAY,
        checkpoint_interval_s=run.interval_s,
        spares=run.spares,
    )


def gpu_hours(plans: TrainingPlans, run: Operation, days: FloatArray) -> FloatArray:
    """Return accelerator hours of ``days``, shape (..., n), spare nodes included."""
    per_node = np.asarray(plans.gpus_per_node, dtype=np.float64)
    held: FloatArray = np.asarray(plans.num_gpus, dtype=np.float64) + run.spares * per_node
    return days * HOURS_PER_DAY * held


def failure_law(plans: TrainingPlans, policy: RunPolicy) -> FailureLaw:
    """Return the failures of each plan: its own rates, or the published ones of its accelerator's family."""
    plans = plans.broadcast()
    counts = hardware_counts(num_gpus=plans.num_gpus, gpus_per_node=plans.gpus_per_node)
    names, inverse = np.unique(np.asarray(plans.accelerator).astype(str), return_inverse=True)
    families = np.array([accelerator_family(name) if policy.rates is None else "own" for name in names])[inverse]
    columns = np.empty((4, len(families)))
    for family in np.unique(families):
        rows = np.flatnonzero(families == family)
        rates = policy.rates or published_prior(str(family), policy.maturity)
        columns[:, rows] = _law_columns(rates, _rows(counts, rows))
    shape, exposure, silent, removed = columns
    factor = real("failure_rate_factor", policy.failure_rate_factor, strict=True)
    dispersion = 1.0 if policy.rates is None else policy.rates.dispersion
    return FailureLaw(
        shape=shape,
        exposure_days=exposure / factor,
        silent_share=silent,
        removed_per_node_day=removed * factor,
        dispersion=dispersion,
    )


def _law_columns(rates: ComponentRates, counts: HardwareCounts) -> FloatArray:
    shape, exposure = job_rate_gamma(rates=rates, counts=counts)
    per_component = counts.per_component() * rates.mean_per_unit_day
    removing = [COMPONENTS.index(name) for name in NODE_REMOVING_COMPONENTS]
    silent = per_component[:, component_index("sdc")] / per_component.sum(axis=1)
    return np.stack([shape, exposure, silent, per_component[:, removing].sum(axis=1) / counts.node])


def _rows(counts: HardwareCounts, rows: IntArray) -> HardwareCounts:
    return HardwareCounts(
        gpu=counts.gpu[rows], node=counts.node[rows], nic=counts.nic[rows], switch=counts.switch[rows]
    )


def _checkpoint(plans: TrainingPlans, policy: RunPolicy) -> tuple[CheckpointSize, CheckpointTimes]:
    layout = CheckpointLayout(
        num_params=plans.num_params,
        num_gpus=plans.num_gpus,
        gpus_per_node=plans.gpus_per_node,
        tp=plans.tp,
        pp=plans.pp,
        dp=plans.data_parallel,
        sharded=plans.sharded,
        replicated_reads=policy.replicated_reads,
    )
    storage = StorageSpec(
        write_bytes_per_s=policy.write_bytes_per_s,
        read_bytes_per_s=policy.read_bytes_per_s,
        host_link_bytes_per_s=policy.host_link_bytes_per_s,
        node_bytes_per_s=plans.node_bytes_per_s,
        barrier_s=policy.barrier_s,
    )
    size = checkpoint_size(layout)
    return size, checkpoint_times(size, storage, asynchronous=policy.asynchronous)


def _spares(plans: TrainingPlans, policy: RunPolicy, unavailability: FloatArray) -> FloatArray:
    if policy.spares is None:
        return spares_for_repair(num_nodes=plans.num_nodes, unavailability=unavailability, risk=policy.spare_risk)
    return np.broadcast_to(real("spares", policy.spares), unavailability.shape)


def _slowdown(policy: RunPolicy, times: CheckpointTimes, interval_s: FloatArray) -> FloatArray:
    """Return the factor on step time for checkpoints written behind training."""
    slowed = real("persist_slowdown_fraction", policy.persist_slowdown_fraction)
    busy: FloatArray = np.minimum(times.persist_s / (interval_s + times.stall_s), 1.0)
    return 1.0 + slowed * busy


def _interval(
    policy: RunPolicy, failures: FailureLaw, times: CheckpointTimes, shortest: FloatArray, step: FloatArray
) -> FloatArray:
    if policy.checkpoint_interval_s is not None:
        interval = real("checkpoint_interval_s", policy.checkpoint_interval_s, strict=True)
        check_interval(interval_s=interval, save_s=times.save_s)
        return np.broadcast_to(interval, step.shape)
    return best_interval(
        mtbf_s=SECONDS_PER_DAY / failures.per_day, stall_s=times.stall_s, shortest_s=shortest, step_time_s=step
    )
