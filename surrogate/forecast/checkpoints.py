"""How each plan checkpoints under a policy: bytes, times, interval, and the tier it recovers from."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from surrogate.forecast.failure_law import FailureLaw
from surrogate.forecast.inputs import RunPolicy, TrainingPlans
from surrogate.forecast.memory_tier import Tier, memory_tier
from surrogate.reliability.arrays import FloatArray, real
from surrogate.reliability.checkpointing import (
    CheckpointLayout,
    CheckpointSize,
    CheckpointTimes,
    StorageSpec,
    checkpoint_size,
    checkpoint_times,
)
from surrogate.reliability.intervals import best_interval, check_interval, shortest_interval
from surrogate.units import SECONDS_PER_DAY


@dataclass(frozen=True, kw_only=True, slots=True)
class CheckpointPlan:
    """Checkpoints of each plan, arrays of shape (n,).

    ``times``, ``interval_s`` and ``shortest_interval_s`` are those of the checkpoints on storage; ``tier`` is what a
    failed job goes back to: the same, or the memory of other nodes.
    """

    size: CheckpointSize
    times: CheckpointTimes
    interval_s: FloatArray
    shortest_interval_s: FloatArray
    tier: Tier


def checkpoint_plan(plans: TrainingPlans, policy: RunPolicy, failures: FailureLaw) -> CheckpointPlan:
    """Resolve the checkpoints of each plan.

    Parameters
    ----------
    plans : TrainingPlans
        Shape (n,).
    policy : RunPolicy
        Bandwidths, a given interval, memory copies.
    failures : FailureLaw
        What the best interval is best for.

    Returns
    -------
    CheckpointPlan

    Raises
    ------
    InputError
        For a given interval shorter than a save.
    """
    size, storage = checkpoint_size(_layout(plans, policy)), _storage(plans, policy)
    times = checkpoint_times(size, storage, asynchronous=policy.asynchronous)
    step = real("step_time_s", plans.step_time_s)
    shortest = shortest_interval(
        stall_s=times.stall_s,
        persist_s=times.persist_s,
        step_time_s=step,
        storage_duty_fraction=policy.storage_duty_fraction,
    )
    interval = _interval(policy, failures, times, shortest, step)
    tier = Tier(interval_s=interval, stall_s=times.stall_s, persist_s=times.persist_s, load_s=times.load_s)
    if policy.memory_copies > 1:
        law = (SECONDS_PER_DAY / failures.per_day, failures.switch_share)
        tier = memory_tier(plans, policy, size=size, storage=storage, behind=tier, failures=law)
    return CheckpointPlan(size=size, times=times, interval_s=interval, shortest_interval_s=shortest, tier=tier)


def _layout(plans: TrainingPlans, policy: RunPolicy) -> CheckpointLayout:
    return CheckpointLayout(
        num_params=plans.num_params,
        num_gpus=plans.num_gpus,
        gpus_per_node=plans.gpus_per_node,
        tp=plans.tp,
        pp=plans.pp,
        dp=plans.data_parallel,
        sharded=plans.sharded,
        replicated_reads=policy.replicated_reads,
    )


def _storage(plans: TrainingPlans, policy: RunPolicy) -> StorageSpec:
    return StorageSpec(
        write_bytes_per_s=policy.write_bytes_per_s,
        read_bytes_per_s=policy.read_bytes_per_s,
        host_link_bytes_per_s=policy.host_link_bytes_per_s,
        node_bytes_per_s=plans.node_bytes_per_s,
        barrier_s=policy.barrier_s,
    )


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
