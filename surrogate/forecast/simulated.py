"""A forecast run simulated component by component: what the closed form behind the forecast assumes away."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from surrogate.forecast.failure_law import plan_rates
from surrogate.forecast.inputs import RunPolicy, TrainingPlans
from surrogate.forecast.operation import operate
from surrogate.reliability.hardware import COMPONENTS, NODE_REMOVING_COMPONENTS, hardware_counts
from surrogate.reliability.simulation import RunSpec, simulate_runs
from surrogate.reliability.streams import FailureClass
from surrogate.units import SECONDS_PER_DAY

_GIVE_UP_AFTER: Final = 10.0
"""A simulated run is given up at this many times its undisturbed length."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Departures:
    """What a simulation assumes beyond the closed form; the defaults assume nothing.

    Parameters
    ----------
    weibull_shape : mapping of str to float
        Shape of the lives of a component; 1 where it is not named.
    lemon_shape : float
        Shape of the Gamma by which units differ in rate; infinite when alike.
    nodes_per_switch : int
        Nodes a failed switch takes out.
    repair_crews : int
        Repairs at a time; 0 for any number.
    """

    weibull_shape: Mapping[str, float]
    lemon_shape: float = float("inf")
    nodes_per_switch: int = 0
    repair_crews: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class SimulatedPhase:
    """Simulated outcome of one phase at the expected rates; ``days`` of the replications that finished."""

    replications: int
    finished: int
    ettr_mean: float
    ettr_p5: float
    ettr_p95: float
    interruptions_mean: float
    days_mean: float | None


NO_DEPARTURES: Final = Departures(weibull_shape={})


def simulation_spec(
    plans: TrainingPlans, policy: RunPolicy, *, phase: int = 0, departures: Departures = NO_DEPARTURES
) -> RunSpec:
    """Return the run of one phase with a clock per component and unit.

    Parameters
    ----------
    plans : TrainingPlans
        Phases, shape (n,).
    policy : RunPolicy
        How the run is operated.
    phase : int
        Which row.
    departures : Departures
        What to assume beyond the closed form.

    Returns
    -------
    RunSpec
    """
    plans = plans.broadcast()
    run = operate(plans, policy)
    rates = plan_rates(str(np.asarray(plans.accelerator)[phase]), policy)
    counts = hardware_counts(num_gpus=plans.num_gpus, gpus_per_node=plans.gpus_per_node).per_component()[phase]
    factor = np.broadcast_to(np.asarray(policy.failure_rate_factor), run.spares.shape)[phase]
    repair = float(np.broadcast_to(np.asarray(policy.repair_s), run.spares.shape)[phase])
    classes = tuple(
        _failure_class(name, units, rate, repair, departures)
        for name, units, rate in zip(COMPONENTS, counts, rates.mean_per_unit_day * factor, strict=True)
        if units > 0.0 and rate > 0.0
    )
    latency = float(np.broadcast_to(np.asarray(policy.silent_latency_s), run.spares.shape)[phase])
    classes = tuple(replace(cls, rollback_s=latency) if cls.name == "sdc" else cls for cls in classes)
    tier, job = run.checkpoints.tier, run.job
    outage = np.asarray(job.detection_s) + run.restart_s + tier.load_s
    return RunSpec(
        classes=classes,
        interval_s=float(tier.interval_s[phase]),
        stall_s=float(tier.stall_s[phase]),
        persist_s=float(tier.persist_s[phase]),
        outage_s=float(outage[phase]),
        num_nodes=int(plans.num_nodes[phase]),
        spares=int(run.spares[phase]),
        repair_crews=departures.repair_crews,
        when_short=policy.when_short,
    )


def simulate_phase(
    plans: TrainingPlans,
    policy: RunPolicy,
    *,
    phase: int = 0,
    replications: int = 200,
    seed: int = 0,
    departures: Departures = NO_DEPARTURES,
) -> SimulatedPhase:
    """Simulate one phase of a forecast to its last token.

    Parameters
    ----------
    plans, policy, phase, departures
        As in `simulation_spec`.
    replications, seed : int
        Independent copies, and the seed.

    Returns
    -------
    SimulatedPhase
    """
    plans = plans.broadcast()
    useful = float((plans.steps * operate(plans, policy).step_time_s)[phase])
    spec = simulation_spec(plans, policy, phase=phase, departures=departures)
    runs = simulate_runs(
        spec, useful_s=useful, wall_limit_s=_GIVE_UP_AFTER * useful, replications=replications, seed=seed
    )
    low, high = np.quantile(runs.ettr, [0.05, 0.95])
    done = runs.wall_s[runs.finished]
    return SimulatedPhase(
        replications=replications,
        finished=int(runs.finished.sum()),
        ettr_mean=float(runs.ettr.mean()),
        ettr_p5=float(low),
        ettr_p95=float(high),
        interruptions_mean=float(runs.interruptions.mean()),
        days_mean=float(done.mean() / SECONDS_PER_DAY) if done.size else None,
    )


def _failure_class(name: str, units: float, rate: float, repair_s: float, departures: Departures) -> FailureClass:
    """Return a component's class; a fraction of a switch becomes one unit of the same total rate."""
    whole = max(1, round(units))
    nodes_lost = int(name in NODE_REMOVING_COMPONENTS) if name != "switch" else departures.nodes_per_switch
    return FailureClass(
        name=name,
        units=whole,
        failures_per_unit_day=float(rate * units / whole),
        weibull_shape=departures.weibull_shape.get(name, 1.0),
        lemon_shape=departures.lemon_shape,
        nodes_lost=nodes_lost,
        repair_s=repair_s if nodes_lost else 0.0,
    )
