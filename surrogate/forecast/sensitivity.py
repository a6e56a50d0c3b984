"""Which input matters most: the expected days with one input moved at a time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
from scipy import special

from surrogate.forecast.inputs import RunPolicy, TrainingPlans
from surrogate.forecast.operation import Operation, expected_time_to_train
from surrogate.reliability.arrays import FloatArray

_Z_90: Final = 1.2815515655446004
_HALF_AND_DOUBLE: Final = (0.5, 2.0)


@dataclass(frozen=True, kw_only=True, slots=True)
class InputEffect:
    """Expected days at a low and a high value of one input, all others as forecast; infinite for a run without end."""

    name: str
    low: str
    high: str
    days_low: float
    days_high: float

    @property
    def swing_days(self) -> float:
        """How far the input moves the days."""
        return abs(self.days_high - self.days_low) if self.days_high != self.days_low else 0.0


_Variant = tuple[str, tuple[str, str], tuple[TrainingPlans, TrainingPlans], tuple[RunPolicy, RunPolicy]]


def one_at_a_time(plans: TrainingPlans, policy: RunPolicy, run: Operation) -> tuple[InputEffect, ...]:
    """Return the effect of each input on the expected days, the largest first.

    Parameters
    ----------
    plans : TrainingPlans
        Phases, shape (n,).
    policy : RunPolicy
        How the run is operated.
    run : Operation
        As from `operate` on the same plans and policy.

    Returns
    -------
    tuple of InputEffect
        Step time and failure rate move between their 10 % and 90 % quantiles, the rest to half and double. The best
        checkpoint interval follows, unless one was given; the spares stay.
    """
    policy = replace(policy, spares=run.spares)
    effects = []
    for name, labels, moved_plans, policies in _variants(plans, policy, run):
        low, high = (
            float(expected_time_to_train(moved, changed).days.sum())
            for moved, changed in zip(moved_plans, policies, strict=True)
        )
        effects.append(InputEffect(name=name, low=labels[0], high=labels[1], days_low=low, days_high=high))
    return tuple(sorted(effects, key=lambda effect: -effect.swing_days))


def _variants(plans: TrainingPlans, policy: RunPolicy, run: Operation) -> Iterator[_Variant]:
    quantiles = ("P10", "P90")
    step, spread = np.asarray(plans.step_time_s), np.asarray(plans.log_sd)
    slower = tuple(replace(plans, step_time_s=step * np.exp(sign * _Z_90 * spread)) for sign in (-1.0, 1.0))
    yield "step_time_s", quantiles, (slower[0], slower[1]), (policy, policy)
    law = run.failures
    factors = [policy.failure_rate_factor * special.gammaincinv(law.shape, level) / law.shape for level in (0.1, 0.9)]
    rates = [replace(policy, failure_rate_factor=factor) for factor in factors]
    yield "failure_rate", quantiles, (plans, plans), (rates[0], rates[1])
    for name, value in _policy_inputs(policy, run).items():
        moved = [_with_input(policy, name, value * factor) for factor in _HALF_AND_DOUBLE]
        yield name, ("x 0.5", "x 2"), (plans, plans), (moved[0], moved[1])


def _policy_inputs(policy: RunPolicy, run: Operation) -> dict[str, FloatArray]:
    inputs = {
        "restart_s": run.restart_s,
        "spares": run.spares,
        "detection_s": policy.detection_s,
        "repair_s": policy.repair_s,
        "write_bytes_per_s": policy.write_bytes_per_s,
        "read_bytes_per_s": policy.read_bytes_per_s,
    }
    return {name: np.asarray(value, dtype=np.float64) for name, value in inputs.items()}


def _with_input(policy: RunPolicy, name: str, value: FloatArray) -> RunPolicy:
    changed: dict[str, Any] = {name: np.ceil(value) if name == "spares" else value}
    return replace(policy, **changed)
