"""Useful training time over wall time, in closed form, and where the rest goes.

Notation
--------
Lambda  failures of the job per second, during restarts too (Poisson)
dt, w   useful time between checkpoints and stall per checkpoint, s; tau = dt + w
t_p     background time until a checkpoint is usable, s (0 when synchronous)
u0      from failure to training again, s: detection + restart + load; a failed restart starts over
L       lives (stretches of running between failures) per committed segment, exp(Lambda t_p) (exp(Lambda tau) - 1)
phi     wall time per useful second, exp(Lambda (u0 + t_p)) (exp(Lambda tau) - 1) / (Lambda dt); goodput = 1 / phi

A life of length Y commits floor((Y - t_p) / tau) segments. Renewal reward gives phi; the first-order limit is the
published 1 - Lambda (u0 + dt / 2) over 1 + w / dt (arXiv:2410.21680), which turns negative where phi does not.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from surrogate.reliability.arrays import BoolArray, FloatArray, fraction, real
from surrogate.reliability.intervals import check_interval
from surrogate.reliability.spares import expected_shortfall_nodes, probability_short
from surrogate.units import SECONDS_PER_DAY

WhenShort = Literal["wait", "elastic"]


@dataclass(frozen=True, kw_only=True, slots=True)
class FaultTolerance:
    """How a job fails and recovers, arrays that broadcast to shape (n,) or numbers; seconds unless named.

    Parameters
    ----------
    failures_per_day : array_like
        Job-stopping failures.
    interval_s, stall_s, persist_s : array_like
        Useful time between checkpoints, stall of each, and time in the background until it is usable.
    detection_s, restart_s, load_s : array_like
        From the failure until it is noticed, until all processes run again, until the checkpoint is read.
    silent_per_day, silent_latency_s : array_like
        Silent corruptions (also counted in ``failures_per_day``) and how late they are noticed: that work is redone.
    num_nodes, spares, unavailability : array_like
        Job nodes, warm spares, and share of time a node is out for repair.
    """

    failures_per_day: ArrayLike
    interval_s: ArrayLike
    stall_s: ArrayLike
    persist_s: ArrayLike = 0.0
    detection_s: ArrayLike = 0.0
    restart_s: ArrayLike = 0.0
    load_s: ArrayLike = 0.0
    silent_per_day: ArrayLike = 0.0
    silent_latency_s: ArrayLike = 0.0
    num_nodes: ArrayLike = 1.0
    spares: ArrayLike = 0.0
    unavailability: ArrayLike = 0.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Losses:
    """Shares of wall time, arrays of shape (n,); with the useful share they sum to 1."""

    checkpoint_stall: FloatArray
    lost_work: FloatArray
    detection: FloatArray
    restart: FloatArray
    load: FloatArray
    silent_corruption: FloatArray
    repair_wait: FloatArray

    def to_dict(self) -> dict[str, FloatArray]:
        """Return the shares by name."""
        return {field.name: getattr(self, field.name) for field in fields(self)}


@dataclass(frozen=True, kw_only=True, slots=True)
class Goodput:
    """Useful share of wall time and failures per useful day, arrays of shape (n,).

    ``ettr`` is 0 where a job fails faster than it can commit work: it never finishes.
    """

    ettr: FloatArray
    losses: Losses
    failures_per_useful_day: FloatArray

    @property
    def finishes(self) -> BoolArray:
        """Whether a job makes headway at all."""
        return self.ettr > 0.0


def goodput(job: FaultTolerance, *, when_short: WhenShort = "wait") -> Goodput:
    """Return the share of wall time that trains, and the losses that make up the rest.

    Parameters
    ----------
    job : FaultTolerance
        Arrays that broadcast to shape (n,).
    when_short : {"wait", "elastic"}
        Without a spare, wait for a repair or run on with the nodes that are left.

    Returns
    -------
    Goodput

    Raises
    ------
    InputError
        For an interval shorter than a save, or a quantity out of range.

    Notes
    -----
    Lost work per life is 1 / Lambda - tau / L, restarts (exp(Lambda u0) - 1) / Lambda; divided among detection,
    restart and load in proportion. Silent corruption noticed Te late multiplies by 1 / (1 + Lambda_s Te): after a
    clean life of mean 1 / Lambda_s, Te of work is thrown away. Waiting multiplies by P(nodes out <= spares), an
    elastic job by the nodes it still has; both assume that repairs and restarts are independent.

    Examples
    --------
    >>> job = FaultTolerance(failures_per_day=86400 / 10008, interval_s=1800, stall_s=60, restart_s=600)
    >>> round(float(goodput(job).ettr), 4)
    0.8294
    """
    rate = real("failures_per_day", job.failures_per_day) / SECONDS_PER_DAY
    interval, stall, persist = (real(name, getattr(job, name)) for name in ("interval_s", "stall_s", "persist_s"))
    check_interval(interval_s=interval, save_s=persist - stall)
    parts = [real(name, getattr(job, name)) for name in ("detection_s", "restart_s", "load_s")]
    renewal = renewal_ettr(
        failures_per_s=rate, interval_s=interval, stall_s=stall, persist_s=persist, outage_s=sum(parts, np.zeros(()))
    )
    silent = _silent_factor(job)
    running = _running_factor(job, when_short)
    ettr = renewal * silent * running
    stalled = renewal * stall / interval
    outage = _outage_share(rate, sum(parts, np.zeros(())))
    waste = np.maximum(1.0 - outage - renewal - stalled, 0.0)
    split = [_share_of(part, parts) * outage * running for part in parts]
    losses = Losses(
        checkpoint_stall=stalled * running,
        lost_work=waste * running,
        detection=split[0],
        restart=split[1],
        load=split[2],
        silent_corruption=renewal * (1.0 - silent) * running,
        repair_wait=1.0 - running + 0.0 * ettr,
    )
    with np.errstate(divide="ignore"):
        per_useful_day = np.where(ettr > 0.0, rate * SECONDS_PER_DAY / ettr, np.inf)
    return Goodput(ettr=ettr, losses=losses, failures_per_useful_day=per_useful_day)


def renewal_ettr(
    *, failures_per_s: ArrayLike, interval_s: ArrayLike, stall_s: ArrayLike, persist_s: ArrayLike, outage_s: ArrayLike
) -> FloatArray:
    """Return 1 / phi of the module's notation; 0, never negative, when nothing gets committed.

    Parameters
    ----------
    failures_per_s, interval_s, stall_s, persist_s, outage_s : array_like, shape (n,)
        Lambda, dt, w, t_p, u0.

    Returns
    -------
    ndarray, shape (n,)
        Fraction.

    Examples
    --------
    >>> ettr = renewal_ettr(failures_per_s=1 / 900, interval_s=600, stall_s=60, persist_s=300, outage_s=300)
    >>> round(float(ettr), 4)
    0.3163
    """
    names = (failures_per_s, interval_s, stall_s, persist_s, outage_s)
    rate, interval, stall, persist, outage = (np.asarray(values, dtype=np.float64) for values in names)
    tau = interval + stall
    # exprel(x) = (exp(x) - 1) / x overflows to infinity, and the quotient is then the right 0
    with np.errstate(over="ignore"):
        growth = special.exprel(rate * tau)
    ettr: FloatArray = interval / tau / growth * np.exp(-rate * (outage + persist))
    return ettr


def first_order_ettr(
    *, failures_per_s: ArrayLike, interval_s: ArrayLike, stall_s: ArrayLike, outage_s: ArrayLike
) -> FloatArray:
    """Return the published small-loss approximation, (1 - Lambda (u0 + dt / 2)) / (1 + w / dt), clipped at 0.

    References
    ----------
    arXiv:2410.21680, expected ETTR; kept for comparison with published figures.
    """
    rate, interval = real("failures_per_s", failures_per_s), real("interval_s", interval_s, strict=True)
    lost = rate * (real("outage_s", outage_s) + interval / 2.0)
    return np.maximum(1.0 - lost, 0.0) / (1.0 + real("stall_s", stall_s) / interval)


def two_tier_ettr(
    *,
    failures_per_s: ArrayLike,
    memory_share: ArrayLike,
    memory: FaultTolerance,
    storage: FaultTolerance,
) -> FloatArray:
    """Return the goodput of a job that recovers some failures from memory and the rest from storage.

    Parameters
    ----------
    failures_per_s : array_like, shape (n,)
        All failures.
    memory_share : array_like, shape (n,)
        Share that finds its state in the memory of surviving nodes.
    memory, storage : FaultTolerance
        Interval, stall, persist and outage of each tier; their failure rates are not read.

    Returns
    -------
    ndarray, shape (n,)
        1 / (1 + losses) to first order: sum over tiers of rate (u + dt / 2 + t_p) + w / dt.
    """
    rate, share = real("failures_per_s", failures_per_s), fraction("memory_share", memory_share)
    loss = np.zeros(())
    for tier, part in ((memory, share), (storage, 1.0 - share)):
        interval = real("interval_s", tier.interval_s, strict=True)
        outage = sum((real(name, getattr(tier, name)) for name in ("detection_s", "restart_s", "load_s")), np.zeros(()))
        per_failure = outage + interval / 2.0 + real("persist_s", tier.persist_s)
        loss = loss + rate * part * per_failure + real("stall_s", tier.stall_s) / interval
    return 1.0 / (1.0 + loss)


def job_mtbf_s(*, num_nodes: ArrayLike, failures_per_node_day: ArrayLike) -> FloatArray:
    """Return the mean time between failures of a job in which any node's failure stops all, s.

    Examples
    --------
    >>> round(float(job_mtbf_s(num_nodes=2048, failures_per_node_day=6.5e-3)) / 3600, 3)
    1.803
    """
    per_day = real("num_nodes", num_nodes, strict=True) * real(
        "failures_per_node_day", failures_per_node_day, strict=True
    )
    return SECONDS_PER_DAY / per_day


def _outage_share(rate: FloatArray, outage: FloatArray) -> FloatArray:
    # a life lasts 1 / Lambda, its restart (exp(Lambda u0) - 1) / Lambda
    return -np.expm1(-rate * outage)


def _share_of(part: FloatArray, parts: list[FloatArray]) -> FloatArray:
    total = sum(parts, np.zeros(()))
    return np.divide(part, total, out=np.zeros(np.broadcast(part, total).shape), where=total > 0.0)


def _silent_factor(job: FaultTolerance) -> FloatArray:
    rate = real("silent_per_day", job.silent_per_day) / SECONDS_PER_DAY
    return 1.0 / (1.0 + rate * real("silent_latency_s", job.silent_latency_s))


def _running_factor(job: FaultTolerance, when_short: WhenShort) -> FloatArray:
    out = {"num_nodes": job.num_nodes, "spares": job.spares, "unavailability": job.unavailability}
    if when_short == "wait":
        return 1.0 - probability_short(**out)
    return 1.0 - expected_shortfall_nodes(**out) / real("num_nodes", job.num_nodes, strict=True)
