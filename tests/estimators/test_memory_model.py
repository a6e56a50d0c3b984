"""The memory model on made-up sites whose true departures from the textbook are known."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

from surrogate.analytic.memory import peak_memory
from surrogate.errors import InputError, ModelDirectoryError
from surrogate.estimators.memory_model import MemoryModel
from surrogate.estimators.memory_model_items import PRIOR_COEFFICIENTS
from surrogate.features.workload import prepare_runs
from surrogate.units import GIB

EXCESS = {"alpha": 1.4, "beta": 1.0, "gamma": 0.8}
"""Activations of each source over the textbook's."""


def build_runs(seed: int, rows_per_source: int = 60) -> pd.DataFrame:
    """Return layouts of a 13B model; `gamma` publishes outcomes only, the others peaks."""
    random = np.random.default_rng(seed)
    count = rows_per_source * len(EXCESS)
    tp, pp, dp = random.choice([1, 2, 4, 8], count), random.choice([1, 2, 4], count), random.choice([4, 16], count)
    runs = pd.DataFrame(
        {
            "run_id": [f"run-{index}" for index in range(count)],
            "source": np.repeat(list(EXCESS), rows_per_source),
            "publisher_family": np.repeat(list(EXCESS), rows_per_source),
            "stack": "megatron-core",
            "date": "2024-06",
            "num_layers": 40, "hidden_size": 5120, "ffn_hidden_size": 13824, "num_heads": 40, "num_kv_heads": 40,
            "vocab_size": 32000, "gated_mlp": True, "tied_embeddings": False, "accelerator": "A100-80GB",
            "seq_len": random.choice([2048, 4096, 8192], count),
            "num_gpus": tp * pp * dp, "tp": tp, "pp": pp, "dp": dp, "vp": 1, "zero_stage": 1,
            "micro_batch_size": random.choice([1, 2, 4], count), "global_batch_size": dp * 32,
            "recompute": random.choice(["none", "full"], count), "flash_attention": True, "fused_norm": True,
            "grad_reduce_dtype": "fp32", "sequence_parallel": False,
        }
    )  # fmt: skip
    return _measured(runs, random)


def _measured(runs: pd.DataFrame, random: np.random.Generator) -> pd.DataFrame:
    workload = prepare_runs(runs).workload
    breakdown = peak_memory(workload, PRIOR_COEFFICIENTS)
    excess = runs["source"].map(EXCESS).to_numpy()
    noise = np.exp(random.normal(0, 0.03, len(runs)))
    device = (breakdown.device_bytes + (excess - 1) * breakdown.activations_bytes) * noise
    allocated = device - (breakdown.device_bytes - breakdown.allocated_bytes)
    out_of_memory = device > workload.hbm_bytes
    publishes = ~out_of_memory & (runs["source"] != "gamma").to_numpy()
    return runs.assign(
        peak_memory_bytes=np.where(publishes, allocated, np.nan),
        peak_memory_kind="allocated",
        status=np.where(out_of_memory, "oom", "ok"),
        true_bytes=allocated,
    )


@pytest.fixture(scope="module")
def trained() -> MemoryModel:
    runs = build_runs(0)
    return MemoryModel().fit(runs, prepare_runs(runs).workload)


@pytest.fixture(scope="module")
def unseen() -> pd.DataFrame:
    return build_runs(1)


def predict(model: MemoryModel, runs: pd.DataFrame):
    return model.predict(runs, prepare_runs(runs).workload)


def test_learns_what_each_source_publishes(trained, unseen) -> None:
    ratio = pd.Series(predict(trained, unseen).peak_bytes / unseen["true_bytes"].to_numpy())
    errors = np.log(ratio).abs().groupby(unseen["source"]).median()
    assert errors["alpha"] < 0.05
    assert errors["beta"] < 0.05


def test_learns_from_outcomes_alone(trained, unseen) -> None:
    gamma = unseen[unseen["source"] == "gamma"]
    bias = np.log(predict(trained, gamma).peak_bytes / gamma["true_bytes"].to_numpy()).mean()
    stranger = gamma.assign(source="alpha", publisher_family="alpha")
    bias_as_alpha = np.log(predict(trained, stranger).peak_bytes / gamma["true_bytes"].to_numpy()).mean()
    assert abs(bias) < 0.15 < bias_as_alpha


def test_intervals_cover_and_are_not_useless(trained, unseen) -> None:
    known = unseen[unseen["source"] != "gamma"]
    prediction = predict(trained, known)
    truth = known["true_bytes"].to_numpy()
    covered = (prediction.lower_bytes <= truth) & (truth <= prediction.upper_bytes)
    assert covered.mean() > 0.8
    assert np.median(prediction.upper_bytes / prediction.lower_bytes) < 1.4


def test_strangers_are_less_sure(trained, unseen) -> None:
    stranger = unseen.assign(source="nobody", publisher_family="nowhere", stack="homemade")
    known, unknown = predict(trained, unseen), predict(trained, stranger)
    width = np.log(unknown.upper_bytes / unknown.lower_bytes) / np.log(known.upper_bytes / known.lower_bytes)
    assert (width > 1).all()


def test_risk_separates_runs_that_ran(trained, unseen) -> None:
    risk = predict(trained, unseen).oom_probability
    out_of_memory = (unseen["status"] == "oom").to_numpy()
    assert ((risk >= 0) & (risk <= 1)).all()
    assert ((risk > 0.5) == out_of_memory).mean() > 0.93
    assert np.mean((risk - out_of_memory) ** 2) < 0.06


def test_items_sum_to_the_predicted_peak(trained, unseen) -> None:
    prediction = predict(trained, unseen)
    np.testing.assert_allclose(prediction.breakdown.allocated_bytes, prediction.peak_bytes)


def test_stages_of_one_run_hold_its_peak(trained, unseen) -> None:
    run = unseen[unseen["pp"] == 4].iloc[:1]
    workload = prepare_runs(run).workload
    stages, peak = trained.predict_stages(run, workload), trained.predict(run, workload)
    assert len(stages.stage) == 4
    assert stages.allocated_bytes[int(peak.breakdown.stage[0])] == pytest.approx(peak.peak_bytes[0])
    with pytest.raises(InputError, match="one row"):
        trained.predict_stages(unseen, prepare_runs(unseen).workload)


def test_kinds_of_measurement_are_ordered(trained, unseen) -> None:
    workload = prepare_runs(unseen).workload
    allocated, reserved, device = (
        trained.predict(unseen, workload, kind=np.full(len(unseen), kind)).peak_bytes
        for kind in ("allocated", "reserved", "device")
    )
    assert (allocated < reserved).all()
    assert (reserved < device).all()


def test_rows_do_not_influence_each_other(trained, unseen) -> None:
    order = np.random.default_rng(0).permutation(len(unseen))
    whole, shuffled = predict(trained, unseen), predict(trained, unseen.iloc[order])
    np.testing.assert_allclose(shuffled.peak_bytes, whole.peak_bytes[order])
    np.testing.assert_allclose(shuffled.oom_probability, whole.oom_probability[order])


def test_saved_models_predict_the_same(trained, unseen, tmp_path) -> None:
    trained.save(tmp_path)
    before, after = predict(trained, unseen), predict(MemoryModel.load(tmp_path), unseen)
    np.testing.assert_allclose(after.peak_bytes, before.peak_bytes)
    np.testing.assert_allclose(after.upper_bytes, before.upper_bytes, rtol=1e-4)
    np.testing.assert_allclose(after.oom_probability, before.oom_probability, atol=1e-4)


@pytest.mark.parametrize("name", ["memory_model.json", "memory_model.npz"])
@pytest.mark.parametrize("damage", ["missing", "truncated"])
def test_damaged_files_are_refused(trained, tmp_path, name, damage) -> None:
    trained.save(tmp_path)
    path = tmp_path / name
    content = path.read_bytes()
    path.unlink() if damage == "missing" else path.write_bytes(content[: len(content) // 2])
    with pytest.raises(ModelDirectoryError, match="memory model"):
        MemoryModel.load(tmp_path)


def test_models_of_another_format_are_refused(trained, tmp_path) -> None:
    trained.save(tmp_path)
    path = tmp_path / "memory_model.json"
    path.write_text(path.read_text().replace('"format": 1', '"format": 0'))
    with pytest.raises(ModelDirectoryError, match="another version"):
        MemoryModel.load(tmp_path)


def test_fit_is_reproducible(trained, unseen) -> None:
    runs = build_runs(0)
    again = clone(trained).fit(runs, prepare_runs(runs).workload)
    np.testing.assert_array_equal(predict(again, unseen).oom_probability, predict(trained, unseen).oom_probability)


def test_refuses_tables_without_evidence(unseen) -> None:
    silent = unseen.drop(columns=["peak_memory_bytes", "status"])
    with pytest.raises(InputError, match="published peaks or out-of-memory rows"):
        MemoryModel().fit(silent, prepare_runs(silent).workload)


def test_refuses_tables_of_different_lengths(trained, unseen) -> None:
    with pytest.raises(InputError, match="as many rows"):
        trained.predict(unseen, prepare_runs(unseen.iloc[:3]).workload)


def test_one_impossible_peak_does_not_spoil_the_others(unseen) -> None:
    runs = build_runs(0)
    published = np.flatnonzero(runs["peak_memory_bytes"].notna())
    misprint = runs.assign(peak_memory_bytes=runs["peak_memory_bytes"].mask(runs.index == published[3], 700 * GIB))
    model = MemoryModel(item_scale=0.1).fit(misprint, prepare_runs(misprint).workload)
    beta = unseen[unseen["source"] == "beta"]
    assert np.median(np.abs(np.log(predict(model, beta).peak_bytes / beta["true_bytes"].to_numpy()))) < 0.05


def test_more_memory_never_raises_the_risk(trained, unseen) -> None:
    workload = prepare_runs(unseen).workload
    larger = replace(workload, hbm_bytes=1.3 * workload.hbm_bytes)
    now, then = (trained.predict(unseen, w).oom_probability for w in (workload, larger))
    assert (then <= now + 1e-9).all()


def as_stranger(runs: pd.DataFrame, source: str) -> pd.DataFrame:
    return runs[runs["source"] == source].assign(source="newcomer", publisher_family="elsewhere")


def test_a_newcomers_peaks_sharpen_its_predictions_only(trained, unseen) -> None:
    runs = as_stranger(build_runs(2), "gamma")
    own = runs.assign(peak_memory_bytes=runs["true_bytes"].where(runs["status"] == "ok")).iloc[:12]
    knowing = trained.condition(own, prepare_runs(own).workload)
    target = as_stranger(unseen, "gamma")
    truth = target["true_bytes"].to_numpy()
    before, after = predict(trained, target), predict(knowing, target)
    assert np.abs(np.log(after.peak_bytes / truth)).mean() < 0.5 * np.abs(np.log(before.peak_bytes / truth)).mean()
    assert (after.upper_bytes / after.lower_bytes < before.upper_bytes / before.lower_bytes).all()
    np.testing.assert_array_equal(predict(knowing, unseen).oom_probability, predict(trained, unseen).oom_probability)


def test_runs_that_ran_lower_the_risk_of_their_source(trained, unseen) -> None:
    ran = as_stranger(build_runs(2), "gamma").query("status == 'ok'").drop(columns=["peak_memory_bytes"])
    knowing = trained.condition(ran, prepare_runs(ran).workload)
    target = as_stranger(unseen, "gamma").query("status == 'ok'")
    before, after = predict(trained, target).oom_probability, predict(knowing, target).oom_probability
    assert after.mean() < before.mean()


def test_conditioning_is_saved_repeatable_and_leaves_fitted_sources_aside(trained, unseen, tmp_path) -> None:
    runs = pd.concat([as_stranger(build_runs(2), "alpha"), build_runs(3)], ignore_index=True)
    workload = prepare_runs(runs).workload
    once = trained.condition(runs, workload)
    twice = once.condition(runs, workload)
    assert once.state_.vocabulary.own_sources == twice.state_.vocabulary.own_sources == ("newcomer",)
    target = as_stranger(unseen, "alpha")
    once.save(tmp_path)
    for again in (twice, MemoryModel.load(tmp_path)):
        np.testing.assert_allclose(predict(again, target).peak_bytes, predict(once, target).peak_bytes)
