"""`surrogate data build|validate|describe`: output, exit codes, and files left alone."""

from __future__ import annotations

import json

import pandas as pd
import pytest
from typer.testing import CliRunner

from surrogate.cli.data import data_app
from surrogate.errors import FileFormatError, TableError

RUN = {
    "run_id": "r", "source": "mine", "num_layers": 32, "hidden_size": 4096, "num_heads": 32, "seq_len": 8192,
    "accelerator": "H100-80GB", "num_gpus": 64, "global_batch_size": 128, "tp": 8, "pp": 1, "step_time_s": 4.25,
}  # fmt: skip


@pytest.fixture
def sources(tmp_path):
    folder = tmp_path / "sources"
    folder.mkdir()
    for name in ("a", "b"):
        rows = [RUN | {"run_id": f"{name}-{place}", "source": name} for place in (1, 2)]
        pd.DataFrame(rows).to_csv(folder / f"{name}.csv", index=False)
    return folder


def run(*arguments: object):
    return CliRunner().invoke(data_app, [str(argument) for argument in arguments])


def test_build_writes_the_same_bytes_twice(sources, tmp_path):
    outputs = [tmp_path / "one.parquet", tmp_path / "two.parquet"]
    for output in outputs:
        result = run("build", "--sources", sources, "-o", output)
        assert result.exit_code == 0, result.output
        assert "4 runs of 2 sources" in result.output
    assert outputs[0].read_bytes() == outputs[1].read_bytes()


def test_build_json(sources, tmp_path):
    result = run("build", "--sources", sources, "-o", tmp_path / "runs.parquet", "--json")
    facts = json.loads(result.output)
    assert (facts["rows"], facts["sources"], len(facts["digest"])) == (4, 2, 64)


def test_build_with_a_bad_row_leaves_the_old_table(sources, tmp_path):
    output = tmp_path / "runs.parquet"
    output.write_bytes(b"old")
    pd.DataFrame([RUN | {"tp": 3}]).to_csv(sources / "c.csv", index=False)
    result = run("build", "--sources", sources, "-o", output)
    assert result.exit_code == 1
    assert isinstance(result.exception, TableError)
    assert output.read_bytes() == b"old"


def test_validate_reports_all_bad_rows(tmp_path):
    path = tmp_path / "bad.csv"
    bad = [RUN, RUN | {"run_id": "s", "tp": 3}, RUN | {"run_id": "t", "mfu": 45}]
    pd.DataFrame(bad).to_csv(path, index=False)
    result = run("validate", path, "--json")
    assert result.exit_code == 1
    report = json.loads(result.output)
    assert (report["rows"], report["valid"]) == (3, False)
    assert {problem["row"] for problem in report["problems"]} == {2, 3}
    assert set(report["problems"][0]) == {"row", "run_id", "column", "rule", "value"}
    text = run("validate", path)
    assert text.exit_code == 1
    assert "3 problem(s)" in text.output
    assert "num_heads" in text.output


def test_validate_good_table(sources):
    result = run("validate", sources / "a.csv")
    assert result.exit_code == 0
    assert result.output.strip().endswith("2 rows, all valid")
    assert json.loads(run("validate", sources / "a.csv", "--json").output)["problems"] == []


def test_validate_corrupt_file(tmp_path):
    path = tmp_path / "corrupt.parquet"
    path.write_bytes(b"PAR1")
    result = run("validate", path)
    assert result.exit_code == 1
    assert isinstance(result.exception, FileFormatError)


def test_describe(sources):
    result = run("describe", sources / "a.csv")
    assert result.exit_code == 0, result.output
    assert "2 rows (2 with a time, 0 out of memory, 1 duplicates)" in result.output
    assert "H100-80GB 2" in result.output
    summary = json.loads(run("describe", sources / "a.csv", "--json").output)
    assert summary["ranges"]["num_gpus"] == {"min": 64.0, "median": 64.0, "max": 64.0}


def test_usage_errors_exit_with_two():
    assert run("validate").exit_code == 2
    assert run("describe", "--nope").exit_code == 2
