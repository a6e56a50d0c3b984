"""Changes of a plan, explanations, judgements, comparisons, anchors."""

from __future__ import annotations

import math
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from surrogate import api
from surrogate.api.changes import Effect, effects_of_changes, possible_changes, with_changes
from surrogate.api.comparison import ratio_log_sd
from surrogate.api.judgement import Verdict, explaining_causes, false_alarm_rates
from surrogate.api.model_directory import packaged_directory
from surrogate.api.predictor import PARTS
from surrogate.errors import InputError, UnknownNameError
from surrogate.estimators.intervals import ConformalScores
from surrogate.features.workload import prepare_runs
from surrogate.plan import load_plan, plans_to_frame
from surrogate.search.comparison import compare_neighbours


@pytest.fixture
def plan(plan_file: Path) -> pd.DataFrame:
    return plans_to_frame([load_plan(plan_file)])


def effect(change: str, ratio: float) -> Effect:
    return Effect(change=change, values={}, step_time_s=ratio, ratio=ratio, peak_memory_bytes=1.0)


def row(**seconds: float) -> pd.Series:
    return pd.Series({**dict.fromkeys(PARTS, 0.0), **seconds, "step_time_s": sum(seconds.values())})


def test_causes_are_ranked_by_how_well_they_match():
    """A gap of 1.5: a change to 1.5 explains all of it, one to 1.2 explains 45 %, one to 1.05 too little."""
    effects = [effect("all", 1.5), effect("half", 1.2), effect("nothing", 1.05), effect("other way", 0.7)]
    causes = explaining_causes(math.log(1.5), effects, row(compute_s=0.8, tp_s=0.2))
    assert [cause.cause for cause in causes[:-1]] == ["all", "half"]
    assert causes[1].explained == pytest.approx(math.log(1.2) / math.log(1.5))


def test_a_slow_run_may_be_a_slow_part():
    """Compute is 0.8 of the step; for 1.5 times the step it must take 1 + 0.5 / 0.8 = 1.625 times as long."""
    (cause,) = explaining_causes(math.log(1.5), [], row(compute_s=0.8, tp_s=0.2))
    assert "compute takes 1.62 times as long" in cause.cause


def test_nothing_needs_an_explanation_when_nothing_is_off():
    assert explaining_causes(0.0, [effect("all", 1.5)], row(compute_s=1.0)) == []
    for gap in (0.04, -0.04):
        assert explaining_causes(gap, [effect("all", math.exp(gap))], row(compute_s=1.0)) == []
    assert explaining_causes(0.06, [], row(compute_s=1.0))


@pytest.mark.parametrize(("factor", "verdict"), [(1.0, Verdict.NORMAL), (50.0, Verdict.SLOW), (0.02, Verdict.FAST)])
def test_verdicts(plan: pd.DataFrame, predictor: api.Predictor, factor: float, verdict: Verdict):
    expected = float(predictor.predict_frame(plan)["step_time_s"].iloc[0])
    judged = api.judge(plan, factor * expected, predictor)
    assert judged.verdict is verdict
    assert judged.normal_upper_s == pytest.approx(expected * (1.0 + judged.smallest_callable_slowdown))
    assert judged.normal_lower_s == pytest.approx(expected * (1.0 - judged.smallest_callable_speedup))
    assert "site is unknown" in judged.reference


def test_the_reference_is_what_is_known(plan: pd.DataFrame, predictor: api.Predictor):
    for name, words in (("torchtitan-perf-2024", "same release"), ("meta-torchtitan", "same publisher")):
        assert words in api.judge(plan, 3.0, api.choose_site(predictor, name)).reference


def test_false_alarms_are_counted_family_by_family():
    """Families a and b score 1 to 20 each: the 95th percentile of one is 20, nothing of the other lies above it."""
    score = np.tile(np.arange(1.0, 21.0), 2)
    family = np.repeat(np.array(["a", "b"], dtype=object), 20)
    scores = {"population": ConformalScores(score=score, stratum=family)}
    step_time = SimpleNamespace(intervals_=SimpleNamespace(scores=scores))
    assert false_alarm_rates(step_time) == {"population": 0.0}  # type: ignore[arg-type]
    scores["population"] = ConformalScores(score=np.where(family == "b", score * 2.0, score), stratum=family)
    assert false_alarm_rates(step_time) == {"population": 0.25}  # type: ignore[arg-type]


def test_the_shipped_predictor_raises_few_false_alarms():
    rates = false_alarm_rates(api.load_predictor(packaged_directory()).step_time)
    assert max(rates.values()) < 0.07


def test_one_plan_at_a_time(plan: pd.DataFrame, predictor: api.Predictor):
    with pytest.raises(InputError, match="one plan at a time"):
        api.judge(pd.concat([plan, plan]), 3.0, predictor)


def test_changes_go_in_the_direction_physics_says(plan: pd.DataFrame, predictor: api.Predictor):
    ratios = {effect.change: effect.ratio for effect in effects_of_changes(plan, predictor)}
    assert ratios["every layer is recomputed"] > 1.0
    assert ratios["nothing is recomputed"] < 1.0
    assert ratios["attention is not fused"] > 1.0
    assert ratios["the network runs at an eighth of its rate"] >= ratios["the network runs at half its rate"] >= 1.0


def test_changes_keep_dtypes_and_the_plan_itself(plan: pd.DataFrame):
    changes = [values for _, values in possible_changes(prepare_runs(plan).workload)]
    table = with_changes(plan, changes)
    assert len(table) == len(changes) + 1
    pd.testing.assert_frame_equal(table.iloc[[0]][plan.columns], plan, check_dtype=True)


def test_an_explanation_adds_up(plan: pd.DataFrame, predictor: api.Predictor):
    explanation = api.explain(plan, predictor)
    total = float(predictor.predict_frame(plan)["step_time_s"].iloc[0])
    assert sum(term.seconds for term in explanation.terms) == pytest.approx(total)
    assert sum(term.share for term in explanation.terms) == pytest.approx(1.0)
    assert 0.0 < explanation.lost_fraction < 1.0


def test_a_plan_is_as_fast_as_itself(plan_file: Path, predictor: api.Predictor):
    plan = load_plan(plan_file)
    same = api.compare(plan, plan, predictor)
    assert (same.speedup, same.work_scale) == (1.0, 1.0)
    assert same.probability_a_beats_b == pytest.approx(0.5)
    assert all(term.difference_s == 0.0 for term in same.terms)


def test_the_nearer_two_plans_are_the_surer_is_their_ratio(plan_file: Path, predictor: api.Predictor):
    base, near, far = (
        plans_to_frame([load_plan(plan_file, changes)])
        for changes in ({}, {"global_batch_size": 256}, {"num_gpus": 8, "tp": 8, "recompute": "full"})
    )
    alone = predictor.predict_frame(base).iloc[0]
    spread = math.log(alone["step_time_upper_s"] / alone["step_time_s"]) / 1.645
    near_sd, far_sd = (ratio_log_sd(base, other, predictor) for other in (near, far))
    assert near_sd < far_sd
    assert near_sd < math.sqrt(2.0) * spread


def test_a_comparison_is_as_sure_as_a_search(plan_file: Path, predictor: api.Predictor):
    """Both print a probability for the same pair: it is one number."""
    plans = [load_plan(plan_file, {"micro_batch_size": size}) for size in (1, 2)]
    table = plans_to_frame(plans)
    (pair,) = compare_neighbours(table, predictor.predict_frame(table), predictor.step_time)
    assert api.compare(*plans, predictor).probability_a_beats_b == pytest.approx(pair.probability_faster, abs=1e-9)


def test_work_is_scaled_to_equal_tokens_per_gpu(plan_file: Path, predictor: api.Predictor):
    one, double = load_plan(plan_file), load_plan(plan_file, {"global_batch_size": 256})
    found = api.compare(one, double, predictor)
    assert found.work_scale == pytest.approx(0.5)
    difference = found.a_step_time_s - 0.5 * found.b_step_time_s
    assert sum(term.difference_s for term in found.terms) == pytest.approx(difference, abs=1e-9)


def test_an_anchor_of_one_s_own_pulls_the_prediction(plan: pd.DataFrame, predictor: api.Predictor, tmp_path: Path):
    """The same plan measured at twice its prediction: predicted at that site it comes near to twice, ratio near 1."""
    expected = float(predictor.predict_frame(plan)["step_time_s"].iloc[0])
    path = tmp_path / "own.csv"
    plan.assign(step_time_s=2.0 * expected, source="mine").to_csv(path, index=False)
    anchor = api.load_anchor(str(path), predictor)
    (ratio,) = anchor.ratios(anchor.predictor.predict_frame(plan))
    assert ratio.measured_step_time_s == pytest.approx(2.0 * expected)
    assert 0.6 < ratio.ratio < 1.2
    assert ratio.ratio_lower < ratio.ratio < ratio.ratio_upper


def test_an_anchor_must_be_one_measured_run(plan: pd.DataFrame, predictor: api.Predictor, tmp_path: Path):
    path = tmp_path / "own.csv"
    two = pd.concat([plan, plan]).assign(run_id=["a", "b"], step_time_s=[3.0, 4.0], source="mine")
    two.to_csv(path, index=False)
    with pytest.raises(InputError, match="must name one measured run"):
        api.load_anchor(str(path), predictor)
    assert api.load_anchor(f"{path}#b", predictor).measured_step_time_s == 4.0
    with pytest.raises(UnknownNameError):
        api.load_anchor("no-such-run", predictor)
