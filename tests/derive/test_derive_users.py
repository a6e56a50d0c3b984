"""A user's own table: grades, groups, duplicates, impossible times, and tables that are bad throughout."""

from __future__ import annotations

import pandas as pd
import pytest

from surrogate.derive import build_runs, check_table, derive_columns, load_runs, summarise_runs
from surrogate.errors import FileFormatError, TableError
from surrogate.schema import validate_runs

RUN = {
    "num_layers": 32, "hidden_size": 4096, "num_heads": 32, "seq_len": 8192, "accelerator": "H100-80GB",
    "num_gpus": 64, "global_batch_size": 128, "tp": 8, "pp": 1, "step_time_s": 4.25,
}  # fmt: skip


def frame(*changes: dict[str, object]) -> pd.DataFrame:
    return pd.DataFrame([RUN | {"run_id": f"r{place}"} | change for place, change in enumerate(changes or [{}])])


def derive(*changes: dict[str, object]) -> pd.DataFrame:
    return derive_columns(validate_runs(frame(*changes)))


def test_minimal_row_gets_everything():
    run = derive().iloc[0]
    expected = ["measured_step_time_s", "num_params", "mfu_computed", "quality", "split_group", "publisher_family"]
    assert run[expected].notna().all()
    assert run["publisher_family"] == "unknown"


def test_family_is_the_source_when_not_given():
    assert derive({"source": "our-cluster"})["publisher_family"].tolist() == ["our-cluster"]


def test_stack_follows_the_framework():
    runs = derive({"framework": "NeMo"}, {"framework": "megatron-lm", "date": "2022-05"}, {"framework": "mine"}, {})
    assert runs["stack"].fillna("").tolist() == ["megatron-core", "megatron-lm-classic", "mine", ""]


def test_grades():
    full = {"ffn_hidden_size": 16384, "vocab_size": 32000, "micro_batch_size": 1, "precision": "bf16"}
    full |= {"recompute": "none", "zero_stage": 1}
    rates = {"step_time_s": None, "mfu": 0.4, "tflops_kind": "model:6N"}
    runs = derive(full, {}, full | rates, full | {"step_time_s": 29.0}, full | {"step_time_s": None, "status": "oom"})
    assert runs["quality"].tolist() == ["a", "b", "c", "c", "b"]


def test_given_judgement_is_kept():
    given = {"quality": "c", "split_group": "sg-mine", "repeat_group": "rg-mine", "publisher_family": "us"}
    assert derive(given)[list(given)].iloc[0].to_dict() == given


def test_duplicates_are_same_configuration_and_time():
    runs = derive({}, {}, {"step_time_s": 4.3}, {"tp": 4, "num_gpus": 32})
    assert runs["duplicate_of"].fillna("").tolist() == ["", "r0", "", ""]
    assert runs["repeat_group"].nunique() == 2


def test_software_version_does_not_make_another_configuration():
    runs = derive({"framework_version": "1"}, {"framework_version": "2"})
    assert len(set(runs["repeat_group"])) == 1


def test_unknown_fields_keep_repeats_together_in_splits():
    runs = derive({"micro_batch_size": 1, "zero_stage": 1}, {})
    assert len(set(runs["repeat_group"])) == 2
    assert len(set(runs["split_group"])) == 1


def test_time_in_the_wrong_unit_is_found():
    good, problems = check_table(frame({}, {"step_time_s": 0.00425}))
    assert good["run_id"].tolist() == ["r0"]
    (problem,) = problems
    assert (problem.row, problem.column) == (2, "step_time_s")
    assert "MFU above 1" in problem.rule
    assert "MFU" in problem.value


def test_problem_rows_count_through_the_whole_table():
    _, problems = check_table(frame({"tp": 3}, {"step_time_s": 0.00425}))
    assert {(problem.row, problem.column) for problem in problems} == {
        (1, "num_gpus"), (1, "num_heads"), (2, "step_time_s"),
    }  # fmt: skip


def test_table_of_bad_rows_only():
    good, problems = check_table(frame({"tp": 3}))
    assert good.empty
    assert problems


def test_table_without_a_required_column():
    _, problems = check_table(frame().drop(columns=["num_heads", "accelerator"]))
    assert [problem.column for problem in problems] == ["num_heads", "accelerator"]


def test_load_runs_lists_all_problems(tmp_path):
    path = tmp_path / "mine.csv"
    frame({"tp": 3}, {"step_time_s": 0.00425}).to_csv(path, index=False)
    with pytest.raises(TableError) as caught:
        load_runs(path)
    assert [problem.row for problem in caught.value.problems] == [1, 1, 2]


def test_build_refuses_an_empty_folder(tmp_path):
    with pytest.raises(FileFormatError, match="no source tables"):
        build_runs(tmp_path)


def test_build_refuses_the_same_run_in_two_sources(tmp_path):
    for name in ("a.csv", "b.csv"):
        frame().to_csv(tmp_path / name, index=False)
    with pytest.raises(TableError, match="unique"):
        build_runs(tmp_path)


def test_order_of_rows_does_not_matter():
    runs = derive({}, {"tp": 4}, {"num_layers": 16})
    turned = derive({"num_layers": 16, "run_id": "r2"}, {"tp": 4, "run_id": "r1"}, {"run_id": "r0"})
    pd.testing.assert_frame_equal(turned.set_index("run_id").loc[["r0", "r1", "r2"]], runs.set_index("run_id"))


def test_summary_counts():
    summary = summarise_runs(derive({"date": "2026-01"}, {"status": "oom", "step_time_s": None, "date": "2025-11"}))
    assert (summary.rows, summary.measured, summary.oom, summary.duplicates) == (2, 1, 1, 0)
    assert summary.dates == ("2025-11", "2026-01")
    assert summary.counts["accelerator"] == {"H100-80GB": 2}
    assert summary.ranges["tp"] == {"min": 8.0, "median": 8.0, "max": 8.0}
    assert summary.missing_fraction["step_time_s"] == 0.5
