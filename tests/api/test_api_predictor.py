"""The predictor as a function of tables: one row or many, sites, and what follows from the step time."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from surrogate import api
from surrogate.api import predictor as module
from surrogate.api.predictor import PARTS, Site
from surrogate.derive import load_runs
from surrogate.plan import load_plan, plans_to_frame


@pytest.fixture(scope="module")
def runs(small_runs: Path) -> pd.DataFrame:
    return load_runs(small_runs).head(60)


def test_one_row_alone_is_predicted_as_among_others(predictor: api.Predictor, runs: pd.DataFrame):
    together = predictor.predict_frame(runs)
    for row in (0, 31, 59):
        alone = predictor.predict_frame(runs.iloc[[row]])
        for name in ("step_time_s", "step_time_upper_s", "peak_memory_bytes", "oom_probability", "mfu"):
            assert alone[name].iloc[0] == pytest.approx(together[name].iloc[row], rel=1e-5)


def test_chunks_do_not_change_predictions(
    predictor: api.Predictor, runs: pd.DataFrame, monkeypatch: pytest.MonkeyPatch
):
    whole = predictor.predict_frame(runs)
    monkeypatch.setattr(module, "CHUNK_ROWS", 7)
    pieces = predictor.predict_frame(runs)
    assert pieces.index.equals(whole.index)
    np.testing.assert_allclose(pieces["step_time_s"], whole["step_time_s"], rtol=1e-5)


def test_the_parts_sum_to_the_step(predictor: api.Predictor, runs: pd.DataFrame):
    predicted = predictor.predict_frame(runs)
    np.testing.assert_allclose(predicted[list(PARTS)].sum(axis=1), predicted["step_time_s"], rtol=1e-9)
    assert (predicted[list(PARTS)] >= 0.0).all(axis=None)


def test_an_empty_table_has_the_columns(predictor: api.Predictor, runs: pd.DataFrame):
    empty = predictor.predict_frame(runs.iloc[:0])
    assert len(empty) == 0
    assert set(empty.columns) == set(predictor.predict_frame(runs.iloc[:1]).columns)


def test_the_order_of_rows_does_not_matter(predictor: api.Predictor, runs: pd.DataFrame):
    forward, backward = predictor.predict_frame(runs), predictor.predict_frame(runs.iloc[::-1])
    np.testing.assert_allclose(backward.loc[forward.index, "step_time_s"], forward["step_time_s"], rtol=1e-5)


def test_a_known_source_names_its_family(predictor: api.Predictor, runs: pd.DataFrame):
    known = runs.head(2).assign(source=["torchtitan-perf-2024", "unheard-of"]).drop(columns="publisher_family")
    sited = predictor.sited(known)
    assert sited["publisher_family"].iloc[0] == "meta-torchtitan"
    assert pd.isna(sited["publisher_family"].iloc[1])
    given = predictor.sited(known.assign(publisher_family=["their-own", None]))
    assert given["publisher_family"].iloc[0] == "their-own"


def test_at_a_site_every_row_belongs_to_it(predictor: api.Predictor, runs: pd.DataFrame):
    site = Site(name="x", source="x", family="meta-torchtitan")
    sited = predictor.at_site(site).sited(runs.head(3))
    assert sited["source"].tolist() == ["x"] * 3
    assert sited["publisher_family"].tolist() == ["meta-torchtitan"] * 3


def test_choose_site_knows_sources_and_families(
    predictor: api.Predictor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    source = api.choose_site(predictor, "torchtitan-perf-2024").site
    family = api.choose_site(predictor, "meta-torchtitan").site
    nobody = api.choose_site(predictor, "nobody").site
    assert source is not None and family is not None and nobody is not None
    assert (source.source, source.family) == ("torchtitan-perf-2024", "meta-torchtitan")
    assert (family.source, family.family) == (None, "meta-torchtitan")
    assert not nobody.is_known


def test_feasible_needs_low_risk_and_the_rules(predictor: api.Predictor, plan_file: Path):
    plans = [load_plan(plan_file, {"micro_batch_size": size, "recompute": "none"}) for size in (1, 2)]
    frame = plans_to_frame([*plans, load_plan(plan_file, {"seq_len": 131072, "recompute": "none"})])
    predicted = predictor.predict_frame(frame)
    assert (predicted["feasible"] <= (predicted["oom_probability"] < 0.05)).all()
    assert not predicted["feasible"].iloc[-1]


def test_imputed_fields_are_those_that_matter(predictor: api.Predictor, plan_file: Path):
    dense, moe = load_plan(plan_file), load_plan(plan_file, {"model": "mixtral-8x7b"})
    imputed = predictor.predict_frame(plans_to_frame([dense, moe]), with_evidence=True)["imputed"].tolist()
    assert "ep" not in imputed[0]
    assert "ep" in imputed[1]
    assert "kv_lora_rank" not in imputed[1]
