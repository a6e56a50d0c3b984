"""Which store is used, and that nothing of MLflow's global state stays behind."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from surrogate.tracking import TrackingError, locate_store, opened


def test_the_argument_comes_first_then_the_environment_then_mlruns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    local = locate_store()
    assert local.uri == f"sqlite:///{tmp_path}/mlruns/mlflow.db"
    assert local.artifacts == tmp_path / "mlruns" / "artifacts"
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://from-environment")
    assert locate_store().uri == "http://from-environment"
    assert locate_store("http://from-argument").uri == "http://from-argument"
    assert not locate_store("http://from-argument").is_local


def test_the_environment_is_as_before(local_store: Path):
    before = {name: value for name, value in os.environ.items() if name.endswith("_URI")}
    with opened() as store:
        assert store.experiment_id("one") == store.experiment_id("one")
    assert {name: value for name, value in os.environ.items() if name.endswith("_URI")} == before


def test_an_address_without_a_server_is_given_up_soon(local_store: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "1")
    with opened():
        assert os.environ["MLFLOW_HTTP_REQUEST_MAX_RETRIES"] == "1"
    monkeypatch.delenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES")
    with opened():
        assert int(os.environ["MLFLOW_HTTP_REQUEST_MAX_RETRIES"]) <= 3


def test_a_store_that_cannot_be_opened_is_one_line(tmp_path: Path):
    (tmp_path / "file").write_text("")
    with pytest.raises(TrackingError) as caught, opened(f"sqlite:///{tmp_path}/file/mlflow.db") as store:
        store.experiment_id("one")
    assert len(str(caught.value).splitlines()) == 1
    assert "--tracking-uri" in str(caught.value)
