"""A forecast's run, simulated component by component."""

from __future__ import annotations

from dataclasses import replace

import pytest

from surrogate.forecast import Departures, RunPolicy, TrainingPlans, operate, simulate_phase, simulation_spec

PLAN = TrainingPlans(
    step_time_s=10.0,
    log_sd=0.1,
    tokens=[1e12, 2e11],
    tokens_per_step=4e6,
    num_gpus=[4096, 8],
    gpus_per_node=8,
    accelerator="H100-80GB",
    num_params=70e9,
    tp=8,
    node_bytes_per_s=400e9,
)
POLICY = RunPolicy(failure_rate_factor=3.0)


def test_without_departures_the_simulation_agrees_with_the_forecast() -> None:
    run = operate(PLAN, POLICY)
    simulated = simulate_phase(PLAN, POLICY, replications=100)
    assert simulated.finished == 100
    assert simulated.ettr_mean == pytest.approx(float(run.goodput.ettr[0]), abs=0.006)
    per_day = simulated.interruptions_mean / simulated.days_mean
    assert per_day == pytest.approx(float(run.failures.per_day[0]), rel=0.02)


def test_the_classes_carry_the_whole_rate() -> None:
    run, spec = operate(PLAN, POLICY), simulation_spec(PLAN, POLICY)
    total = sum(cls.units * cls.failures_per_unit_day for cls in spec.classes)
    assert total == pytest.approx(float(run.failures.per_day[0]))
    removing = sum(cls.units * cls.failures_per_unit_day * cls.nodes_lost for cls in spec.classes)
    assert removing == pytest.approx(float(run.failures.removed_per_node_day[0]) * 512)


def test_a_job_on_one_node_has_no_network_classes() -> None:
    names = {cls.name for cls in simulation_spec(PLAN, POLICY, phase=1).classes}
    assert not names & {"switch", "nic"}


def test_departures_reach_their_components() -> None:
    departures = Departures(weibull_shape={"gpu": 0.7}, lemon_shape=0.5, nodes_per_switch=32, repair_crews=2)
    spec = simulation_spec(PLAN, replace(POLICY, silent_latency_s=3600.0), departures=departures)
    by_name = {cls.name: cls for cls in spec.classes}
    assert (by_name["gpu"].weibull_shape, by_name["nic"].weibull_shape) == (0.7, 1.0)
    assert (by_name["switch"].nodes_lost, by_name["software"].nodes_lost) == (32, 0)
    assert by_name["sdc"].rollback_s == 3600.0
    assert spec.repair_crews == 2
    worse = simulate_phase(PLAN, POLICY, replications=20, departures=departures)
    assert worse.ettr_mean < simulate_phase(PLAN, POLICY, replications=20).ettr_mean
