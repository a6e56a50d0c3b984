"""The shipped table: complete, current, and equal to what was published."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from surrogate.derive import build_runs, groups, load_runs
from surrogate.derive.architecture import architecture_of
from surrogate.derive.conventions import source_flops_per_token
from surrogate.derive.groups import SPLIT_COLUMNS
from surrogate.features.stacks import stack_names
from surrogate.schema import table_digest, write_parquet

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def given() -> pd.DataFrame:
    """Figures computed by the compilers of the table, for some rows of every source and kind of figure."""
    return pd.read_csv(Path(__file__).parent / "given_values.csv").set_index("run_id")


def test_committed_parquet_is_current(shipped):
    pd.testing.assert_frame_equal(load_runs(ROOT / "data" / "runs.parquet"), shipped)


def test_build_is_deterministic(shipped, sources_dir, tmp_path):
    again = build_runs(sources_dir)
    assert table_digest(again) == table_digest(shipped)
    for name, runs in {"one": shipped, "two": again}.items():
        write_parquet(runs, tmp_path / name)
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


def test_counts(shipped):
    assert len(shipped) == 4069
    assert shipped["measured_step_time_s"].notna().sum() == 3584
    assert (shipped["status"] == "oom").sum() == 485
    assert shipped["source"].nunique() == 71
    assert shipped["publisher_family"].nunique() == 35


def test_every_row_has_its_citation(shipped):
    assert shipped[["source_ref", "date", "framework", "stack", "quality", "split_group"]].notna().all(axis=None)


def test_source_files_hold_no_derived_columns(sources_dir):
    derived = {"measured_step_time_s", "num_params", "model_flops_per_token", "peak_flops_per_s", "mfu_computed"}
    for file in sources_dir.glob("*.csv"):
        names = file.read_text().split("\n", 1)[0].split(",")
        assert not derived & set(names)
        assert set(pd.read_csv(file, usecols=["source"])["source"]) == {file.stem}


@pytest.mark.parametrize(
    ("column", "tolerance"),
    [
        ("measured_step_time_s", 3e-3),
        ("num_params", 1e-9),
        ("model_flops_per_token", 1e-5),
        ("mfu_computed", 3e-3),
        ("step_time_alt_s", 4e-3),
        ("time_rel_rounding", 0.06),
    ],
)
def test_derived_columns_reproduce_the_given_ones(shipped, given, column, tolerance):
    ours = shipped.set_index("run_id").loc[given.index, column].to_numpy(dtype=float)
    theirs = given[column].to_numpy(dtype=float)
    np.testing.assert_array_equal(np.isnan(ours), np.isnan(theirs))
    np.testing.assert_allclose(ours, theirs, rtol=tolerance)


def test_time_from_and_peak_are_the_given_ones(shipped, given):
    ours = shipped.set_index("run_id").loc[given.index]
    assert (ours["time_from"].fillna("") == given["time_from"].fillna("")).all()
    np.testing.assert_allclose(ours["peak_flops_per_s"].to_numpy(float), given["peak_tflops"] * 1e12, rtol=1e-12)


@pytest.mark.parametrize(
    ("kind", "least_rows", "tolerance"),
    [
        ("hardware:megatron-96Bslh2", 100, 1e-3),
        ("hardware:8N (N=12Lh^2", 25, 1e-3),
        ("model:6N+12Lsd", 180, 2e-3),
        ("model:6N(no input emb)+12Lhs", 19, 1e-3),
        ("model:aleph-alpha", 340, 5e-3),
        ("model:nanotron 6N", 15, 3e-3),
        ("model:megatron-bridge (causal", 150, 2e-3),
    ],
)
def test_printed_rates_agree_with_independent_times(shipped, kind, least_rows, tolerance):
    of_kind = shipped["tflops_kind"].fillna("").str.startswith(kind) & shipped["achieved_flops_per_s"].notna()
    rows = shipped[of_kind & shipped["time_from"].isin(["step", "tokens", "samples"])]
    tokens = (rows["global_batch_size"] * rows["seq_len"] / rows["num_gpus"]).to_numpy(dtype=float)
    counted = source_flops_per_token(rows, architecture_of(rows)) * tokens / rows["measured_step_time_s"].to_numpy()
    ratio = counted / rows["achieved_flops_per_s"].to_numpy()
    assert np.isfinite(ratio).sum() >= least_rows
    assert np.nanmedian(ratio) == pytest.approx(1.0, abs=tolerance)


def test_printed_utilisation_of_mosaic_agrees_with_its_token_rates(shipped):
    rows = shipped[shipped["source"] == "mosaic-examples-2022.12"]
    assert (rows["mfu_computed"] / rows["mfu"]).median() == pytest.approx(0.9965, abs=1e-3)


def test_utilisations_are_plausible(shipped):
    assert shipped["mfu_computed"].dropna().between(0.005, 0.9).all()


def test_repeats_share_a_split_group(shipped):
    pairs = shipped[["repeat_group", "split_group"]].drop_duplicates()
    assert pairs["repeat_group"].is_unique


def test_rule_for_split_groups_never_separates_what_the_table_keeps_together(shipped):
    blank = shipped.assign(split_group=pd.Series(None, index=shipped.index, dtype="str"))
    pairs = shipped[["split_group"]].assign(by_rule=groups.group_columns(blank)["split_group"]).drop_duplicates()
    assert pairs["split_group"].is_unique


def test_groups_depend_on_values_only(shipped):
    blank = shipped.head(50).assign(split_group=None, repeat_group=None)
    forward, backward = groups.group_columns(blank), groups.group_columns(blank.iloc[::-1])
    pd.testing.assert_frame_equal(forward, backward.iloc[::-1])
    changed = groups.group_columns(blank.assign(tp=blank["tp"] + 1))
    assert (changed["split_group"] != forward["split_group"]).all()
    assert "tp" in SPLIT_COLUMNS


def test_settings_from_words_became_columns(shipped):
    by_kernel = shipped[shipped["source"] == "aleph-alpha-want-2023"]["attention_backend"].value_counts()
    assert by_kernel.to_dict() == {"flash2": 498, "flash1": 192, "torch": 70, "megatron": 50, "flash": 3}
    assert shipped["fused_norm"].sum() == 294
    assert shipped.loc[shipped["attention"] == "mla", "kv_lora_rank"].eq(512).all()
    assert shipped.loc[shipped["precision"].isin(["mxfp8", "nvfp4"]), "fp8_recipe"].notna().all()


def test_stacks_follow_the_documented_rule(shipped):
    blank = shipped.assign(stack=pd.Series(None, index=shipped.index, dtype="str"))
    assert stack_names(blank).tolist() == shipped["stack"].tolist()
