"""Rows, plans and the command."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest
import typer
from typer.testing import CliRunner

from surrogate.cli.ingest import ingest
from surrogate.errors import FileFormatError, InputError, TableError, UnknownNameError
from surrogate.ingest import ingest_logs, read_log
from surrogate.schema import INPUT_COLUMNS, read_runs

FIXTURES = Path(__file__).parent / "fixtures"
PLAN = """
model: llama3-8b
cluster: {accelerator: H100-80GB, num_gpus: 64, gpus_per_node: 8}
training: {seq_len: 8192, global_batch_size: 64, micro_batch_size: 1, precision: bf16}
parallelism: {tp: 2, pp: 1}
"""
app = typer.Typer()
app.command()(ingest)


def log(name: str) -> Path:
    return next((FIXTURES / name).glob("job.log*"))


@pytest.fixture
def plan(tmp_path: Path) -> Path:
    path = tmp_path / "plan.yaml"
    path.write_text(PLAN)
    return path


def test_rows_have_the_columns_of_the_runs_table() -> None:
    result = ingest_logs([log("two_runs_clock_backwards"), log("megatron_oom")])
    assert list(result.rows.columns) == list(INPUT_COLUMNS)
    assert list(result.rows["run_id"]) == ["job-1", "job-2", "job"]
    assert list(result.rows["status"]) == ["ok", "ok", "oom"]
    assert result.rows["step_time_s"].isna().tolist() == [False, False, True]


def test_same_names_are_told_apart() -> None:
    result = ingest_logs([log("seconds"), log("seconds")], source="mine")
    assert list(result.rows["run_id"]) == ["mine-job", "mine-job.2"]
    assert set(result.rows["source"]) == {"mine"}


def test_plan_supplies_what_tokens_need(plan: Path) -> None:
    (row,) = ingest_logs([log("seconds")], plan=plan).rows.to_dict("records")
    assert row["tokens_per_s_per_gpu"] == pytest.approx(64 * 8192 / 105.2 / 64)
    assert (row["num_layers"], row["tp"], row["num_gpus"]) == (32, 2, 64)


def test_printed_batch_wins_over_the_plan_and_is_remarked(plan: Path) -> None:
    result = ingest_logs([log("primus")], plan=plan)
    assert result.rows["global_batch_size"].item() == 128
    assert any("the log prints 128, the plan says 64; 128 is used" in note for note in result.notes)


def test_plan_gives_the_step_time_of_a_rate_only_log(plan: Path) -> None:
    (row,) = ingest_logs([log("colossalai_summary")], plan=plan).rows.to_dict("records")
    assert row["step_time_s"] == pytest.approx(64 / 27.94)


def test_reasons_are_in_the_notes() -> None:
    result = ingest_logs([log("colossalai_summary")])
    assert any("step_time_s cannot be derived: samples/s only" in note for note in result.notes)
    assert "samples/s only" in result.rows["notes"].item()


@pytest.mark.parametrize("suffix", [".parquet", ".csv"])
def test_written_rows_join_the_runs_table(tmp_path: Path, plan: Path, suffix: str) -> None:
    target = tmp_path / f"runs{suffix}"
    result = CliRunner().invoke(app, [str(log("seconds")), "--plan", str(plan), "--source", "mine", "-o", str(target)])
    assert result.exit_code == 0, result.output
    runs = read_runs(target)
    assert runs["step_time_s"].item() == pytest.approx(105.2)
    assert runs["source"].item() == "mine"


def test_partial_rows_are_written_with_a_remark(tmp_path: Path) -> None:
    target = tmp_path / "runs.csv"
    result = CliRunner().invoke(app, [str(log("seconds")), "-o", str(target)])
    assert result.exit_code == 0
    assert len(pd.read_csv(target)) == 1
    assert "a plan (--plan) supplies them" in result.output


def test_contradicting_rows_are_not_written(tmp_path: Path, plan: Path) -> None:
    plan.write_text(PLAN.replace("num_gpus: 64", "num_gpus: 63"))
    target = tmp_path / "runs.csv"
    result = CliRunner().invoke(app, [str(log("seconds")), "--plan", str(plan), "-o", str(target)])
    assert isinstance(result.exception, TableError)
    assert not target.exists()


def test_a_file_without_runs_is_not_written(tmp_path: Path) -> None:
    target = tmp_path / "runs.csv"
    result = CliRunner().invoke(app, [str(log("no_training")), "-o", str(target)])
    assert isinstance(result.exception, InputError)
    assert "no training progress" in str(result.exception)
    assert not target.exists()


def test_json() -> None:
    result = CliRunner().invoke(app, [str(log("seconds")), "--json"])
    printed = json.loads(result.output)
    assert set(printed) == {"runs", "notes"}
    assert printed["runs"][0]["step_time_s"] == pytest.approx(105.2)
    assert printed["runs"][0]["tokens_per_s_per_gpu"] is None


def test_table_without_output() -> None:
    result = CliRunner().invoke(app, [str(log("torchtitan_colours"))])
    assert result.exit_code == 0
    assert "tokens/s/GPU" in result.output and "6810" in result.output


def test_unknown_format_names_the_known_ones() -> None:
    with pytest.raises(UnknownNameError, match="megatron-lm"):
        read_log(log("seconds"), "megatron-lmm")


def test_missing_file_is_one_error(tmp_path: Path) -> None:
    with pytest.raises(FileFormatError, match="cannot be read as a log"):
        read_log(tmp_path / "absent.log")
    with pytest.raises(FileFormatError, match="cannot be read as a log"):
        read_log(tmp_path)
