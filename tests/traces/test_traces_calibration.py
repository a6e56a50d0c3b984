"""A trace as a run and as priors."""

import json
import math

import pandas as pd
import pytest

from surrogate.analytic.coefficients import INDEX
from surrogate.errors import FileFormatError, InputError
from surrogate.traces.calibration import coefficient_priors, find_accelerator, priors_path, run_row
from surrogate.traces.columns import TraceInfo
from surrogate.traces.reader import read_trace
from surrogate.traces.run_files import write_run


def test_run_row(plain):
    row = run_row([read_trace(plain)])
    assert row["accelerator"] == "H100-80GB"
    assert (row["num_gpus"], row["n_steps"], row["status"], row["run_id"]) == (2, 2, "ok", "trace")
    assert row["step_time_s"] == pytest.approx(300e-6)


def test_plan_completes_the_row_and_must_agree(plain):
    traces = [read_trace(plain)]
    row = run_row(traces, {"run_id": "mine", "num_layers": 2, "num_gpus": 2, "vp": None})
    assert (row["run_id"], row["num_layers"], row["step_time_s"]) == ("mine", 2, pytest.approx(300e-6))
    assert "vp" not in row
    with pytest.raises(InputError, match="2 ranks"):
        run_row(traces, {"num_gpus": 8})


def test_priors_are_of_the_models_coefficients(plain):
    priors = coefficient_priors([read_trace(plain)])
    assert set(priors) == {"dp_intra"}  # the products of 17 GFLOP are not large
    assert set(priors) <= set(INDEX)
    # 2 MB in 50 us against NVLink's 450 GB/s in one direction.
    assert priors["dp_intra"].log_mean == pytest.approx(math.log(450e9 / (2e6 / 50e-6)), rel=1e-6)
    assert priors["dp_intra"].num_samples == 3


def test_unknown_accelerator_gives_no_priors(fixtures):
    assert coefficient_priors([read_trace(fixtures / "bare_list" / "trace.json")]) == {}


@pytest.mark.parametrize(
    ("name", "gib", "expected"),
    [
        ("NVIDIA H100 80GB HBM3", 79.1, "H100-80GB"),
        ("NVIDIA A100-PG509-200", 39.4, "A100-40GB"),
        ("Tesla V100-DGXS-32GB", 31.7, "V100-32GB"),
        ("AMD Instinct MI300X", 192, "MI300X"),
        ("Quadro GP100", 15.9, None),
        ("", 0, None),
    ],
)
def test_accelerator_of_a_driver_name(plain, name, gib, expected):
    found = find_accelerator(TraceInfo(path=plain, device_name=name, device_memory_bytes=gib * 2**30))
    assert (found.name if found else None) == expected


@pytest.mark.parametrize("suffix", [".parquet", ".csv"])
def test_written_files(plain, tmp_path, suffix):
    runs = tmp_path / f"my_runs{suffix}"
    written = write_run([read_trace(plain)], runs)
    table = pd.read_parquet(runs) if suffix == ".parquet" else pd.read_csv(runs)
    assert table.loc[0, "step_time_s"] == pytest.approx(300e-6)
    priors = json.loads(priors_path(runs).read_text())
    assert priors["dp_intra"].keys() == {"log_mean", "log_sd", "num_samples"}
    assert written.priors_file == str(tmp_path / "my_runs.priors.json")


def test_wrong_ending(plain, tmp_path):
    with pytest.raises(InputError, match="parquet or .csv"):
        write_run([read_trace(plain)], tmp_path / "runs.xlsx")


def test_inference_does_not_calibrate(fixtures):
    trace = read_trace(fixtures / "inference_only" / "trace.json")
    for use in (run_row, coefficient_priors):
        with pytest.raises(FileFormatError, match="no backward pass"):
            use([trace])


def test_run_needs_steps(fixtures, tmp_path):
    text = (
        (fixtures / "plain" / "trace.json")
        .read_text()
        .replace("ProfilerStep", "Phase")
        .replace("Optimizer.step", "X.step")
    )
    path = tmp_path / "trace.json"
    path.write_text(text)
    with pytest.raises(FileFormatError, match="no steps"):
        run_row([read_trace(path)])
