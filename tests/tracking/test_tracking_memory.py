"""An evaluation of memory in MLflow: figures per group beside the rule of thumb, tables, the reliability diagram."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from surrogate.evaluation.memory_protocol import MAIN_SOURCE, MemoryEvaluation
from surrogate.report import memory_artifacts
from surrogate.report.memory_images import wilson_interval
from surrogate.tracking import log_memory_evaluation
from surrogate.tracking.logged_memory import memory_figures
from surrogate.units import GIB

SPLITS = ("grouped", "leave-one-source-out")


def evaluation() -> MemoryEvaluation:
    """Return scores of two splits of 120 runs each, written by hand."""
    peak = {"rows": 60, "mape": 0.1, "median_ape": 0.05, "p90_ape": 0.2, "mean_log": -0.01, "coverage_90": 0.9,
            "naive_mape": 0.8}  # fmt: skip
    verdict = {"rows": 120, "out_of_memory": 60, "roc_auc": 0.98, "brier": 0.05, "accuracy": 0.93,
               "accuracy_at_5_percent_risk": 0.88, "missed_at_5_percent_risk": 2}  # fmt: skip
    naive = verdict | {"roc_auc": 0.4, "brier": 0.5, "accuracy": 0.5, "accuracy_at_5_percent_risk": 0.5}
    parts = ("all", MAIN_SOURCE, "all but " + MAIN_SOURCE)
    outcomes = [
        {"protocol": split, "slice": part, **scores, "method": method}
        for split in SPLITS
        for part in parts
        for method, scores in (("model", verdict), ("16 bytes per parameter", naive))
    ]
    outcomes[-1]["roc_auc"] = np.nan
    fifths = [
        {"protocol": split, "slice": part, "from_risk": low, "to_risk": low + 0.2, "rows": rows, "mean_risk": low + 0.1,
         "observed_frequency": low + 0.1 - gap, "gap": gap}
        for split in SPLITS
        for part in parts
        for low, rows, gap in ((0.0, 80, 0.02), (0.4, 10, 0.3), (0.8, 60, -0.05))
    ]  # fmt: skip
    return MemoryEvaluation(
        rows=rows_of_runs(),
        peaks=pd.DataFrame([{"protocol": split, "slice": part, **peak} for split in SPLITS for part in parts]),
        outcomes=pd.DataFrame(outcomes),
        reliability=pd.DataFrame(fifths),
    )


def rows_of_runs() -> pd.DataFrame:
    measured = np.linspace(10.0, 70.0, 120) * GIB
    out = np.arange(120) % 2 == 0
    one = pd.DataFrame(
        {
            "run_id": [f"r{row}" for row in range(120)], "source": [MAIN_SOURCE] * 60 + ["other"] * 60,
            "measured_peak_bytes": np.where(out, np.nan, measured), "predicted_peak_bytes": measured * 1.1,
            "naive_bytes": measured / 4.0, "out_of_memory": out, "oom_probability": np.where(out, 0.9, 0.1),
            "naive_fill_fraction": np.linspace(0.1, 1.4, 120),
        }
    )  # fmt: skip
    return pd.concat([one.assign(protocol=split) for split in SPLITS], ignore_index=True)


def test_figures_are_named_by_split_method_and_part():
    figures = memory_figures(evaluation())
    assert figures["memory_grouped/model/peak_mape"] == 0.1
    assert figures["memory_grouped/16_bytes_per_parameter/peak_mape"] == 0.8
    assert figures["memory_leave-one-source-out/model/oom_roc_auc"] == 0.98
    assert figures["memory_grouped/model/aleph-alpha-want-2023/oom_brier"] == 0.05
    assert figures["memory_grouped/16_bytes_per_parameter/all_but_aleph-alpha-want-2023/oom_accuracy"] == 0.5
    assert figures["memory_grouped/model/oom_accuracy_at_5_percent_risk"] == 0.88


def test_calibration_counts_only_fifths_with_enough_runs():
    """The gap of 0.3 rests on 10 runs; of the others 0.05 is the largest."""
    assert memory_figures(evaluation())["memory_grouped/model/oom_largest_gap"] == 0.05


def test_unknown_figures_are_left_out():
    name = "memory_leave-one-source-out/16_bytes_per_parameter/all_but_aleph-alpha-want-2023/oom_roc_auc"
    assert name not in memory_figures(evaluation())


def test_a_run_holds_metrics_tables_and_plots(local_store: Path):
    from mlflow import MlflowClient

    runs = pd.DataFrame(
        {"run_id": ["a"], "source": ["s"], "accelerator": ["H100-80GB"], "num_gpus": [8], "measured_step_time_s": [1.0]}
    )
    logged = log_memory_evaluation(
        evaluation(), runs, experiment="evaluation", parameters={"random_state": 0},
        artifacts=memory_artifacts(evaluation()),
    )  # fmt: skip
    client = MlflowClient(logged.uri, logged.uri)
    run = client.get_run(logged.run_id)
    assert run.info.run_name == "memory"
    assert run.data.metrics["memory_grouped/model/oom_roc_auc"] == 0.98
    assert run.data.params == {"random_state": "0"}
    assert "16 bytes per parameter" in run.data.tags["mlflow.note.content"]
    paths = {file.path for folder in ("plots", "tables") for file in client.list_artifacts(logged.run_id, folder)}
    tables = {f"tables/memory_{name}.csv" for name in ("rows", "peaks", "outcomes", "reliability")}
    assert paths >= tables | {"plots/memory_reliability.png", "plots/memory_peak.png", "tables/memory_outcomes.json"}


def test_plots_are_pictures_and_only_of_what_was_measured():
    drawn = memory_artifacts(evaluation())
    assert all(content.startswith(b"\x89PNG") for content in drawn.values())
    nobody_ran_out = MemoryEvaluation(
        rows=rows_of_runs(), peaks=evaluation().peaks, outcomes=pd.DataFrame(), reliability=pd.DataFrame()
    )
    assert memory_artifacts(nobody_ran_out).keys() == {"plots/memory_peak.png"}
    assert "memory_grouped/model/peak_mape" in memory_figures(nobody_ran_out)


@pytest.mark.parametrize(("hits", "total"), [(0, 10), (10, 10), (3, 7)])
def test_wilson_interval_holds_the_frequency_and_stays_between_zero_and_one(hits, total):
    low, high = wilson_interval(hits, total)
    assert 0.0 <= low <= hits / total <= high <= 1.0
