"""MLflow stores in an empty folder."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def empty_database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An MLflow database without entries: its tables take seconds to make, so tests start from a copy."""
    from surrogate.tracking import opened

    path = tmp_path_factory.mktemp("database") / "mlflow.db"
    with opened(f"sqlite:///{path}") as store:
        store.client.search_experiments()
    return path


@pytest.fixture
def local_store(tmp_path: Path, empty_database: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Work in a folder whose `mlruns/` holds an empty store."""
    (tmp_path / "mlruns").mkdir()
    shutil.copy(empty_database, tmp_path / "mlruns" / "mlflow.db")
    monkeypatch.chdir(tmp_path)
    return tmp_path
