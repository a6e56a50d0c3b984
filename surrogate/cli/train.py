"""`surrogate train`: measured runs to a predictor, its accuracy and a tracked run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from surrogate.cli.output import percent, print_json, progress_shown

if TYPE_CHECKING:
    import pandas as pd

    from surrogate.api import TrainResult
    from surrogate.tracking import LoggedRun

RunsArgument = Annotated[list[Path], typer.Argument(help="Runs tables (.csv, .parquet): shipped runs, your own.")]
ModelDirOption = Annotated[Path, typer.Option(help="Where to write the predictor.")]
ExperimentOption = Annotated[str, typer.Option(help="MLflow experiment.", metavar="NAME")]
TrackingOption = Annotated[str | None, typer.Option(help="MLflow store [MLFLOW_TRACKING_URI, else mlruns/].")]
EvaluateOption = Annotated[bool, typer.Option("--evaluate/--no-evaluate", help="Cross-validate, with baselines.")]
TrackOption = Annotated[bool, typer.Option("--track/--no-track", help="Log to MLflow.")]
JobsOption = Annotated[int, typer.Option(help="Processes that cross-validate.", min=1)]
SeedOption = Annotated[int, typer.Option(help="Seed of everything random.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def train(  # noqa: PLR0913 - one parameter per option
    runs: RunsArgument,
    model_dir: ModelDirOption = Path("model"),
    experiment: ExperimentOption = "training",
    tracking_uri: TrackingOption = None,
    evaluate: EvaluateOption = True,
    track: TrackOption = True,
    jobs: JobsOption = 2,
    seed: SeedOption = 0,
    as_json: JsonOption = False,
) -> None:
    """Train the predictor on measured runs, measure its accuracy on held-out ones, and track both in MLflow."""
    from surrogate import api

    with progress_shown(quiet=as_json) as tell:
        result = api.train(runs, model_dir, evaluate=evaluate, random_state=seed, n_jobs=jobs, progress=tell)
        logged = None
        if track:
            tell("logging to MLflow")
            logged = _log(result, tracking_uri, experiment)
    if as_json:
        print_json(_facts(result, logged))
    else:
        _print_result(result, logged)


def _log(result: TrainResult, tracking_uri: str | None, experiment: str) -> LoggedRun:
    from surrogate.report import accuracy_artifacts
    from surrogate.tracking import log_training

    artifacts = accuracy_artifacts(result)
    return log_training(result, tracking_uri=tracking_uri, experiment=experiment, artifacts=artifacts)


def _facts(result: TrainResult, logged: LoggedRun | None) -> dict[str, object]:
    tracked = None
    if logged is not None:
        tracked = {"run_id": logged.run_id, "experiment": logged.experiment, "uri": logged.uri}
        if logged.registered is not None:
            tracked |= logged.registered._asdict()
    return {
        "model": result.manifest.name,
        "model_dir": str(result.predictor.directory),
        "data": result.manifest.data,
        "split": result.manifest.split,
        "metrics": result.manifest.metrics,
        "seconds": result.seconds,
        "tracked": tracked,
    }


def _print_result(result: TrainResult, logged: LoggedRun | None) -> None:
    from surrogate.cli.output import console, plain_table

    screen, data = console(), result.manifest.data
    screen.print(
        f"trained on {data['measured']} measured runs and {data['out_of_memory']} that ran out of memory, of "
        f"{data['sources']} sources, in {result.seconds:.0f} s"
    )
    if result.evaluation is None:
        screen.print("accuracy: not evaluated")
    else:
        scores = result.evaluation.scores
        screen.print(plain_table(*_accuracy_table(scores), title=f"out of sample: {result.manifest.split}"))
        screen.print(plain_table(*_slice_table(scores)))
    screen.print(f"predictor: {result.manifest.name} in {result.predictor.directory}", markup=False)
    if logged is not None:
        screen.print(f"MLflow: run {logged.run_id} of experiment {logged.experiment} in {logged.uri}", markup=False)
        if logged.registered is not None:
            champion = ", the champion" if logged.registered.is_champion else ""
            screen.print(f"registered: {logged.registered.name} version {logged.registered.version}{champion}")


def _accuracy_table(scores: pd.DataFrame) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    header = ("method", "MAPE", "median", "P90", "mean |log|", "MAPE by source", "coverage 90 %")
    names = ["mape", "median_ape", "p90_ape", "mean_abs_log_error", "source_mape", "coverage"]
    whole = scores[scores["slice"] == "all"]
    return header, _rows_of(whole, "method", names)


def _slice_table(scores: pd.DataFrame) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    method = scores["method"].iloc[0]
    header = (f"{method} on", "MAPE", "median", "MAPE by source", "coverage 90 %")
    parts = scores[(scores["method"] == method) & (scores["slice"] != "all")]
    return header, _rows_of(parts, "slice", ["mape", "median_ape", "source_mape", "coverage"])


def _rows_of(scores: pd.DataFrame, label: str, names: list[str]) -> list[tuple[str, ...]]:
    figures = scores[names].to_numpy(dtype=float).tolist()
    cells = [["-" if value != value else percent(value) for value in row] for row in figures]
    return [(str(name), *row) for name, row in zip(scores[label], cells, strict=True)]
