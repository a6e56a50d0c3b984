"""The closed form against the simulation: where both apply, and where only the simulation does."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

import numpy as np

from surrogate.reliability.goodput import FaultTolerance, goodput, renewal_ettr
from surrogate.reliability.simulation import RunSpec, simulate_runs
from surrogate.reliability.streams import FailureClass
from surrogate.reliability.validation.case import CaseResult
from surrogate.units import SECONDS_PER_DAY, SECONDS_PER_HOUR

GRID: Final = (
    (10008.0, 1800.0, 60.0, 600.0, 0.0),
    (10008.0, 1800.0, 5.0, 600.0, 900.0),
    (6480.0, 3600.0, 300.0, 300.0, 0.0),
    (900.0, 600.0, 60.0, 300.0, 0.0),
    (900.0, 600.0, 60.0, 300.0, 300.0),
    (44928.0, 667.0, 5.0, 120.0, 60.0),
    (86400.0, 3180.0, 60.0, 1200.0, 0.0),
)
"""Mean time between failures, interval, stall, outage and persist time, s."""
_UNITS: Final = 2048
_CYCLES: Final = 400


def exponential_run(mtbf_s: float, interval_s: float, stall_s: float, outage_s: float, persist_s: float) -> RunSpec:
    """Return a run of identical units with constant rates, the closed form's own assumptions."""
    units = FailureClass(name="node", units=_UNITS, failures_per_unit_day=SECONDS_PER_DAY / mtbf_s / _UNITS)
    return RunSpec(classes=(units,), interval_s=interval_s, stall_s=stall_s, outage_s=outage_s, persist_s=persist_s)


def standard_errors_apart(case: tuple[float, ...], *, replications: int, seed: int) -> tuple[float, float, float]:
    """Return closed-form ETTR, simulated ETTR, and their difference in standard errors of the simulation.

    Runs to the end of a fixed amount of work; a synchronous run's mean wall time is then exactly n times the closed
    form's, an asynchronous one's within one persist time and restart.
    """
    mtbf_s, interval_s, stall_s, outage_s, persist_s = case
    closed = float(
        renewal_ettr(
            failures_per_s=1.0 / mtbf_s,
            interval_s=interval_s,
            stall_s=stall_s,
            persist_s=persist_s,
            outage_s=outage_s,
        )
    )
    work = interval_s * np.ceil(_CYCLES * mtbf_s / interval_s)
    runs = simulate_runs(
        exponential_run(*case),
        useful_s=work,
        wall_limit_s=work / closed * 1.5,
        replications=replications,
        seed=seed,
    )
    mean = runs.wall_s.mean()
    error = runs.wall_s.std(ddof=1) / np.sqrt(replications)
    return closed, float(work / mean), float((mean - work / closed) / error)


def agreement_cases(*, replications: int, seed: int) -> tuple[CaseResult, ...]:
    """Return the grid, each point judged at 3 standard errors, and the departures."""
    results = []
    for number, case in enumerate(GRID):
        closed, simulated, apart = standard_errors_apart(case, replications=replications, seed=seed + number)
        mtbf_s, interval_s, stall_s, outage_s, persist_s = case
        results.append(
            CaseResult(
                group="simulation",
                case=f"M {mtbf_s:g}, dt {interval_s:g}, w {stall_s:g}, u0 {outage_s:g}, t_p {persist_s:g} s",
                predicted=f"{closed:.4f}",
                published=f"{simulated:.4f} (simulated)",
                verdict="pass" if abs(apart) <= 3.0 else "fail",
                remark=f"{apart:+.1f} standard errors",
            )
        )
    return (*results, *departure_cases(replications=replications, seed=seed))


def departure_cases(*, replications: int, seed: int) -> tuple[CaseResult, ...]:
    """Return a 16,384-GPU run over 100 days with one assumption of the closed form dropped at a time."""
    results = []
    for name, spec in departures().items():
        runs = simulate_runs(
            spec,
            useful_s=float("inf"),
            wall_limit_s=100.0 * SECONDS_PER_DAY,
            replications=replications,
            seed=seed,
        )
        low, high = np.quantile(runs.ettr, [0.05, 0.95])
        results.append(
            CaseResult(
                group="departures",
                case=name,
                predicted=f"{closed_form(spec):.4f}",
                published=f"{runs.ettr.mean():.4f} [{low:.3f}, {high:.3f}] (simulated)",
                verdict="shown",
                remark=f"{runs.interruptions.mean():.0f} failures (5-95 %: {_limits(runs.interruptions)})",
            )
        )
    return tuple(results)


def _limits(values: np.ndarray[tuple[int, ...], np.dtype[np.float64]]) -> str:
    low, high = np.quantile(values, [0.05, 0.95])
    return f"{low:.0f}-{high:.0f}"


def departures() -> Mapping[str, RunSpec]:
    """Return the runs of `departure_cases`: one base run, then one change each."""
    gpu = FailureClass(name="gpu", units=16384, failures_per_unit_day=3e-3 / 8, nodes_lost=1, repair_s=SECONDS_PER_DAY)
    software = FailureClass(name="software", units=2048, failures_per_unit_day=0.7e-3)
    base = RunSpec(
        classes=(gpu, software),
        interval_s=570.0,
        stall_s=0.5,
        outage_s=828.0,
        persist_s=142.0,
        num_nodes=2048,
        spares=16,
    )
    switch = FailureClass(
        name="switch", units=64, failures_per_unit_day=2e-4, nodes_lost=32, repair_s=4.0 * SECONDS_PER_HOUR
    )
    return {
        "base: constant rates, 16 spares, any number of repairs at a time": base,
        "early deaths: GPU lives Weibull with shape 0.7, new at the start": _with_gpu(base, weibull_shape=0.7),
        "wear: GPU lives Weibull with shape 2, new at the start": _with_gpu(base, weibull_shape=2.0),
        "lemons: GPU rates Gamma with shape 0.5": _with_gpu(base, lemon_shape=0.5),
        "eight repair crews": replace(base, repair_crews=8),
        "six spares": replace(base, spares=6),
        "six spares, elastic": replace(base, spares=6, when_short="elastic"),
        "switches that take 32 nodes with them": replace(base, classes=(*base.classes, switch)),
    }


def _with_gpu(base: RunSpec, *, weibull_shape: float = 1.0, lemon_shape: float = float("inf")) -> RunSpec:
    gpu = replace(base.classes[0], weibull_shape=weibull_shape, lemon_shape=lemon_shape)
    return replace(base, classes=(gpu, *base.classes[1:]))


def closed_form(spec: RunSpec) -> float:
    """Return what the closed form says of a run, whatever it assumes away."""
    per_day = sum(cls.units * cls.failures_per_unit_day for cls in spec.classes)
    out_s = sum(cls.units * cls.failures_per_unit_day * cls.nodes_lost * cls.repair_s for cls in spec.classes)
    job = FaultTolerance(
        failures_per_day=per_day,
        interval_s=spec.interval_s,
        stall_s=spec.stall_s,
        persist_s=spec.persist_s,
        restart_s=spec.outage_s,
        num_nodes=spec.num_nodes,
        spares=spec.spares,
        unavailability=out_s / SECONDS_PER_DAY / spec.num_nodes,
    )
    return float(goodput(job, when_short=spec.when_short).ettr)
