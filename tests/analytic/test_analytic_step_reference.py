"""Published step times against the model with textbook coefficients: nothing here was fitted to them.

Tolerances are about 1.5 times the error measured when the test was written, so that a broken term fails.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from surrogate.analytic.coefficients import LOG_TEXTBOOK
from surrogate.analytic.step_terms import step_terms
from surrogate.analytic.step_time import log_step_time
from surrogate.derive import load_runs
from surrogate.features import prepare_runs

RUNS = Path(__file__).parents[2] / "data" / "runs.parquet"
SETS = {
    # source: (rows, largest |log error|, largest mean |log error|, citation)
    "megatron-lm-sc21": (9, 0.15, 0.09, "arXiv 2104.04473 table 1"),
    "megatron-selective-recompute-2022": (8, 0.20, 0.12, "arXiv 2205.05198 table 5"),
    "megatron-lm-readme-2020": (12, 0.18, 0.07, "Megatron-LM README, V100"),
    "nemo-launcher-2022-06": (5, 0.05, 0.03, "NeMo launcher tables, A100"),
}
VTRAIN_MODELS = {
    # model on >= 64 accelerators: (largest median |log error|, largest |median log error|)
    "gpt-18.4b": (0.18, 0.12),
    "gpt-39.1b": (0.15, 0.13),
    "gpt-175b": (0.20, 0.20),
}


@pytest.fixture(scope="module")
def errors() -> pd.DataFrame:
    """Return the logarithm of predicted over published time of every row used here."""
    runs = load_runs(RUNS)
    used = runs.source.isin([*SETS, "vtrain-ground-truth", "megatron-lm-sc21-table2"])
    runs = runs[used & runs.measured_step_time_s.notna()].reset_index(drop=True)
    prepared = prepare_runs(runs)
    log_time = log_step_time(step_terms(prepared.workload, prepared.software), LOG_TEXTBOOK)
    measured = runs.measured_step_time_s.to_numpy(dtype=np.float64)
    return runs.assign(log_error=log_time - np.log(measured))


@pytest.mark.parametrize("source", SETS)
def test_published_step_times(errors, source):
    rows, largest, mean, _ = SETS[source]
    error = errors.loc[errors.source == source, "log_error"].abs()
    assert len(error) == rows
    assert error.max() < largest
    assert error.mean() < mean


@pytest.mark.parametrize("model", VTRAIN_MODELS)
def test_many_nodes_of_vtrain(errors, model):
    spread, bias = VTRAIN_MODELS[model]
    rows = (errors.source == "vtrain-ground-truth") & (errors.model_name == model) & (errors.num_gpus >= 64)
    error = errors.loc[rows, "log_error"]
    assert len(error) >= 9
    assert error.abs().median() < spread
    assert abs(error.median()) < bias


def test_selective_recomputation_saves_what_was_published(errors):
    # arXiv 2205.05198: full over selective recomputation costs 29 to 32 % of a step
    rows = errors[errors.source == "megatron-selective-recompute-2022"].set_index("model_name")
    measured = rows.measured_step_time_s.astype(np.float64)
    times = pd.DataFrame({"measured": measured, "predicted": measured * np.exp(rows.log_error)})
    full, selective = (times[rows.recompute == kind] for kind in ("full", "selective"))
    ratio = full / selective
    assert len(ratio) == 4
    assert ratio.predicted.to_numpy() == pytest.approx(ratio.measured.to_numpy(), rel=0.10)


def test_weak_scaling_of_a_trillion_parameters(errors):
    # SC'21 table 1: time per sequence, parameter and accelerator changes by less than 20 % from 1.7B to 1T
    rows = errors[errors.source == "megatron-lm-sc21"]
    assert rows.log_error.max() - rows.log_error.min() < 0.15
