"""Own runs: closed-form errors equal brute force, never worse than without, and the cheap runs to make next."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from surrogate import api
from surrogate.api.predictor import Site
from surrogate.api.site_assessment import assess_site, left_out_errors, make_site
from surrogate.api.site_files import named_runs, site_file
from surrogate.api.sites import with_pack
from surrogate.derive import derive_columns, load_runs
from surrogate.errors import FileFormatError, InputError, UnknownNameError
from surrogate.plan import load_plan, plans_to_frame

TARGET = "measured_step_time_s"
MINE = Site(name="mine", source="mine", family="mine")


@pytest.fixture(scope="module")
def own(small_runs: Path) -> pd.DataFrame:
    """Twelve published runs as if somebody else had measured them, each a third slower."""
    runs = load_runs(small_runs)
    timed = runs[(runs["source"] == "dgxc-benchmarking-v25.04") & runs["step_time_s"].notna()].head(12)
    given = timed.assign(
        run_id="own-" + timed["run_id"], step_time_s=timed["step_time_s"] * 4.0 / 3.0,
        tokens_per_s_per_gpu=np.nan, samples_per_s=np.nan, achieved_flops_per_s=np.nan, mfu=np.nan,
        split_group=None, repeat_group=None,
    )  # fmt: skip
    return named_runs(derive_columns(given.reset_index(drop=True)), "mine", "mine")


def test_left_out_errors_equal_those_of_conditioning_on_the_others(predictor: api.Predictor, own: pd.DataFrame):
    groups = pd.factorize(own["split_group"])[0]
    closed, _ = left_out_errors(predictor.step_time.condition(own), groups)
    for group in np.unique(groups)[:3]:
        others = predictor.with_runs(own[groups != group]).at_site(MINE)
        times = others.predict_frame(own[groups == group])["step_time_s"]
        brute = np.log(own.loc[groups == group, TARGET].to_numpy() / times.to_numpy())
        np.testing.assert_allclose(closed[groups == group], brute, atol=0.02)


def test_own_runs_pay(predictor: api.Predictor, own: pd.DataFrame):
    findings = assess_site(own, predictor)
    assert findings.rows == len(own)
    assert findings.left_out is not None
    assert findings.left_out.mean_abs_log_error < findings.zero_shot.mean_abs_log_error
    assert findings.improves
    assert findings.moved


def test_rows_that_contradict_each_other_are_named_and_do_no_harm(predictor: api.Predictor, own: pd.DataFrame):
    twice = pd.concat([own, own.assign(run_id="again-" + own["run_id"], step_time_s=own["step_time_s"] * 3.0)])
    runs = derive_columns(twice.reset_index(drop=True))
    pack = make_site("mine", runs, predictor)
    contradictions = pack.findings["contradictions"]
    assert isinstance(contradictions, list)
    assert any("times apart" in item["reason"] for item in contradictions)
    left_out = pack.findings["left_out"]
    zero_shot = pack.findings["zero_shot"]
    assert isinstance(left_out, dict) and isinstance(zero_shot, dict)
    worse = left_out["mean_abs_log_error"] > 1.05 * zero_shot["mean_abs_log_error"]
    assert pack.conditions is not worse


def test_two_rows_that_contradict_each_other_leave_the_prediction_as_it_was(
    predictor: api.Predictor, own: pd.DataFrame
):
    one = own.head(1)
    twice = pd.concat([one, one.assign(run_id="again", step_time_s=2.0 * one["step_time_s"])])
    assert make_site("mine", derive_columns(pd.concat([one, one.assign(run_id="again")])), predictor).conditions
    pack = make_site("mine", derive_columns(twice.reset_index(drop=True)), predictor)
    assert not pack.conditions
    times = ["step_time_s", "step_time_lower_s", "step_time_upper_s"]
    pd.testing.assert_frame_equal(
        with_pack(predictor, pack).predict_frame(own)[times], predictor.at_site(MINE).predict_frame(own)[times]
    )


def test_one_row_is_no_worse_than_none(predictor: api.Predictor, own: pd.DataFrame):
    """Over each single row as the site's only one: the others' mean error must not rise."""
    base = predictor.at_site(MINE).predict_frame(own)["step_time_s"].to_numpy()
    measured = own[TARGET].to_numpy()
    without, with_one = [], []
    for row in range(0, len(own), 3):
        pack = make_site("mine", own.iloc[[row]].reset_index(drop=True), predictor)
        assert pack.findings["left_out"] is None
        others = np.arange(len(own)) != row
        informed = predictor.with_runs(pack.runs).at_site(MINE).predict_frame(own)["step_time_s"].to_numpy()
        without.append(np.abs(np.log(base / measured))[others].mean())
        with_one.append(np.abs(np.log(informed / measured))[others].mean())
    assert np.mean(with_one) < np.mean(without)


def test_a_site_is_a_small_file_others_can_use(predictor: api.Predictor, own: pd.DataFrame, tmp_path: Path):
    pack = make_site("mine", own, predictor)
    path = tmp_path / "mine.json"
    api.save_site(pack, path)
    loaded = api.load_site(path)
    assert (loaded.name, loaded.family, loaded.conditions, loaded.model) == (
        "mine",
        "mine",
        pack.conditions,
        pack.model,
    )
    np.testing.assert_allclose(loaded.runs[TARGET], own[TARGET], rtol=1e-9)
    one, other = (predictor.with_runs(runs).at_site(MINE).predict_frame(own) for runs in (own, loaded.runs))
    np.testing.assert_allclose(one["step_time_s"], other["step_time_s"], rtol=1e-6)
    assert path.stat().st_size < 3000 * len(own)


def test_more_runs_join_and_replace(predictor: api.Predictor, own: pd.DataFrame):
    pack = make_site("mine", own.head(4).reset_index(drop=True), predictor)
    joined = api.joined_runs(pack, own.iloc[3:6].reset_index(drop=True))
    assert joined["run_id"].tolist() == own["run_id"].head(6).tolist()


def test_a_published_source_is_no_name_for_a_site(predictor: api.Predictor, own: pd.DataFrame):
    with pytest.raises(InputError, match="must not be a source"):
        make_site("torchtitan-perf-2024", own, predictor)
    with pytest.raises(InputError, match="must be measured"):
        make_site("mine", own.assign(measured_step_time_s=np.nan), predictor)


def test_only_a_known_family_has_habits_to_start_from(predictor: api.Predictor, own: pd.DataFrame):
    known = next(family for families in predictor.manifest.sites.values() for family in families)
    assert make_site("mine", own, predictor, family=known).family == known
    with pytest.raises(UnknownNameError, match=rf"`--family` must be a known name.*did you mean.*{known}"):
        make_site("mine", own, predictor, family=known + "s")


@pytest.mark.parametrize("name", ["../mine", "a/b", "", ".hidden"])
def test_a_site_s_name_stays_in_its_folder(name: str):
    with pytest.raises(InputError):
        site_file(name)


@pytest.mark.parametrize("content", ["", "{}", '{"format": 2}', "[1]"])
def test_a_file_that_is_no_site(tmp_path: Path, content: str):
    path = tmp_path / "site.json"
    path.write_text(content)
    with pytest.raises(FileFormatError):
        api.load_site(path)


def test_a_file_that_is_missing(tmp_path: Path):
    with pytest.raises(FileFormatError, match="no such site file: make one"):
        api.load_site(tmp_path / "site.json")


def test_proposed_runs_are_cheap_and_narrow_the_interval(predictor: api.Predictor, plan_file: Path):
    target = plans_to_frame([load_plan(plan_file)])
    proposed = api.propose_runs(target, 16, predictor)
    assert 1 <= len(proposed.proposals) <= 3
    assert all(run.num_gpus <= 16 for run in proposed.proposals)
    ratios = [run.interval_ratio for run in proposed.proposals]
    assert ratios == sorted(ratios, reverse=True)


def test_a_budget_too_small_is_said(predictor: api.Predictor, plan_file: Path):
    target = plans_to_frame([load_plan(plan_file, {"model": "llama3-405b", "num_gpus": 1024, "tp": 8, "pp": 8})])
    with pytest.raises(InputError, match="must hold a run like the target"):
        api.propose_runs(target, 1, predictor)
