"""Discrete-event simulation: agreement with the closed form, and what the closed form leaves out."""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np
import pytest

from surrogate.errors import InputError
from surrogate.reliability.goodput import FaultTolerance, goodput
from surrogate.reliability.simulation import RunSpec, SimulatedRuns, simulate_runs
from surrogate.reliability.streams import FailureClass, draw_failure_streams
from surrogate.reliability.validation.agreement import GRID, closed_form, departures, standard_errors_apart

DAY = 86400.0


def _class(**values: object) -> FailureClass:
    return FailureClass(**({"name": "node", "units": 256, "failures_per_unit_day": 0.02} | values))


def _run(spec: RunSpec, days: float = 60.0, replications: int = 60, seed: int = 1) -> SimulatedRuns:
    return simulate_runs(spec, useful_s=float("inf"), wall_limit_s=days * DAY, replications=replications, seed=seed)


SPEC = RunSpec(classes=(_class(),), interval_s=1200.0, stall_s=20.0, outage_s=500.0)


@pytest.mark.parametrize("case", GRID, ids=lambda case: "-".join(f"{value:g}" for value in case))
def test_the_closed_form_lies_within_three_standard_errors(case: tuple[float, ...]) -> None:
    closed, simulated, apart = standard_errors_apart(case, replications=100, seed=11)
    assert abs(apart) < 3.0
    assert simulated == pytest.approx(closed, abs=0.005)


def test_waiting_for_repairs_agrees_with_the_binomial_form() -> None:
    broken = _class(nodes_lost=1, repair_s=0.5 * DAY)
    spec = replace(SPEC, classes=(broken,), num_nodes=256, spares=5)
    runs = _run(spec, days=200.0)
    assert runs.ettr.mean() == pytest.approx(closed_form(spec), abs=0.02)
    waiting = (runs.waiting_s / runs.wall_s).mean()
    job = FaultTolerance(
        failures_per_day=5.12, interval_s=1200, stall_s=20, restart_s=500, num_nodes=256, spares=5, unavailability=0.01
    )
    assert waiting == pytest.approx(float(goodput(job).losses.repair_wait), abs=0.02)


def test_an_elastic_run_beats_a_waiting_one_and_agrees_with_its_closed_form() -> None:
    broken = _class(nodes_lost=1, repair_s=0.5 * DAY)
    waiting = replace(SPEC, classes=(broken,), num_nodes=256, spares=1)
    elastic = replace(waiting, when_short="elastic")
    assert _run(elastic).ettr.mean() > _run(waiting).ettr.mean() + 0.2
    assert _run(elastic, days=200.0).ettr.mean() == pytest.approx(closed_form(elastic), abs=0.005)


def test_no_failures_finish_on_time() -> None:
    quiet = replace(SPEC, classes=(_class(failures_per_unit_day=0.0),))
    runs = simulate_runs(quiet, useful_s=12_000.0, wall_limit_s=DAY, replications=3)
    assert runs.wall_s.tolist() == [12_000.0 + 10 * 20.0] * 3
    assert runs.finished.all()
    assert runs.interruptions.tolist() == [0, 0, 0]


def test_a_run_that_cannot_commit_never_finishes_and_has_no_goodput() -> None:
    hopeless = replace(SPEC, classes=(_class(failures_per_unit_day=20.0),), interval_s=36_000.0)
    runs = simulate_runs(hopeless, useful_s=1e6, wall_limit_s=3 * DAY, replications=5)
    assert not runs.finished.any()
    assert runs.ettr.tolist() == [0.0] * 5


def test_same_seed_same_result_other_seed_other_result() -> None:
    first, again, other = _run(SPEC, seed=3), _run(SPEC, seed=3), _run(SPEC, seed=4)
    assert first.useful_s.tolist() == again.useful_s.tolist()
    assert first.useful_s.tolist() != other.useful_s.tolist()


def test_ettr_never_exceeds_one_and_waits_are_never_negative() -> None:
    for spec in departures().values():
        runs = _run(spec, days=20.0, replications=10)
        assert np.all((runs.ettr >= 0) & (runs.ettr <= 1))
        assert np.all(runs.waiting_s >= -1e-6)
        assert np.all(runs.waiting_s <= runs.wall_s)


@pytest.mark.parametrize(("shape", "factor"), [(0.7, 2.0), (2.0, 0.5)])
def test_new_parts_die_early_or_late_with_the_weibull_shape(shape: float, factor: float) -> None:
    aged = replace(SPEC, classes=(_class(failures_per_unit_day=0.002, weibull_shape=shape),))
    plain = replace(SPEC, classes=(_class(failures_per_unit_day=0.002),))
    ratio = _run(aged).interruptions.mean() / _run(plain).interruptions.mean()
    assert ratio > factor if factor > 1 else ratio < factor


def test_a_weibull_stream_has_the_distribution_it_names() -> None:
    cls = _class(units=2000, failures_per_unit_day=0.01, weibull_shape=1.5)
    streams = draw_failure_streams((cls,), horizon_s=100 * DAY, replications=20, rng=np.random.default_rng(0))
    firsts = np.isfinite(streams.time_s).sum() / (20 * 2000)
    # renewal function of Weibull(1.5) at one mean life, by numeric convolution
    grid = np.linspace(0, 100, 4001)
    scale = 100 / 0.9027452929509336
    cdf = 1 - np.exp(-((grid / scale) ** 1.5))
    renewals = np.zeros_like(grid)
    steps = np.diff(cdf)
    for index in range(1, len(grid)):
        renewals[index] = cdf[index] + np.dot(steps[:index], renewals[index - 1 :: -1])
    assert firsts == pytest.approx(renewals[-1], rel=0.02)


def test_old_parts_of_a_constant_rate_are_as_good_as_new_and_worn_ones_are_not() -> None:
    def failures(shape: float, age: float) -> float:
        cls = _class(failures_per_unit_day=0.005, weibull_shape=shape, age_days=age)
        return float(_run(replace(SPEC, classes=(cls,))).interruptions.mean())

    assert failures(1.0001, 300.0) == pytest.approx(failures(1.0, 0.0), rel=0.05)
    assert failures(2.0, 300.0) > 2 * failures(2.0, 0.0)


def test_lemons_spread_the_outcomes_of_small_jobs() -> None:
    few = _class(units=8, failures_per_unit_day=0.2)
    plain = _run(replace(SPEC, classes=(few,)), replications=400).interruptions
    mixed = _run(replace(SPEC, classes=(replace(few, lemon_shape=0.5),)), replications=400).interruptions
    assert mixed.mean() == pytest.approx(plain.mean(), rel=0.15)
    assert mixed.var() > 5 * plain.var()
    renewed = replace(few, lemon_shape=0.5, weibull_shape=1.001)
    assert _run(replace(SPEC, classes=(renewed,)), replications=400).interruptions.var() > 5 * plain.var()


def test_a_lost_switch_and_few_hands_cost_more_than_their_failures() -> None:
    base = replace(SPEC, classes=(_class(nodes_lost=1, repair_s=DAY / 4),), num_nodes=256, spares=6)
    switch = _class(name="switch", units=8, failures_per_unit_day=0.01, nodes_lost=32, repair_s=DAY / 2)
    struck = replace(base, classes=(*base.classes, switch))
    single = replace(struck, classes=(*base.classes, replace(switch, nodes_lost=1)))
    assert _run(struck).ettr.mean() < _run(single).ettr.mean() - 0.01
    assert _run(replace(base, repair_crews=2)).ettr.mean() < _run(base).ettr.mean() - 0.01


def test_late_noticed_corruption_rolls_back_further() -> None:
    silent = _class(name="sdc", units=1, failures_per_unit_day=0.5, rollback_s=6 * 3600.0)
    late = _run(replace(SPEC, classes=(silent,)), days=100.0, replications=200)
    at_once = _run(replace(SPEC, classes=(replace(silent, rollback_s=0.0),)), days=100.0, replications=200)
    assert at_once.ettr.mean() - late.ettr.mean() == pytest.approx(0.5 * 0.25, rel=0.15)


def test_two_hundred_runs_of_a_hundred_days_on_16384_accelerators_are_quick() -> None:
    spec = departures()["early deaths: GPU lives Weibull with shape 0.7, new at the start"]
    start = time.process_time()
    _run(spec, days=100.0, replications=200)
    assert time.process_time() - start < 60.0


def test_bad_specs_are_named() -> None:
    with pytest.raises(InputError, match="checkpoint_interval_s"):
        replace(SPEC, persist_s=5000.0)
    with pytest.raises(InputError, match="nodes_lost"):
        replace(SPEC, classes=(_class(nodes_lost=9),), num_nodes=4)
    with pytest.raises(InputError, match="weibull_shape"):
        _class(weibull_shape=0.0)
    with pytest.raises(InputError, match="lemon_shape"):
        _class(lemon_shape=-1.0)
