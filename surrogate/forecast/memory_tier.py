"""Checkpoints kept in the memory of other nodes (GEMINI) in front of those on storage.

Failures that leave a copy alive go back at most one memory interval; the others go back to storage. To first order in
the rate the fall-back adds, per failure, (1 - share) (dt / 2 + t_p + load) of the storage tier to the outage.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from surrogate.forecast.inputs import RunPolicy, TrainingPlans
from surrogate.reliability.arrays import FloatArray, real
from surrogate.reliability.checkpointing import (
    CheckpointSize,
    CheckpointTimes,
    StorageSpec,
    memory_checkpoint_times,
    memory_recovery_probability,
)
from surrogate.reliability.intervals import best_interval, shortest_interval

NODES_BEHIND_A_SWITCH: Final = 32.0
"""Nodes a switch takes with it (the switch group of arXiv:2509.16293)."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Tier:
    """The checkpoints a job recovers from, arrays of shape (n,).

    ``load_s`` includes the expected rework of failures that fall back to storage.
    """

    interval_s: FloatArray
    stall_s: FloatArray
    persist_s: FloatArray
    load_s: FloatArray


def memory_share(*, num_nodes: FloatArray, switch_share: FloatArray, copies: int) -> FloatArray:
    """Return the share of failures after which every piece of the state still has a copy.

    Parameters
    ----------
    num_nodes : ndarray, shape (n,)
        Nodes of the job.
    switch_share : ndarray, shape (n,)
        Share of failures that take a whole switch group; the others lose at most one node.
    copies : int
        Nodes that hold each piece; 1 is none to spare.

    Returns
    -------
    ndarray, shape (n,)
        Fraction.
    """
    one = memory_recovery_probability(num_nodes=num_nodes, copies=copies, lost=1.0)
    group = memory_recovery_probability(
        num_nodes=num_nodes, copies=copies, lost=np.minimum(NODES_BEHIND_A_SWITCH, num_nodes)
    )
    usable = num_nodes >= copies
    return np.where(usable, (1.0 - switch_share) * one + switch_share * group, 0.0)


def memory_tier(
    plans: TrainingPlans,
    policy: RunPolicy,
    *,
    size: CheckpointSize,
    storage: StorageSpec,
    behind: Tier,
    failures: tuple[FloatArray, FloatArray],
) -> Tier:
    """Return the memory tier in front of the storage tier ``behind``.

    Parameters
    ----------
    plans : TrainingPlans
        Shape (n,).
    policy : RunPolicy
        For the number of copies.
    size : CheckpointSize
        Bytes of a checkpoint.
    storage : StorageSpec
        Bandwidths; the node link carries the copies.
    behind : Tier
        Storage checkpoints with their interval.
    failures : tuple of ndarray
        Mean time between failures in seconds, and the share that takes a switch group.

    Returns
    -------
    Tier
    """
    mtbf_s, switch_share = failures
    times: CheckpointTimes = memory_checkpoint_times(size, storage, copies=policy.memory_copies)
    step = real("step_time_s", plans.step_time_s)
    shortest = shortest_interval(stall_s=times.stall_s, persist_s=times.persist_s, step_time_s=step)
    interval = best_interval(mtbf_s=mtbf_s, stall_s=times.stall_s, shortest_s=shortest, step_time_s=step)
    interval = np.minimum(interval, behind.interval_s)
    share = memory_share(num_nodes=plans.num_nodes, switch_share=switch_share, copies=policy.memory_copies)
    back_to_storage = behind.interval_s / 2.0 + behind.persist_s + behind.load_s
    return Tier(
        interval_s=interval,
        stall_s=times.stall_s,
        persist_s=np.minimum(times.persist_s, interval),
        load_s=share * times.load_s + (1.0 - share) * back_to_storage,
    )
