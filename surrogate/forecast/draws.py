"""Possible outcomes of a run: step time, failure rate and the failures themselves, all uncertain.

Each draw takes one error of the step-time model and one failure rate for the whole run (phases share both: the same
model predicts them, the same cluster runs them), then a number of failures at that rate and what each one costs.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import special

from surrogate.errors import InputError
from surrogate.forecast.inputs import RunPolicy, TrainingPlans
from surrogate.forecast.operation import Operation, gpu_hours
from surrogate.reliability.arrays import FloatArray
from surrogate.reliability.failures import negative_binomial_size
from surrogate.reliability.goodput import renewal_ettr
from surrogate.units import SECONDS_PER_DAY

_NEVER_BELOW_ETTR = 1e-6


@dataclass(frozen=True, kw_only=True, slots=True)
class RunDraws:
    """Outcomes, arrays of shape (draws,); ``days`` is infinite where the run never finishes."""

    days: FloatArray
    gpu_hours: FloatArray
    interruptions: FloatArray

    @property
    def never_finishes_probability(self) -> float:
        """Share of the draws whose failures outpace the work."""
        return float(np.mean(~np.isfinite(self.days)))


def draw_runs(plans: TrainingPlans, run: Operation, policy: RunPolicy, *, draws: int, seed: int) -> RunDraws:
    """Draw outcomes of a run whose phases are the rows of ``plans``.

    Parameters
    ----------
    plans : TrainingPlans
        Phases, shape (n,).
    run : Operation
        As from `operate` on the same plans and policy.
    policy : RunPolicy
        For planned downtime.
    draws, seed : int
        How many, and from which seed.

    Returns
    -------
    RunDraws

    Raises
    ------
    InputError
        When more than half of the draws never finish.

    Notes
    -----
    Given a rate, the count is Poisson (negative binomial when the rates carry a dispersion) with the renewal form's
    mean, and the time lost has the renewal form's mean per failure and the spread of rework, uniform over an interval.
    """
    rng = np.random.default_rng(seed)
    step_error, rate_level = rng.standard_normal(draws)[:, None], rng.uniform(size=draws)[:, None]
    step = run.step_time_s * np.exp(np.asarray(plans.log_sd) * step_error)
    rate = special.gammaincinv(run.failures.shape, rate_level) / run.failures.exposure_days
    wall, interruptions = _wall_and_count(run, plans.steps * step, rate, rng)
    running = 1.0 - run.goodput.losses.repair_wait
    startup = run.restart_s + run.checkpoints.tier.load_s
    days = (wall / running + startup) / SECONDS_PER_DAY / (1.0 - policy.planned_downtime_fraction)
    outcome = RunDraws(
        days=days.sum(axis=1),
        gpu_hours=gpu_hours(plans, run, days).sum(axis=1),
        interruptions=interruptions.sum(axis=1),
    )
    if outcome.never_finishes_probability > 0.5:
        way_out = "the run never finishes: checkpoint faster, restart faster, or use fewer accelerators"
        per_day = float(run.failures.per_day.max())
        raise InputError("failures_per_day", "must leave time to commit work between failures", per_day, way_out)
    return outcome


def _wall_and_count(
    run: Operation, useful_s: FloatArray, rate_per_day: FloatArray, rng: np.random.Generator
) -> tuple[FloatArray, FloatArray]:
    """Return wall seconds and failures, shape (draws, n)."""
    job, rate = run.job, rate_per_day / SECONDS_PER_DAY
    outage = np.asarray(job.detection_s) + np.asarray(job.restart_s) + np.asarray(job.load_s)
    kept = renewal_ettr(
        failures_per_s=rate,
        interval_s=job.interval_s,
        stall_s=job.stall_s,
        persist_s=job.persist_s,
        outage_s=outage,
    )
    kept = kept / (1.0 + rate * run.failures.silent_share * np.asarray(job.silent_latency_s))
    never = kept < _NEVER_BELOW_ETTR
    kept = np.where(never, 1.0, kept)
    undisturbed = useful_s * (1.0 + run.checkpoints.tier.stall_s / run.checkpoints.tier.interval_s)
    expected = rate * useful_s / kept
    count = _draw_counts(expected, run.failures.dispersion, rng)
    per_failure = np.maximum(useful_s / kept - undisturbed, 0.0) / np.maximum(expected, np.finfo(np.float64).tiny)
    rework_sd = (run.checkpoints.tier.interval_s + run.checkpoints.tier.stall_s) / np.sqrt(12.0)
    lost = per_failure * count + rework_sd * np.sqrt(count) * rng.standard_normal(count.shape)
    return np.where(never, np.inf, undisturbed + np.maximum(lost, 0.0)), np.where(never, np.inf, count)


def _draw_counts(expected: FloatArray, dispersion: float, rng: np.random.Generator) -> FloatArray:
    if dispersion == 1.0:
        return rng.poisson(expected).astype(np.float64)
    certain = np.full_like(expected, 1.0 / np.finfo(np.float64).eps)
    size = negative_binomial_size(mean=expected, shape=certain, dispersion=dispersion)
    return rng.poisson(rng.gamma(size, expected / size)).astype(np.float64)
