"""Days, money, interruptions and the advice that goes with them, for one run of one or more phases."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Final

import numpy as np

from surrogate.errors import InputError
from surrogate.forecast.draws import RunDraws, draw_runs
from surrogate.forecast.inputs import RunPolicy, TrainingPlans
from surrogate.forecast.operation import Operation, TimeToTrain, expected_time_to_train, operate
from surrogate.forecast.sensitivity import InputEffect, one_at_a_time
from surrogate.reliability.arrays import FloatArray
from surrogate.reliability.intervals import checkpoints_to_keep

DRAWS: Final = 20_000
"""Sampling error of a P90 below 1 % of the spread."""
_PERCENTILES: Final = np.arange(1, 100) / 100.0
_INTERVAL_FACTORS: Final = (0.25, 0.5, 2.0, 4.0)


@dataclass(frozen=True, kw_only=True, slots=True)
class Spread:
    """Quantiles of a quantity; None where the quantile is a run that never finishes."""

    p10: float | None
    p50: float | None
    p90: float | None


@dataclass(frozen=True, kw_only=True, slots=True)
class IntervalChoice:
    """What checkpointing at some other interval costs."""

    interval_s: float
    ettr: float
    extra_days: float


@dataclass(frozen=True, kw_only=True, slots=True)
class PhaseForecast:
    """One phase at the expected rates."""

    steps: float
    days: float
    num_gpus: float
    failures_per_day: float
    ettr: float
    checkpoint_interval_s: float
    checkpoints_to_keep: float
    checkpoint_bytes: float
    stall_s: float
    persist_s: float
    restart_s: float
    spares: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Forecast:
    """The answer of `forecast_run`.

    ``days_percentiles`` are those from 1 % to 99 %. ``losses`` are shares of wall time and sum to 1 with ``ettr``.
    ``checkpoint_interval_s`` is that of the longest phase. Probabilities are None where nothing was asked.
    """

    days: Spread
    days_percentiles: tuple[float, ...]
    gpu_hours: Spread
    cost: Spread | None
    interruptions_mean: float
    interruptions_p5: float
    interruptions_p95: float
    ettr: float
    losses: dict[str, float]
    checkpoint_interval_s: float
    best_checkpoint_interval_s: float
    other_intervals: tuple[IntervalChoice, ...]
    spares: float
    sensitivity: tuple[InputEffect, ...]
    deadline_probability: float | None
    budget_probability: float | None
    never_finishes_probability: float
    phases: tuple[PhaseForecast, ...]

    def to_dict(self) -> dict[str, object]:
        """Return plain values for JSON: quantiles flat (``days_p10``, ...), None for what never ends."""
        nested = asdict(self)
        flat: dict[str, object] = {}
        for name in ("days", "cost", "gpu_hours"):
            spread = nested.pop(name) or {"p10": None, "p50": None, "p90": None}
            flat |= {f"{name}_{quantile}": value for quantile, value in spread.items()}
        del nested["days_percentiles"]
        return _finite(flat | nested)


def forecast_run(
    plans: TrainingPlans,
    policy: RunPolicy,
    *,
    deadline_days: float | None = None,
    budget: float | None = None,
    draws: int = DRAWS,
    seed: int = 0,
) -> Forecast:
    """Forecast a training run.

    Parameters
    ----------
    plans : TrainingPlans
        Phases in order, shape (n,).
    policy : RunPolicy
        How the run is operated.
    deadline_days, budget : float, optional
        Limits whose probability of being kept is wanted; a budget needs a price.
    draws, seed : int
        Outcomes drawn, and the seed: the same seed gives the same result.

    Returns
    -------
    Forecast

    Raises
    ------
    InputError
        When the run never finishes, or for a value out of range.
    """
    if budget is not None and policy.price_per_gpu_hour is None:
        raise InputError("budget", "needs a price", budget, "give the price of an accelerator hour (--price)")
    plans = plans.broadcast()
    run = operate(plans, policy)
    outcomes = draw_runs(plans, run, policy, draws=draws, seed=seed)
    expected = expected_time_to_train(plans, policy)
    best = expected_time_to_train(plans, replace(policy, checkpoint_interval_s=None))
    longest = int(np.argmax(expected.days))
    price = policy.price_per_gpu_hour
    cost = None if price is None else outcomes.gpu_hours * price
    share = expected.days / expected.days.sum()
    return Forecast(
        days=_spread(outcomes.days),
        days_percentiles=tuple(np.quantile(outcomes.days, _PERCENTILES, method="inverted_cdf").tolist()),
        gpu_hours=_spread(outcomes.gpu_hours),
        cost=None if cost is None else _spread(cost),
        **_interruptions(outcomes),
        ettr=float(share @ run.goodput.ettr),
        losses={name: float(share @ np.broadcast_to(loss, share.shape)) for name, loss in _losses(run).items()},
        checkpoint_interval_s=float(run.checkpoints.interval_s[longest]),
        best_checkpoint_interval_s=float(best.checkpoint_interval_s[longest]),
        other_intervals=_other_intervals(plans, policy, run, best, longest),
        spares=float(run.spares.max()),
        sensitivity=one_at_a_time(plans, policy, run),
        deadline_probability=None if deadline_days is None else float(np.mean(outcomes.days <= deadline_days)),
        budget_probability=None if budget is None or cost is None else float(np.mean(cost <= budget)),
        never_finishes_probability=outcomes.never_finishes_probability,
        phases=_phases(plans, run, expected),
    )


def _finite(values: dict[str, object]) -> dict[str, object]:
    """Return nested plain values with None for infinity, which JSON cannot say."""

    def plain(value: object) -> object:
        if isinstance(value, dict):
            return {key: plain(inner) for key, inner in value.items()}
        if isinstance(value, list | tuple):
            return [plain(inner) for inner in value]
        return None if isinstance(value, float) and not np.isfinite(value) else value

    return {key: plain(value) for key, value in values.items()}


def _losses(run: Operation) -> dict[str, FloatArray]:
    return run.goodput.losses.to_dict()


def _spread(values: FloatArray) -> Spread:
    # order statistics, not interpolation: infinite draws must not turn their finite neighbours into NaN
    quantiles = np.quantile(values, [0.1, 0.5, 0.9], method="inverted_cdf")
    p10, p50, p90 = (float(value) if np.isfinite(value) else None for value in quantiles)
    return Spread(p10=p10, p50=p50, p90=p90)


def _interruptions(outcomes: RunDraws) -> dict[str, float]:
    finite = outcomes.interruptions[np.isfinite(outcomes.interruptions)]
    p5, p95 = np.quantile(finite, [0.05, 0.95])
    return {
        "interruptions_mean": float(finite.mean()),
        "interruptions_p5": float(p5),
        "interruptions_p95": float(p95),
    }


def _other_intervals(
    plans: TrainingPlans, policy: RunPolicy, run: Operation, best: TimeToTrain, longest: int
) -> tuple[IntervalChoice, ...]:
    """Return what multiples of the best interval cost, those that cannot be kept up left out."""
    choices = []
    for factor in _INTERVAL_FACTORS:
        interval = best.checkpoint_interval_s * factor
        if (interval < np.maximum(run.checkpoints.times.save_s, run.checkpoints.shortest_interval_s)).any():
            continue
        other = expected_time_to_train(plans, replace(policy, checkpoint_interval_s=interval))
        choices.append(
            IntervalChoice(
                interval_s=float(interval[longest]),
                ettr=float(other.ettr[longest]),
                extra_days=float(other.days.sum() - best.days.sum()),
            )
        )
    return tuple(choices)


def _phases(plans: TrainingPlans, run: Operation, expected: TimeToTrain) -> tuple[PhaseForecast, ...]:
    columns = {
        "steps": plans.steps,
        "days": expected.days,
        "num_gpus": np.asarray(plans.num_gpus),
        "failures_per_day": run.failures.per_day,
        "ettr": run.goodput.ettr,
        "checkpoint_interval_s": run.checkpoints.interval_s,
        "checkpoints_to_keep": checkpoints_to_keep(
            detection_latency_s=run.job.silent_latency_s, interval_s=run.checkpoints.interval_s
        ),
        "checkpoint_bytes": run.checkpoints.size.total_bytes,
        "stall_s": run.checkpoints.times.stall_s,
        "persist_s": run.checkpoints.times.persist_s,
        "restart_s": run.restart_s,
        "spares": run.spares,
    }
    rows = np.stack([np.broadcast_to(column, expected.days.shape) for column in columns.values()], axis=1)
    return tuple(PhaseForecast(**dict(zip(columns, row.tolist(), strict=True))) for row in rows)
