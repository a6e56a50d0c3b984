"""Forecasts: hand-worked days, uncertainty carried through, advice, bad input."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from surrogate.errors import FileFormatError, InputError, UnknownNameError
from surrogate.forecast import (
    RunPolicy,
    TrainingPlans,
    expected_time_to_train,
    forecast_run,
    load_policy,
    log_sd_of_interval,
    operate,
)
from surrogate.forecast.memory_tier import memory_share
from surrogate.reliability.failures import ComponentRates
from surrogate.reliability.priors import published_prior
from surrogate.reliability.simulation import RunSpec, simulate_runs
from surrogate.reliability.streams import FailureClass

PLAN = TrainingPlans(
    step_time_s=10.0,
    log_sd=0.1,
    tokens=1e12,
    tokens_per_step=4e6,
    num_gpus=2048,
    gpus_per_node=8,
    accelerator="H100-80GB",
    num_params=70e9,
    tp=8,
    pp=4,
    data_parallel=64,
    node_bytes_per_s=400e9,
)
POLICY = RunPolicy()


def _certain(rates: ComponentRates | None = None) -> RunPolicy:
    """A policy whose failure rate is known exactly."""
    rates = rates or published_prior("hopper")
    known = ComponentRates(shape=rates.shape * 1e8, exposure_unit_days=rates.exposure_unit_days * 1e8)
    return RunPolicy(rates=known)


def test_without_failures_days_are_steps_times_step_time() -> None:
    policy = RunPolicy(failure_rate_factor=1e-12, barrier_s=0.0, host_link_bytes_per_s=1e18, restart_s=0.0)
    days = expected_time_to_train(PLAN, policy).days
    assert days[0] == pytest.approx(250_000 * 10 / 86400, rel=1e-4)
    certain = forecast_run(replace(PLAN, log_sd=0.0), policy)
    assert certain.days.p10 == pytest.approx(certain.days.p90)
    assert certain.interruptions_mean == 0.0


def test_step_time_uncertainty_is_carried_through_on_its_own() -> None:
    forecast = forecast_run(PLAN, RunPolicy(failure_rate_factor=1e-9))
    assert forecast.days.p90 / forecast.days.p50 == pytest.approx(np.exp(0.1 * 1.2816), rel=0.01)
    assert forecast.days.p10 / forecast.days.p50 == pytest.approx(np.exp(-0.1 * 1.2816), rel=0.01)


def test_rate_uncertainty_widens_the_interruptions() -> None:
    unsure, sure = forecast_run(PLAN, POLICY), forecast_run(PLAN, _certain())
    assert sure.interruptions_mean == pytest.approx(unsure.interruptions_mean, rel=0.03)
    spread = [answer.interruptions_p95 - answer.interruptions_p5 for answer in (sure, unsure)]
    assert spread[1] > 2 * spread[0]


def test_clustered_failures_widen_the_interruptions() -> None:
    known = _certain().rates
    assert known is not None
    clustered = RunPolicy(rates=replace(known, dispersion=15.0))
    spread = [
        answer.interruptions_p95 - answer.interruptions_p5
        for answer in (forecast_run(replace(PLAN, log_sd=0.0), policy) for policy in (_certain(), clustered))
    ]
    assert spread[1] == pytest.approx(np.sqrt(15.0) * spread[0], rel=0.15)


def test_days_agree_with_the_simulation_in_mean_and_spread() -> None:
    plan, policy = replace(PLAN, log_sd=0.0), replace(_certain(), spares=200)
    run = operate(plan, policy)
    forecast = forecast_run(plan, policy)
    cls = FailureClass(name="job", units=1, failures_per_unit_day=float(run.failures.per_day[0]))
    outage = float(run.job.detection_s) + float(run.restart_s[0]) + float(run.checkpoints.times.load_s[0])
    spec = RunSpec(
        classes=(cls,),
        interval_s=float(run.checkpoints.interval_s[0]),
        stall_s=float(run.checkpoints.times.stall_s[0]),
        persist_s=float(run.checkpoints.times.persist_s[0]),
        outage_s=outage,
    )
    runs = simulate_runs(spec, useful_s=2.5e6, wall_limit_s=1e7, replications=400, seed=1)
    p10, p50, p90 = np.quantile(runs.wall_s, [0.1, 0.5, 0.9]) / 86400
    assert forecast.days.p50 == pytest.approx(p50, rel=2e-3)
    assert forecast.days.p90 - forecast.days.p10 == pytest.approx(p90 - p10, rel=0.15)
    assert forecast.interruptions_mean == pytest.approx(runs.interruptions.mean(), rel=0.02)


def test_losses_and_ettr_share_out_the_wall_time() -> None:
    forecast = forecast_run(PLAN, POLICY)
    assert forecast.ettr + sum(forecast.losses.values()) == pytest.approx(1.0)


def test_phases_add_up_and_share_their_errors() -> None:
    both = replace(PLAN, tokens=[0.4e12, 0.6e12])
    one, two = forecast_run(PLAN, POLICY), forecast_run(both, POLICY)
    assert len(two.phases) == 2
    startup = (one.phases[0].restart_s + 60.0) / 86400
    assert two.days.p50 == pytest.approx(one.days.p50, abs=0.05 + startup)
    assert two.days.p90 - two.days.p10 == pytest.approx(one.days.p90 - one.days.p10, rel=0.05)


def test_a_change_of_accelerators_between_phases() -> None:
    grown = replace(PLAN, tokens=[0.4e12, 0.6e12], num_gpus=[2048, 4096], step_time_s=[10.0, 5.5])
    phases = forecast_run(grown, POLICY).phases
    assert phases[1].failures_per_day > 1.9 * phases[0].failures_per_day
    assert [phase.num_gpus for phase in phases] == [2048, 4096]


def test_money_counts_spares_and_the_price() -> None:
    priced = forecast_run(PLAN, RunPolicy(price_per_gpu_hour=2.0, spares=4))
    assert priced.cost is not None
    assert priced.cost.p50 == pytest.approx(priced.days.p50 * 24 * (2048 + 32) * 2.0, rel=1e-6)
    assert forecast_run(PLAN, POLICY).cost is None


def test_probabilities_of_a_deadline_and_a_budget() -> None:
    policy = RunPolicy(price_per_gpu_hour=2.0)
    plain = forecast_run(PLAN, policy)
    assert plain.cost is not None
    asked = forecast_run(PLAN, policy, deadline_days=plain.days.p90, budget=plain.cost.p10)
    assert asked.deadline_probability == pytest.approx(0.9, abs=0.01)
    assert asked.budget_probability == pytest.approx(0.1, abs=0.01)
    assert plain.deadline_probability is None


def test_the_best_interval_beats_the_others_and_a_given_one_is_kept() -> None:
    forecast = forecast_run(PLAN, POLICY)
    assert forecast.other_intervals
    assert all(other.extra_days > 0 for other in forecast.other_intervals)
    given_one = forecast_run(PLAN, RunPolicy(checkpoint_interval_s=7200.0))
    assert given_one.checkpoint_interval_s == 7200.0
    assert given_one.best_checkpoint_interval_s == forecast.checkpoint_interval_s
    assert given_one.ettr < forecast.ettr


def test_step_time_matters_most_and_effects_are_sorted() -> None:
    effects = forecast_run(PLAN, POLICY).sensitivity
    assert effects[0].name == "step_time_s"
    swings = [effect.swing_days for effect in effects]
    assert swings == sorted(swings, reverse=True)
    by_name = {effect.name: effect for effect in effects}
    assert by_name["failure_rate"].days_low < by_name["failure_rate"].days_high
    assert by_name["write_bytes_per_s"].days_low >= by_name["write_bytes_per_s"].days_high


@settings(max_examples=25)
@given(field=st.sampled_from(["failure_rate_factor", "detection_s", "restart_s", "repair_s"]), factor=st.floats(1.1, 3))
def test_a_worse_cluster_never_trains_faster(field: str, factor: float) -> None:
    base = {"failure_rate_factor": 1.0, "detection_s": 60.0, "restart_s": 400.0, "repair_s": 86400.0, "spares": 5}
    before, after = RunPolicy(**base), RunPolicy(**(base | {field: base[field] * factor}))
    assert expected_time_to_train(PLAN, after).days >= expected_time_to_train(PLAN, before).days - 1e-9


def test_same_seed_same_answer() -> None:
    assert forecast_run(PLAN, POLICY, seed=5) == forecast_run(PLAN, POLICY, seed=5)
    assert forecast_run(PLAN, POLICY, seed=5) != forecast_run(PLAN, POLICY, seed=6)


def test_a_run_that_never_finishes_is_said_not_returned_as_infinity() -> None:
    with pytest.raises(InputError, match="the run never finishes"):
        forecast_run(PLAN, RunPolicy(failure_rate_factor=1e5, checkpoint_interval_s=7200.0, spares=256))
    sometimes = RunPolicy(failure_rate_factor=150.0, checkpoint_interval_s=3600.0, repair_s=0.0, spares=0)
    forecast = forecast_run(PLAN, sometimes)
    assert 0.0 < forecast.never_finishes_probability < 0.5
    assert forecast.days.p50 is not None
    assert forecast.days.p50 > 1000


def test_a_column_of_candidates_equals_each_alone_and_a_million_take_seconds() -> None:
    gpus = np.array([64, 512, 4096])
    many = replace(PLAN, num_gpus=gpus, accelerator=["H100-80GB", "A100-80GB", "B200"])
    together = expected_time_to_train(many, POLICY)
    for row, name in enumerate(["H100-80GB", "A100-80GB", "B200"]):
        alone = expected_time_to_train(replace(PLAN, num_gpus=gpus[row], accelerator=name), POLICY)
        assert together.days[row] == pytest.approx(alone.days[0])
    rng, n = np.random.default_rng(0), 200_000
    candidates = replace(PLAN, step_time_s=rng.uniform(1, 20, n), num_gpus=8 * rng.integers(1, 2000, n))
    start = time.process_time()
    assert expected_time_to_train(candidates, RunPolicy(price_per_gpu_hour=1.0)).cost.shape == (n,)
    assert time.process_time() - start < 4.0


def test_json_has_the_promised_keys() -> None:
    answer = forecast_run(PLAN, RunPolicy(price_per_gpu_hour=2.0)).to_dict()
    promised = [f"{name}_{q}" for name in ("days", "cost") for q in ("p10", "p50", "p90")]
    promised += [
        "interruptions_mean",
        "interruptions_p5",
        "interruptions_p95",
        "ettr",
        "checkpoint_interval_s",
        "losses",
    ]
    assert set(promised) <= set(answer)


@pytest.mark.parametrize(
    ("plan", "policy", "field"),
    [
        ({"step_time_s": 0.0}, {}, "step_time_s"),
        ({"tokens": -1.0}, {}, "tokens"),
        ({"log_sd": float("nan")}, {}, "log_sd"),
        ({}, {"planned_downtime_fraction": 1.0}, "planned_downtime_fraction"),
        ({}, {"maturity": "old"}, "maturity"),
        ({}, {"when_short": "pray"}, "when_short"),
        ({}, {"checkpoint_interval_s": 1.0}, "checkpoint_interval_s"),
        ({}, {"restart_s": -5.0}, "restart_s"),
        ({}, {"write_bytes_per_s": "fast"}, "write_bytes_per_s"),
        ({}, {"spares": -1}, "spares"),
    ],
)
def test_bad_input_is_named(plan: dict[str, float], policy: dict[str, object], field: str) -> None:
    with pytest.raises(InputError) as caught:
        forecast_run(replace(PLAN, **plan), RunPolicy(**policy))
    assert caught.value.field == field


def test_planned_stops_stretch_the_calendar() -> None:
    plain, stopped = (
        expected_time_to_train(PLAN, POLICY),
        expected_time_to_train(PLAN, RunPolicy(planned_downtime_fraction=0.2)),
    )
    assert stopped.days[0] == pytest.approx(plain.days[0] / 0.8)


def test_an_interval_gives_its_log_standard_deviation() -> None:
    lower, upper = np.exp(-1.6448536 * 0.2), np.exp(1.6448536 * 0.2)
    assert float(log_sd_of_interval(lower, upper)) == pytest.approx(0.2)
    assert float(log_sd_of_interval(1.0, 1.0)) == 0.0


def test_operation_files(tmp_path: Path) -> None:
    path = tmp_path / "operation.yaml"
    path.write_text("restart_s: 300\nasynchronous: false\n")
    policy = load_policy(path, None, {"spares": 3})
    assert (policy.restart_s, policy.asynchronous, policy.spares) == (300, False, 3)
    path.write_text("restart: 300\n")
    with pytest.raises(UnknownNameError, match="restart_s"):
        load_policy(path, None, {})
    path.write_text("- 1\n")
    with pytest.raises(FileFormatError, match="mapping"):
        load_policy(path, None, {})
    with pytest.raises(FileFormatError, match="YAML"):
        load_policy(tmp_path / "none.yaml", None, {})
    with pytest.raises(FileFormatError, match="failure rates"):
        load_policy(None, path, {})


def test_llama3_would_have_kept_nine_tenths_with_published_restarts() -> None:
    llama = TrainingPlans(
        step_time_s=11.0,
        log_sd=0.05,
        tokens=6e12,
        tokens_per_step=16e6,
        num_gpus=16384,
        gpus_per_node=8,
        accelerator="H100-80GB",
        num_params=405e9,
        tp=8,
        pp=16,
        data_parallel=128,
        node_bytes_per_s=400e9,
    )
    forecast = forecast_run(llama, POLICY)
    assert 0.86 < forecast.ettr < 0.95
    in_place = forecast_run(llama, RunPolicy(restart_s=65.0))
    assert in_place.ettr > 0.90


def test_copies_in_memory_recover_sooner_unless_a_switch_takes_them() -> None:
    failing = {"failure_rate_factor": 10.0, "spares": 40}
    storage, memory = operate(PLAN, RunPolicy(**failing)), operate(PLAN, RunPolicy(**failing, memory_copies=2))
    assert memory.goodput.ettr[0] > storage.goodput.ettr[0]
    assert memory.checkpoints.tier.interval_s[0] <= storage.checkpoints.interval_s[0]
    alone = memory_share(num_nodes=np.array([256.0]), switch_share=np.array([0.0]), copies=2)
    struck = memory_share(num_nodes=np.array([256.0]), switch_share=np.array([0.25]), copies=2)
    single = memory_share(num_nodes=np.array([1.0]), switch_share=np.array([0.0]), copies=2)
    assert (alone[0], single[0]) == (1.0, 0.0)
    assert 0.75 <= struck[0] < 0.76


def test_memory_tier_worked_by_hand() -> None:
    policy = RunPolicy(memory_copies=2, failure_rate_factor=10.0, spares=40)
    run = operate(PLAN, policy)
    tier, behind = run.checkpoints.tier, run.checkpoints
    node_bytes = 70e9 * 14 / 256
    assert tier.persist_s[0] == pytest.approx(node_bytes / 400e9)
    share = 1.0 - run.failures.switch_share[0]
    back = behind.interval_s[0] / 2 + behind.times.persist_s[0] + behind.times.load_s[0]
    in_memory = max(70e9 * 14 / 2048 / 30e9, node_bytes / 400e9)
    assert tier.load_s[0] == pytest.approx(share * in_memory + (1 - share) * back, rel=1e-3)


def test_late_noticed_corruption_needs_older_checkpoints() -> None:
    phase = forecast_run(PLAN, RunPolicy(silent_latency_s=5000.0, checkpoint_interval_s=1000.0)).phases[0]
    assert phase.checkpoints_to_keep == 6


def test_what_never_ends_is_null_in_json_and_ranks_first() -> None:
    shaky = RunPolicy(failure_rate_factor=150.0, checkpoint_interval_s=3600.0, repair_s=0.0, spares=0)
    sometimes = forecast_run(PLAN, shaky)
    endless = replace(sometimes.sensitivity[0], days_high=float("inf"))
    assert endless.swing_days == float("inf")
    assert replace(endless, days_low=float("inf")).swing_days == 0.0
    answer = replace(sometimes, sensitivity=(endless,)).to_dict()
    json.dumps(answer, allow_nan=False)
    assert answer["sensitivity"][0]["days_high"] is None
