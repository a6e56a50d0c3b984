"""Trainings and evaluations as MLflow runs: parameters, metrics, data, tables, pictures, model."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from surrogate.tracking.logged_model import RegisteredModel, log_model, register_model
from surrogate.tracking.store import opened

if TYPE_CHECKING:
    import pandas as pd
    from mlflow import MlflowClient

    from surrogate.api import TrainResult
    from surrogate.evaluation import Evaluation

TRAINING_EXPERIMENT: Final = "training"
_LONGEST_PARAMETER: Final = 500
_ROW_COLUMNS: Final = (
    "protocol", "variant", "draw", "method", "run_id", "source", "publisher_family", "accelerator", "num_gpus",
    "precision", "measured_step_time_s", "step_time_s", "step_time_lower_s", "step_time_upper_s", "relative_error",
    "log_error",
)  # fmt: skip

Artifacts = Mapping[str, str | bytes]
"""Files to log by path: text or bytes."""


@dataclass(frozen=True, kw_only=True, slots=True)
class LoggedRun:
    """Where something was tracked."""

    run_id: str
    experiment: str
    uri: str
    registered: RegisteredModel | None = None


def log_training(
    result: TrainResult,
    *,
    tracking_uri: str | None = None,
    experiment: str = TRAINING_EXPERIMENT,
    artifacts: Artifacts | None = None,
) -> LoggedRun:
    """Track a training: one run with the model, registered.

    Parameters
    ----------
    result : TrainResult
        What `api.train` gave.
    tracking_uri : str, optional
        A server or database; `MLFLOW_TRACKING_URI`, else the database in `mlruns/`.
    experiment : str
        Made when there is none of that name.
    artifacts : mapping of path to text or bytes, optional
        Further files: plots, pages.

    Raises
    ------
    TrackingError
        If the store cannot be reached, read or written.
    """
    with opened(tracking_uri) as opened_store:
        import mlflow

        client, place = opened_store.client, opened_store.experiment_id(experiment)
        description = _training_description(result)
        with mlflow.start_run(experiment_id=place, run_name=result.manifest.name, description=description) as run:
            run_id = run.info.run_id
            mlflow.set_tags(_training_tags(result))
            mlflow.log_params(_training_parameters(result))
            mlflow.log_metrics(dict(result.manifest.metrics) | {"train_seconds": result.seconds})
            log_dataset(result.runs, str(result.manifest.data["digest"]), result.manifest.data.get("files"))
            if result.evaluation is not None:
                log_evaluation_tables(client, run_id, result.evaluation)
            card = result.predictor.directory / "MODEL_CARD.md"
            log_files(client, run_id, {"MODEL_CARD.md": card.read_text(encoding="utf-8"), **(artifacts or {})})
            logged = log_model(result)
        registered = register_model(client, logged, run_id, result)
    return LoggedRun(run_id=run_id, experiment=experiment, uri=opened_store.store.uri, registered=registered)


def log_evaluation(  # noqa: PLR0913 - what one MLflow run is made of
    evaluation: Evaluation,
    runs: pd.DataFrame,
    *,
    metrics: Mapping[str, float],
    experiment: str,
    run_name: str,
    parameters: Mapping[str, object] | None = None,
    tags: Mapping[str, str] | None = None,
    description: str = "",
    artifacts: Artifacts | None = None,
    tracking_uri: str | None = None,
) -> LoggedRun:
    """Track an evaluation or one run of an experiment.

    Parameters
    ----------
    evaluation : Evaluation
        Its scores, comparisons and per-row predictions are logged as tables.
    runs : DataFrame
        The data it used, logged with its digest.
    metrics : mapping of name to figure
        For example `api.named_figures(evaluation)`.
    experiment, run_name, parameters, tags, description, artifacts, tracking_uri
        As MLflow shows them.
    """
    from surrogate.schema import table_digest

    with opened(tracking_uri) as opened_store:
        import mlflow

        client, place = opened_store.client, opened_store.experiment_id(experiment)
        with mlflow.start_run(experiment_id=place, run_name=run_name, description=description or None) as run:
            run_id = run.info.run_id
            digest = table_digest(runs)
            mlflow.set_tags({"data_digest": digest, **(tags or {})})
            mlflow.log_params({name: str(value)[:_LONGEST_PARAMETER] for name, value in (parameters or {}).items()})
            mlflow.log_metrics(dict(metrics))
            log_dataset(runs, digest, None)
            log_evaluation_tables(client, run_id, evaluation)
            log_files(client, run_id, artifacts or {})
    return LoggedRun(run_id=run_id, experiment=experiment, uri=opened_store.store.uri)


def log_dataset(runs: pd.DataFrame, digest: str, files: object) -> None:
    """Log the runs as the active run's input: name, digest and schema; the rows stay where they are."""
    import mlflow

    source = ", ".join(map(str, files)) if isinstance(files, list) else "runs"
    plain = runs[["run_id", "source", "accelerator", "num_gpus", "measured_step_time_s"]].astype(
        {"num_gpus": "float64"}
    )
    data = mlflow.data.from_pandas(plain, name=source, digest=digest[:36], targets="measured_step_time_s")
    mlflow.log_input(data, context="training")


def log_evaluation_tables(client: MlflowClient, run_id: str, evaluation: Evaluation) -> None:
    """Log scores, comparisons and per-row predictions as CSV, and the scores as a table that MLflow compares."""
    shown = [name for name in _ROW_COLUMNS if name in evaluation.predictions]
    tables = {
        "tables/predictions.csv": evaluation.predictions[shown],
        "tables/scores.csv": evaluation.scores,
        "tables/comparisons.csv": evaluation.comparisons,
    }
    log_files(client, run_id, {name: table.to_csv(index=False) for name, table in tables.items()})
    client.log_table(run_id, evaluation.to_frame().astype(object), "tables/scores.json")


def log_files(client: MlflowClient, run_id: str, files: Artifacts) -> None:
    """Log files by path."""
    with tempfile.TemporaryDirectory() as folder:
        for name, content in files.items():
            path = Path(folder) / Path(name).name
            path.write_bytes(content.encode() if isinstance(content, str) else content)
            client.log_artifact(run_id, str(path), str(Path(name).parent) if "/" in name else None)


def _training_parameters(result: TrainResult) -> dict[str, str]:
    manifest = result.manifest
    settings: dict[str, object] = {
        "split": manifest.split,
        "random_state": manifest.random_state,
        **{f"data.{name}": value for name, value in manifest.data.items()},
        **{f"step_time.{name}": value for name, value in result.predictor.step_time.get_params().items()},
        **{f"memory.{name}": value for name, value in result.predictor.memory.get_params().items()},
        **{f"version.{name}": value for name, value in manifest.libraries.items()},
    }
    return {name: str(value)[:_LONGEST_PARAMETER] for name, value in settings.items()}


def _training_tags(result: TrainResult) -> dict[str, str]:
    manifest = result.manifest
    return {
        "data_digest": str(manifest.data["digest"]),
        "model_digest": manifest.digest,
        "surrogate_version": manifest.surrogate_version,
        "commit": manifest.commit or "",
    }


def _training_description(result: TrainResult) -> str:
    data, metrics = result.manifest.data, result.manifest.metrics
    lines = [f"Trained on {data['measured']} measured runs of {data['sources']} sources."]
    if metrics:
        lines.append(f"Out of sample ({result.manifest.split}):")
        lines += [f"- {name.split('/')[1]}: MAPE {value:.1%}" for name, value in metrics.items() if is_overall(name)]
    return "\n".join(lines)


def is_overall(name: str) -> bool:
    """Return whether a figure is a method's MAPE over all rows."""
    return name.endswith("/mape") and name.count("/") == 2
