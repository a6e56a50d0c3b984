"""The predictor inside the package is the one that the shipped table trains today."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from surrogate.api.model_directory import MEMORY_FOLDER, STEP_TIME_FOLDER, packaged_directory
from surrogate.derive import load_runs
from surrogate.estimators import HybridPredictor
from surrogate.estimators.memory_model import MemoryModel
from surrogate.features import prepare_runs
from surrogate.schema import table_digest

RUNS_FILE = Path(__file__).parents[2] / "data" / "runs.parquet"
LARGEST_MEAN_DIFFERENCE = 0.003
"""Of log time or log bytes: other processors sum in another order, and a tree may then split elsewhere."""


@pytest.fixture(scope="module")
def runs():
    return load_runs(RUNS_FILE)


def test_manifest_names_the_shipped_table(runs):
    manifest = json.loads((packaged_directory() / "manifest.json").read_text())
    assert manifest["data"]["digest"] == table_digest(runs)


@pytest.mark.slow
def test_retraining_gives_the_same_step_times(runs):
    shipped = HybridPredictor.load(packaged_directory() / STEP_TIME_FOLDER)
    retrained = HybridPredictor(conformal_levels=()).fit(runs)
    sample = runs.iloc[::9]
    difference = np.abs(retrained.predict_log(sample).log_time - shipped.predict_log(sample).log_time)
    assert difference.mean() < LARGEST_MEAN_DIFFERENCE


@pytest.mark.slow
def test_retraining_gives_the_same_memory(runs):
    workload = prepare_runs(runs).workload
    shipped = MemoryModel.load(packaged_directory() / MEMORY_FOLDER)
    retrained = MemoryModel().fit(runs, workload)
    both = [np.log(model.predict(runs, workload).peak_bytes) for model in (shipped, retrained)]
    assert np.abs(both[0] - both[1]).mean() < LARGEST_MEAN_DIFFERENCE
