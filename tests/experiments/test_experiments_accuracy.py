"""Accuracy experiments: settings, goals, markdown, one MLflow run per method."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
import pytest

from surrogate.derive import check_table
from surrogate.errors import InputError
from surrogate.evaluation import METHODS
from surrogate.experiments.accuracy import checked_config, evaluate_sources
from surrogate.experiments.goals import GOALS, Goal, goal_table
from surrogate.experiments.markdown import evaluation_markdown, markdown_table
from surrogate.experiments.tracked import method_images, method_metrics, only_method, track_methods

CONFIG = {"experiment": "m:f", "runs": "runs.parquet", "protocols": ["random", "new-site"], "jobs": 1, "track": False}
SIMPLE = {"hybrid": METHODS["constant MFU"], "nearest own run's MFU": METHODS["nearest own run's MFU"]}


@pytest.fixture(scope="module")
def runs():
    rows = [
        {
            "run_id": f"{site}-{gpus}-{tp}", "source": site, "num_layers": 24, "hidden_size": 2048, "num_heads": 16,
            "seq_len": seq_len, "accelerator": "A100-80GB", "num_gpus": gpus, "tp": tp, "pp": 1,
            "global_batch_size": 8 * gpus, "precision": "bf16", "step_time_s": 7.0 * (1 + 0.1 * np.log2(tp)) * slow,
        }
        for site, slow, seq_len in (("a", 1.0, 2048), ("b", 3.0, 4096))
        for gpus in (8, 64)
        for tp in (1, 2, 4, 8)
    ]  # fmt: skip
    return check_table(pd.DataFrame(rows)).good.reset_index(drop=True)


@pytest.fixture(scope="module")
def evaluation(runs):
    return evaluate_sources(runs, checked_config(CONFIG), SIMPLE)


def test_only_the_named_sources_are_scored(runs):
    settings = checked_config({**CONFIG, "sources": ["a"]})
    assert set(evaluate_sources(runs, settings, SIMPLE).predictions["source"]) == {"a"}
    with pytest.raises(InputError, match="nobody"):
        evaluate_sources(runs, checked_config({**CONFIG, "sources": ["nobody"]}), SIMPLE)


@pytest.mark.parametrize(("key", "value"), [("protocols", "random"), ("sead", 1), ("seed", "x")])
def test_wrong_settings_are_named(key, value):
    with pytest.raises(InputError, match=key):
        checked_config({**CONFIG, key: value})


def test_goals_bound_sizes_from_above_and_coverage_from_below():
    bias = Goal(protocol="p", figure="source_mean_log_error", limit=0.03)
    assert bias.met(-0.02) and not bias.met(-0.04)
    cover = Goal(protocol="p", figure="coverage", limit=0.85, at_least=True)
    assert cover.met(0.9) and not cover.met(0.8)
    assert len({(g.protocol, g.variant, g.part, g.figure, g.at_least) for g in GOALS}) == len(GOALS)


def test_goals_that_were_not_evaluated_are_not_listed(evaluation):
    table = goal_table(evaluation)
    assert set(table["protocol"]) == {"random", "new-site"}
    row = table[(table["protocol"] == "new-site") & (table["figure"] == "source_mape")].iloc[0]
    assert row["value"] == evaluation.figure("source_mape", protocol="new-site")
    assert row["met"] == (row["value"] <= 0.14)


def test_markdown_shows_every_table(evaluation):
    text = evaluation_markdown(evaluation, "hybrid")
    for words in ("| random |", "nearest own run's MFU", "Goals:", "a 0.", "settings unknown"):
        assert words in text


def test_markdown_table_by_hand():
    assert markdown_table(("a", "b"), [("1", "2")]) == "| a | b |\n|---|---|\n| 1 | 2 |"


def test_methods_log_the_same_metric_names(evaluation):
    names = [set(method_metrics(only_method(evaluation, method))) for method in SIMPLE]
    assert "random/source_mape" in names[0]
    assert names[1] <= names[0]
    assert all(re.fullmatch(r"[a-z0-9_\-/]+", name) for name in names[0])


def test_pictures_need_an_interval_only_for_coverage(evaluation):
    pictures = method_images(only_method(evaluation, "hybrid"))
    assert set(pictures) == {"plots/measured_vs_predicted.png", "plots/error_by_scale.png"}
    assert all(content.startswith(b"\x89PNG") for content in pictures.values())


def test_every_method_becomes_a_run_of_the_experiment(runs, evaluation, tmp_path, monkeypatch):
    import mlflow

    uri = f"sqlite:///{tmp_path / 'tracked.db'}"
    monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
    monkeypatch.chdir(tmp_path)
    track_methods(evaluation, runs, experiment="question")
    client = mlflow.MlflowClient(uri)
    found = client.search_runs([client.get_experiment_by_name("question").experiment_id])
    assert {run.info.run_name for run in found} == set(SIMPLE)
    by_name = {run.info.run_name: run.data.metrics for run in found}
    assert by_name["hybrid"]["random/mape"] == pytest.approx(evaluation.figure("mape", protocol="random"))
