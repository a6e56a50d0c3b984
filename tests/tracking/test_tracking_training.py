"""A tracked training: what a run holds, the model that loads without pickle, the champion, and a served model."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import pytest

from surrogate import api
from surrogate.api.training import TrainResult, load_run_files
from surrogate.tracking import log_training
from surrogate.tracking.logged_model import beats

QUESTION = {
    "num_layers": 32, "hidden_size": 4096, "num_heads": 32, "seq_len": 8192, "accelerator": "H100-80GB",
    "num_gpus": 64, "global_batch_size": 128, "tp": 1, "pp": 1,
}  # fmt: skip


@pytest.fixture(scope="module")
def result(predictor: api.Predictor, small_runs: Path) -> TrainResult:
    return TrainResult(predictor=predictor, runs=load_run_files([small_runs]), evaluation=None, seconds=1.0)


@pytest.fixture(scope="module")
def store(empty_database: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("store") / "mlflow.db"
    shutil.copy(empty_database, path)
    return f"sqlite:///{path}"


@pytest.fixture(scope="module")
def logged(result: TrainResult, store: str, tmp_path_factory: pytest.TempPathFactory):
    before = Path.cwd()
    os.chdir(tmp_path_factory.mktemp("elsewhere"))
    try:
        return log_training(result, tracking_uri=store, artifacts={"plots/one.txt": "a picture", "two.bin": b"\0\1"})
    finally:
        os.chdir(before)


def test_a_run_holds_parameters_data_and_files(logged, result: TrainResult, store: str):
    from mlflow import MlflowClient

    client = MlflowClient(store, store)
    run = client.get_run(logged.run_id)
    digest = result.manifest.data["digest"]
    assert run.data.tags["data_digest"] == digest
    assert run.data.params["data.rows"] == str(len(result.runs))
    assert run.data.params["step_time.random_state"] == "0"
    (dataset,) = run.inputs.dataset_inputs
    assert str(digest).startswith(dataset.dataset.digest)
    assert {file.path for file in client.list_artifacts(logged.run_id)} >= {"MODEL_CARD.md", "plots", "two.bin"}


def test_the_logged_model_has_signature_and_example_and_no_pickle(logged, store: str):
    from mlflow import MlflowClient

    client = MlflowClient(store, store)
    version = client.get_model_version_by_alias("surrogate", "champion")
    assert str(version.version) == logged.registered.version == "1"
    folder = Path(client.get_model_version_download_uri("surrogate", "1").removeprefix("file://"))
    names = {path.name for path in folder.rglob("*") if path.is_file()}
    assert {"MLmodel", "served_model.py", "input_example.json", "manifest.json"} <= names
    assert not [name for name in names if name.endswith((".pkl", ".pickle", ".joblib"))]


def test_the_champion_loads_and_predicts(logged, store: str, predictor: api.Predictor, monkeypatch: pytest.MonkeyPatch):
    import mlflow

    monkeypatch.setenv("MLFLOW_TRACKING_URI", store)
    mlflow.set_tracking_uri(store)
    model = mlflow.pyfunc.load_model("models:/surrogate@champion")
    mlflow.set_tracking_uri(None)
    rows = pd.DataFrame([QUESTION, QUESTION | {"tp": 3}]).assign(framework="torchtitan", zero_stage=3)
    answer = model.predict(rows, params={"coverage": 0.5})
    frame = rows.iloc[[0]].assign(framework=pd.Series(["torchtitan"], dtype="str"))
    (direct,) = api.predict(frame.assign(run_id="row-1"), predictor, coverage=0.5)
    assert answer["step_time_s"][0] == pytest.approx(direct.step_time_s, rel=1e-9)
    assert answer["step_time_upper_s"][0] == pytest.approx(direct.step_time_upper_s, rel=1e-9)
    assert "tp" in answer["error"][1]


def test_a_later_training_must_be_better_on_the_same_data(logged, result: TrainResult, store: str):
    again = log_training(result, tracking_uri=store)
    assert (again.registered.version, again.registered.is_champion) == ("2", False)


@pytest.mark.parametrize(
    ("figure", "digest", "champion", "wins"),
    [
        (0.05, "a", None, True),
        (0.05, "a", {"data_digest": "a", "selection_figure": "0.051"}, True),
        (0.05, "a", {"data_digest": "a", "selection_figure": "0.05"}, False),
        (0.50, "b", {"data_digest": "a", "selection_figure": "0.05"}, True),
        (0.50, "a", {"data_digest": "a"}, True),
        (None, "a", {"data_digest": "a", "selection_figure": "0.05"}, False),
    ],
)
def test_who_becomes_champion(figure: float | None, digest: str, champion: dict[str, str] | None, wins: bool):
    assert beats(figure, digest, champion) is wins


@pytest.fixture
def server(logged, store: str, tmp_path: Path) -> Iterator[str]:
    if shutil.which("mlflow", path=Path(sys.executable).parent) is None:
        pytest.skip("mlflow's command is not beside this Python")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    command = [sys.executable, "-m", "mlflow", "models", "serve", "-m", "models:/surrogate@champion"]
    process = subprocess.Popen(
        [*command, "--env-manager", "local", "-h", "127.0.0.1", "-p", str(port)],
        env={**os.environ, "MLFLOW_TRACKING_URI": store, "PATH": path, "MLFLOW_SCORING_SERVER_NUM_WORKERS": "1"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd=tmp_path,
        start_new_session=True,
    )
    address = f"http://127.0.0.1:{port}"
    try:
        _wait_for(address, process)
        yield address
    finally:
        os.killpg(process.pid, 15)
        process.wait(timeout=20)


def _wait_for(address: str, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + 180.0
    while time.monotonic() < deadline and process.poll() is None:
        try:
            with urllib.request.urlopen(f"{address}/ping", timeout=5):
                return
        except (urllib.error.URLError, ConnectionError, TimeoutError):
            time.sleep(0.3)
    pytest.fail("the model server did not start")


@pytest.mark.slow
def test_the_champion_is_served(server: str):
    body = json.dumps({"dataframe_records": [QUESTION | {"framework": "torchtitan"}, QUESTION | {"num_layers": -1}]})
    request = urllib.request.Request(
        f"{server}/invocations", body.encode(), {"Content-Type": "application/json"}, method="POST"
    )
    with urllib.request.urlopen(request, timeout=60) as response:
        good, bad = json.load(response)["predictions"]
    assert good["step_time_lower_s"] < good["step_time_s"] < good["step_time_upper_s"]
    assert good["error"] is None
    assert json.loads(good["breakdown"])["compute_s"] > 0.0
    assert bad["step_time_s"] is None
    assert "num_layers" in bad["error"]
