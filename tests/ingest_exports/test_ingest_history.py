"""Hand-worked and property: W&B and MLflow exports of every shape against the same run."""

from __future__ import annotations

import csv
import gzip
import io
import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from surrogate.errors import FileFormatError, SurrogateError
from surrogate.ingest.exports import detect_export, read_histories, read_history
from surrogate.ingest.exports.metric_names import meaning_of

TIMES = [30.0, 6.0, 5.0, 5.1, 4.9, 5.0, 9.0, 5.0, 5.1, 4.9, 5.0, 5.0]
"""Step 7 (9.0 s) follows an evaluation; the median of the steady rest is 5.0 s."""


def rows(time_name: str = "iteration-time", scale: float = 1.0) -> list[dict[str, float]]:
    found = []
    for step, seconds in enumerate(TIMES, start=1):
        row = {
            "_step": float(step),
            "_timestamp": 1.7e9 + 6 * step,
            time_name: seconds * scale,
            "train/loss": 3 - step / 50,
        }
        if step == 6:
            row["eval/loss"] = 2.9
        found.append(row)
    return found


def as_csv(records: list[dict[str, object]]) -> str:
    names = list(dict.fromkeys(name for record in records for name in record))
    text = io.StringIO()
    writer = csv.DictWriter(text, names)
    writer.writeheader()
    writer.writerows(records)
    return text.getvalue()


def long(run: str = "a") -> list[dict[str, object]]:
    return [
        {
            "run_id": run,
            "key": name,
            "value": value,
            "step": int(row["_step"]),
            "timestamp": int(row["_timestamp"] * 1000),
        }
        for row in rows("step_time")
        for name, value in row.items()
        if not name.startswith("_")
    ]


def shapes() -> dict[str, str]:
    wide = rows()
    columns = {name: [row.get(name) for row in wide] for name in ("_step", "iteration-time", "_timestamp", "eval/loss")}
    indexed = {name: {str(i): value for i, value in enumerate(values)} for name, values in columns.items()}
    chart = [
        {"Step": row["_step"], "good - iteration-time": row["iteration-time"], "good - iteration-time__MIN": 0.1}
        for row in wide
    ]
    mlflow_run = {
        "run": {
            "info": {"run_id": "x1", "run_name": "big"},
            "data": {"metrics": long(), "params": [{"key": "global_batch_size", "value": "64"}]},
        }
    }
    return {
        "wandb csv": as_csv(wide),
        "wandb json list": json.dumps(wide),
        "wandb json lines": "\n".join(map(json.dumps, wide)),
        "wandb json columns": json.dumps(columns),
        "pandas json": json.dumps(indexed),
        "wandb chart csv": as_csv(chart),
        "mlflow csv": as_csv(long()),
        "mlflow json list": json.dumps(long()),
        "mlflow rest": json.dumps({"metrics": long()}),
        "mlflow run": json.dumps(mlflow_run),
    }


@pytest.mark.parametrize("name", shapes())
def test_every_shape_gives_the_same_step_time(name: str, tmp_path: Path) -> None:
    path = tmp_path / "export"
    path.write_text(shapes()[name])
    report = read_history(path)
    (run,) = report.runs
    assert report.format == name.split()[0].replace("pandas", "wandb")
    assert run.step_time_s == pytest.approx(5.0, rel=0.01)
    assert run.n_dropped >= 1
    assert detect_export(path) == report.format


def test_evaluation_step_is_left_out_and_noted(tmp_path: Path) -> None:
    path = tmp_path / "h.csv"
    path.write_text(as_csv(rows()))
    (run,) = read_history(path).runs
    assert run.step_time_p95_s < 6
    assert any("evaluation" in note for note in run.notes)
    assert any("'iteration-time'" in note for note in run.notes)


@pytest.mark.parametrize(
    ("name", "scale"),
    [("elapsed_time_per_iteration_ms", 1000.0), ("time_metrics/end_to_end(s)", 1.0), ("perf/step_time_seconds", 1.0)],
)
def test_units_come_from_the_name(name: str, scale: float, tmp_path: Path) -> None:
    path = tmp_path / "h.json"
    path.write_text(json.dumps(rows(name, scale)))
    assert read_history(path).runs[0].step_time_s == pytest.approx(5.0, rel=0.01)


def test_token_rate_becomes_a_step_time_with_a_plan(tmp_path: Path) -> None:
    history = [
        {
            "global_step": step,
            "_step": 3 * step,
            "throughput/device/tokens_per_sec": 8192.0,
            "throughput/device/mfu": 0.4,
            "memory/peak_reserved_mem": 70.5,
        }
        for step in range(1, 20)
    ]
    path = tmp_path / "h.csv.gz"
    path.write_bytes(gzip.compress(as_csv(history).encode()))
    known = {"global_batch_size": 64, "seq_len": 4096, "num_gpus": 8}
    (run,) = read_history(path, known).runs
    assert run.step_time_s == pytest.approx(64 * 4096 / 8 / 8192)
    assert run.mfu == pytest.approx(0.4)
    assert (run.peak_memory_bytes, run.peak_memory_kind) == (pytest.approx(70.5e9), "reserved")
    assert run.last_step == 19, "the optimizer's step counts, not the tracker's"


def test_percent_utilisation_and_tflops(tmp_path: Path) -> None:
    history = [{"_step": s, "mfu": 41.0, "tflops": 405.0, "step_time": 2.0} for s in range(10)]
    path = tmp_path / "h.json"
    path.write_text(json.dumps(history))
    (run,) = read_history(path).runs
    assert run.mfu == pytest.approx(0.41)
    assert run.achieved_flops_per_s == pytest.approx(405e12)


def test_runs_are_told_apart_and_params_kept(tmp_path: Path) -> None:
    path = tmp_path / "two.csv"
    slow = [{**row, "run_id": "b", "value": float(row["value"]) * 2} for row in long()]  # type: ignore[arg-type]
    path.write_text(as_csv([*long("a"), *slow]))
    first, second = read_history(path).runs
    assert second.step_time_s == pytest.approx(2 * first.step_time_s)
    searched = [
        {"run_id": "r", "metrics.step_time": 4.2, "params.num_layers": 32, "params.bf16": "True", "status": "FINISHED"}
    ]
    path.write_text(as_csv(searched))
    (only,) = read_history(path).runs
    assert only.step_time_s == pytest.approx(4.2)
    assert only.settings["num_layers"] == 32
    assert any("only last values" in note for note in only.notes)


def test_names_that_are_no_throughput_are_left_alone() -> None:
    for name in ("train/grad_norm", "eval/samples_per_second", "time_metrics/data_loading(s)", "forward-time", "lr"):
        assert meaning_of(name) is None, name


@pytest.mark.parametrize(
    "name", ["iteration-time", "iteration-time/iteration-time", "runtime/iteration_time", "train/step_time"]
)
def test_prefixes_do_not_matter(name: str) -> None:
    found = meaning_of(name)
    assert found is not None and found[1].attribute == "time_s"


def test_files_that_are_no_history(tmp_path: Path) -> None:
    path = tmp_path / "x"
    for text in ("", "{}", "[]", "[1, 2]", "prose", "{"):
        path.write_text(text)
        with pytest.raises(FileFormatError):
            read_histories(path)
    path.write_text("step,loss\n1,2\n2,1\n")
    assert read_history(path).notes
    with pytest.raises(FileFormatError, match="cannot be read"):
        read_history(tmp_path / "absent")


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    name=st.sampled_from(sorted(shapes())),
    a=st.integers(0, 900),
    b=st.integers(0, 900),
    inserted=st.binary(max_size=12),
)
def test_broken_exports_never_give_a_traceback_or_a_bad_time(
    tmp_path: Path, name: str, a: int, b: int, inserted: bytes
) -> None:
    data = shapes()[name].encode()
    path = tmp_path / "broken"
    path.write_bytes(data[:a] + inserted + data[min(a, b) :])
    try:
        for run in read_history(path).runs:
            assert not run.step_time_s <= 0
        detect_export(path)
    except SurrogateError:
        pass
