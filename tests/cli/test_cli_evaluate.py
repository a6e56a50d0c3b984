"""`surrogate evaluate`: output, JSON, CSV, exit codes; the methods are simple ones."""

from __future__ import annotations

import json

import pandas as pd
import pytest
import typer
from typer.testing import CliRunner

from surrogate.cli.evaluate import evaluate
from surrogate.errors import InputError, UnknownNameError
from surrogate.evaluation import METHODS, PROTOCOLS, evaluation


def table_of_runs() -> pd.DataFrame:
    rows = []
    for site, mfu, seq_len in (("mine", 0.4, 1024), ("theirs", 0.3, 2048), ("others", 0.2, 4096)):
        for gpus in (8, 64, 512):
            for layout, tp in enumerate((1, 2, 4, 8)):
                flops = 6 * 24 * 12 * 2048**2 * gpus * 8 * seq_len
                rows.append(
                    {
                        "run_id": f"{site}-{gpus}-{tp}", "source": site, "num_layers": 24, "hidden_size": 2048,
                        "num_heads": 16, "seq_len": seq_len, "accelerator": "A100-80GB", "num_gpus": gpus, "tp": tp,
                        "pp": 1, "micro_batch_size": 1, "global_batch_size": 8 * gpus, "precision": "bf16",
                        "date": "2024-01", "step_time_s": flops / (gpus * 312e12 * mfu) * (1 + 0.05 * layout),
                    }
                )  # fmt: skip
    return pd.DataFrame(rows)


@pytest.fixture
def runs_file(tmp_path, monkeypatch):
    simple = {"hybrid": METHODS["constant MFU"], "nearest own run's MFU": METHODS["nearest own run's MFU"]}
    monkeypatch.setitem(evaluation.evaluate.__kwdefaults__, "methods", simple)
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "runs.csv"
    table_of_runs().to_csv(path, index=False)
    return path


def run(*arguments: object):
    app = typer.Typer()
    app.command()(evaluate)
    return CliRunner().invoke(app, [*map(str, arguments), "--no-track", "--jobs", "1"])


def test_tables_name_protocols_and_baselines(runs_file):
    result = run(runs_file, "--protocol", "random", "--protocol", "new-site")
    assert result.exit_code == 0, result.output
    for words in (
        "random",
        "new-site",
        "own MFU",
        "90 % intervals",
        "MAPE with equal weight per source",
        "worst first",
    ):
        assert words in result.output


def test_json_holds_scores_rankings_comparisons(runs_file):
    result = run(runs_file, "--protocol", "random", "--json")
    facts = json.loads(result.stdout)
    whole = [row for row in facts["scores"] if row["slice"] == "all" and row["method"] == "hybrid"]
    assert whole[0]["rows"] == 36
    assert whole[0]["coverage"] is None
    assert {row["figure"] for row in facts["comparisons"]} == {"mape", "source_mape", "source_mean_abs_log_error"}
    assert facts["runs"] == 36 and len(facts["data_digest"]) == 64


def test_every_prediction_goes_into_the_csv(runs_file, tmp_path):
    output = tmp_path / "rows.csv"
    assert run(runs_file, "--protocol", "new-site", "-o", output).exit_code == 0
    rows = pd.read_csv(output)
    assert len(rows) == 2 * 36
    own = rows[rows["method"] == "hybrid"]
    expected = own["step_time_s"] / own["measured_step_time_s"] - 1
    assert own["relative_error"].to_numpy() == pytest.approx(expected.to_numpy(), abs=1e-9)


def test_without_names_all_that_the_runs_can_answer_is_evaluated(runs_file):
    facts = json.loads(run(runs_file, "--json").stdout)
    answered = list(dict.fromkeys(row["protocol"] for row in facts["scores"]))
    missing = {"vtrain", "new-release", "time-forward", "few-shot", "new-accelerator", "new-model"}
    assert answered == [name for name in PROTOCOLS if name not in missing]
    assert "memory" not in facts


@pytest.mark.parametrize(
    ("name", "error"), [("nonsense", UnknownNameError), ("vtrain", InputError), ("memory", InputError)]
)
def test_protocols_that_cannot_be_answered_are_errors_and_leave_files_alone(runs_file, tmp_path, name, error):
    output = tmp_path / "rows.csv"
    output.write_text("old")
    result = run(runs_file, "--protocol", name, "-o", output)
    assert isinstance(result.exception, error)
    assert output.read_text() == "old"


def test_memory_alone_is_printed_written_and_tracked(runs_file, tmp_path, monkeypatch):
    from surrogate import tracking
    from surrogate.evaluation import memory_protocol

    rows = pd.DataFrame({"protocol": ["grouped"], "run_id": ["a"], "measured_peak_bytes": [1.0]})
    scores = memory_protocol.MemoryEvaluation(
        rows=rows, peaks=pd.DataFrame(), outcomes=pd.DataFrame(), reliability=pd.DataFrame()
    )
    logged = []
    monkeypatch.setattr(memory_protocol, "evaluate_memory", lambda _runs, **_: scores)
    monkeypatch.setattr(tracking, "log_memory_evaluation", lambda found, _runs, **how: logged.append((found, how)))
    app = typer.Typer()
    app.command()(evaluate)
    output = tmp_path / "rows.csv"
    arguments = [
        str(runs_file),
        "--protocol",
        "memory",
        "-o",
        str(output),
        "--tracking-uri",
        "sqlite:///x.db",
        "--json",
    ]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    ((found, how),) = logged
    assert found is scores
    assert how["tracking_uri"] == "sqlite:///x.db"
    assert how["artifacts"] == {}
    assert pd.read_csv(output)["run_id"].tolist() == ["a"]
    assert set(json.loads(result.stdout)) == {"runs", "data_digest", "memory"}
