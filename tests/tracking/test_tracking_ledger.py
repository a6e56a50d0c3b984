"""The ledger: recorded, matched by configuration or by id, summed up by site."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

from surrogate import api
from surrogate.api.predictor import Site
from surrogate.derive import derive_columns
from surrogate.plan import Plan, load_plan, plans_to_frame
from surrogate.schema import validate_runs
from surrogate.tracking import match_runs, record_predictions, track_record
from surrogate.tracking.ledger import plan_digest

MINE = Site(name="mine", source="mine", family="mine")


@pytest.fixture
def plan(plan_file: Path) -> Plan:
    return load_plan(plan_file)


def measured(plan: Plan, seconds: float, **changes: object) -> pd.DataFrame:
    given = {"run_id": "night-run", "step_time_s": seconds, "source": MINE.source, "publisher_family": MINE.family}
    return derive_columns(validate_runs(plans_to_frame([plan]).assign(**given, **changes), "runs"))


def test_without_a_ledger_there_is_nothing_to_match(plan: Plan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    assert match_runs(measured(plan, 3.0)) == 0
    record = track_record("mine")
    assert (record.recorded, record.matched, record.drift.alarm) == (0, 0, False)
    assert record.to_dict()["coverage"] is None
    assert not (tmp_path / "mlruns").exists()


def test_a_prediction_is_matched_with_its_run(plan: Plan, predictor: api.Predictor, local_store: Path):
    (prediction,) = api.predict([plan], predictor)
    (name,) = record_predictions([plan], [prediction], predictor)
    assert match_runs(measured(plan, 3.0, global_batch_size=256)) == 0
    assert match_runs(measured(plan, 3.0, precision="fp8")) == 0
    seconds = 1.1 * prediction.step_time_s
    assert match_runs(measured(plan, seconds)) == 1
    assert match_runs(measured(plan, seconds)) == 0
    record = track_record("mine")
    (item,) = record.items
    assert (record.recorded, record.matched) == (1, 1)
    assert (item.prediction_id, item.run_id, item.model) == (name, "night-run", prediction.model)
    assert math.isclose(record.mean_log_error, -math.log(1.1), rel_tol=1e-9)
    assert item.inside == (seconds <= prediction.step_time_upper_s)
    sd = math.log(prediction.step_time_upper_s / prediction.step_time_lower_s) / 2.0 / 1.6448536
    assert item.surprise == pytest.approx(math.log(1.1) / sd, rel=1e-4)
    assert track_record("elsewhere").matched == 0


def test_a_run_named_after_its_prediction_is_matched_whatever_it_says(
    plan: Plan, predictor: api.Predictor, local_store: Path
):
    (name,) = record_predictions([plan], api.predict([plan], predictor), predictor)
    assert match_runs(measured(plan, 3.0, global_batch_size=256).assign(run_id=name)) == 1


def test_runs_of_one_configuration_are_shared_out(plan: Plan, predictor: api.Predictor, local_store: Path):
    for _ in range(3):
        record_predictions([plan], api.predict([plan], predictor), predictor)
    nights = [measured(plan, seconds).assign(run_id=f"night-{seconds}") for seconds in (3.0, 4.0)]
    assert match_runs(pd.concat(nights)) == 3
    assert [item.run_id for item in track_record("mine").items] == ["night-3.0", "night-4.0", "night-3.0"]


def test_what_a_site_s_runs_predicted_is_not_matched_elsewhere(plan: Plan, predictor: api.Predictor, local_store: Path):
    informed = predictor.at_site(replace(MINE, name="theirs", source="theirs", own_runs=3))
    record_predictions([plan], api.predict([plan], informed), informed)
    assert match_runs(measured(plan, 3.0)) == 0
    assert track_record("theirs").recorded == 1
    assert match_runs(measured(plan, 3.0).assign(source="theirs")) == 1


def test_a_site_may_have_a_quote_in_its_name(plan: Plan, predictor: api.Predictor, local_store: Path):
    record_predictions([plan], api.predict([plan], predictor), predictor)
    assert match_runs(measured(plan, 3.0).assign(source="o'brien")) == 1
    assert track_record("o'brien").matched == 1


def test_a_plan_s_digest_is_of_its_values(plan: Plan, plan_file: Path):
    renamed = plan_file.with_name("other.yaml")
    renamed.write_text(plan_file.read_text())
    assert plan_digest(load_plan(renamed)) == plan_digest(plan)
    assert plan_digest(load_plan(plan_file, {"global_batch_size": 256})) != plan_digest(plan)
