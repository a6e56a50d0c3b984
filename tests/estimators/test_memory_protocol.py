"""The memory protocol on three published sources: what it scores, and that nothing leaks."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from surrogate.errors import InputError
from surrogate.estimators.memory_model import MemoryModel
from surrogate.evaluation.memory_protocol import MemoryEvaluation, evaluate_memory, naive_device_bytes
from surrogate.features.workload import prepare_runs
from surrogate.units import GIGA

RUNS = Path(__file__).parents[2] / "data" / "runs.parquet"
SOURCES = ("bigscience-tr3m-1B3", "bigscience-tr11-prequel", "torchtitan-2024.12", "mlperf-training-v3.0")


@pytest.fixture(scope="module")
def runs() -> pd.DataFrame:
    table = pd.read_parquet(RUNS)
    return table[table["source"].isin(SOURCES)].reset_index(drop=True)


@pytest.fixture(scope="module")
def evaluation(runs) -> MemoryEvaluation:
    return evaluate_memory(runs, make_model=partial(MemoryModel, item_scale=0.1))


def test_every_scorable_row_is_predicted_once_per_protocol(runs, evaluation) -> None:
    silent = runs["source"].isin(["mlperf-training-v3.0"])
    expected = sorted(runs.loc[~silent, "run_id"])
    for _, rows in evaluation.rows.groupby("protocol"):
        assert sorted(rows["run_id"]) == expected


def test_known_sources_are_predicted_better_than_strangers(evaluation) -> None:
    scores = evaluation.peaks[evaluation.peaks["slice"] == "all"].set_index("protocol")
    assert scores.loc["grouped", "mape"] < min(0.11, scores.loc["leave-one-source-out", "mape"])
    assert (scores["mape"] < scores["naive_mape"]).all()


def test_out_of_memory_beats_the_naive_rule(evaluation) -> None:
    scores = evaluation.outcomes.query("slice == 'all' and protocol == 'grouped'").set_index("method")
    assert scores.loc["model", "out_of_memory"] == 8
    assert scores.loc["model", "roc_auc"] > scores.loc["16 bytes per parameter", "roc_auc"] + 0.1
    assert scores.loc["model", "brier"] < scores.loc["16 bytes per parameter", "brier"]


def test_reliability_counts_every_row_of_mixed_sources(evaluation) -> None:
    table = evaluation.reliability[evaluation.reliability["slice"] == "all"]
    mixed = evaluation.rows["source"].isin(["bigscience-tr3m-1B3", "bigscience-tr11-prequel"])
    assert table["rows"].sum() == mixed.sum()
    assert table["gap"].to_numpy() == pytest.approx((table["mean_risk"] - table["observed_frequency"]).to_numpy())


def test_a_single_source_is_scored_grouped_only(runs) -> None:
    heard: list[tuple[int, int]] = []
    one = runs[runs["source"] == "bigscience-tr3m-1B3"]
    make_model = partial(MemoryModel, item_scale=0.1)
    scores = evaluate_memory(one, make_model=make_model, on_fit=lambda done, total: heard.append((done, total)))
    assert set(scores.rows["protocol"]) == {"grouped"}
    assert heard == [(done, 5) for done in range(1, 6)]


def test_refuses_tables_that_say_nothing_about_memory(runs) -> None:
    with pytest.raises(InputError, match="at least 5 groups"):
        evaluate_memory(runs[runs["source"] == "mlperf-training-v3.0"])


def test_naive_rule_by_hand(runs) -> None:
    workload = prepare_runs(runs[runs["model_name"] == "llama3-8b"].head(1)).workload
    per_gpu = 16 * 8.03 * GIGA / workload.num_gpus
    np.testing.assert_allclose(naive_device_bytes(workload), per_gpu, rtol=1e-3)
