"""Where MLflow keeps what is tracked: by default a SQLite database and artifacts in `mlruns/`."""

from __future__ import annotations

import logging
import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from surrogate.errors import SurrogateError

if TYPE_CHECKING:
    from mlflow import MlflowClient

URI_VARIABLE: Final = "MLFLOW_TRACKING_URI"
LOCAL_FOLDER: Final = "mlruns"
_DATABASE: Final = "mlflow.db"
_ARTIFACTS: Final = "artifacts"
_EXPERIMENT_TAGS: Final = {"mlflow.experimentKind": "custom_model_development"}
"""Opens the interface on trainings and metrics, not on traces of chats."""
_SQLITE: Final = "sqlite:///"
_MOST_RETRIES: Final = "3"
"""Of a request: 14 seconds. MLflow's seven leave somebody with a wrong address waiting for more than four minutes."""
_QUIET_LOGGERS: Final = ("mlflow", "mlflow.store.db.utils", "mlflow.pyfunc", "alembic")


class TrackingError(SurrogateError):
    """A tracking store that cannot be reached, read or written."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Store:
    """A tracking store.

    Parameters
    ----------
    uri : str
        As MLflow takes it.
    artifacts : Path or None
        Where a local store keeps artifacts; None leaves it to the server.
    """

    uri: str
    artifacts: Path | None

    @property
    def is_local(self) -> bool:
        """Whether it is the database in `mlruns/`."""
        return self.artifacts is not None


def locate_store(tracking_uri: str | None = None) -> Store:
    """Return the store to use: the argument, else `MLFLOW_TRACKING_URI`, else the database in `mlruns/`."""
    uri = tracking_uri or os.environ.get(URI_VARIABLE)
    if uri:
        return Store(uri=uri, artifacts=None)
    folder = Path(LOCAL_FOLDER).resolve()
    return Store(uri=f"{_SQLITE}{folder / _DATABASE}", artifacts=folder / _ARTIFACTS)


@dataclass(frozen=True, kw_only=True, slots=True)
class OpenStore:
    """A store and MLflow's client of it."""

    store: Store
    client: MlflowClient

    def experiment_id(self, name: str) -> str:
        """Return the id of an experiment, made when there is none of that name."""
        found = self.client.get_experiment_by_name(name)
        if found is None:
            artifacts = self.store.artifacts
            location = None if artifacts is None else artifacts.as_uri()
            return str(self.client.create_experiment(name, artifact_location=location, tags=_EXPERIMENT_TAGS))
        if found.lifecycle_stage == "deleted":
            self.client.restore_experiment(found.experiment_id)
        return str(found.experiment_id)


@contextmanager
def opened(tracking_uri: str | None = None) -> Iterator[OpenStore]:
    """Open a store; MLflow's global tracking and registry URIs are the store's meanwhile.

    Raises
    ------
    TrackingError
        If the store cannot be reached, read or written.
    """
    store = locate_store(tracking_uri)
    if store.artifacts is not None:
        store.artifacts.mkdir(parents=True, exist_ok=True)
    with _quiet(), _environment_kept():
        import mlflow

        try:
            mlflow.set_tracking_uri(store.uri)
            mlflow.set_registry_uri(store.uri)
            yield OpenStore(store=store, client=mlflow.MlflowClient(store.uri, store.uri))
        except (mlflow.MlflowException, OSError) as error:
            reason = str(error).splitlines()[0]
            raise TrackingError(f"{store.uri}: tracking failed ({reason}): check --tracking-uri") from error
        finally:
            mlflow.set_tracking_uri(None)
            mlflow.set_registry_uri(None)


@contextmanager
def _environment_kept() -> Iterator[None]:
    """Undo what MLflow writes into the environment: it exports the tracking URI for its subprocesses."""
    names = (URI_VARIABLE, "MLFLOW_REGISTRY_URI")
    before = {name: os.environ.get(name) for name in names}
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep MLflow's progress lines and warnings away from the terminal; its errors still show."""
    os.environ.setdefault("MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR", "false")
    os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
    os.environ.setdefault("MLFLOW_LOGGING_LEVEL", "ERROR")
    os.environ.setdefault("GIT_PYTHON_REFRESH", "quiet")
    os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", _MOST_RETRIES)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import mlflow  # noqa: F401 - it sets its loggers' levels when imported

        loggers = [logging.getLogger(name) for name in _QUIET_LOGGERS]
        levels = [logger.level for logger in loggers]
        for logger in loggers:
            logger.setLevel(logging.ERROR)
        try:
            yield
        finally:
            for logger, level in zip(loggers, levels, strict=True):
                logger.setLevel(level)
