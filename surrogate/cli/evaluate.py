"""`surrogate evaluate`: how accurate the predictor is out of sample, beside baselines."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from surrogate.cli.output import print_json, progress_shown

if TYPE_CHECKING:
    from collections.abc import Callable

    import pandas as pd

    from surrogate.evaluation import Evaluation
    from surrogate.evaluation.memory_protocol import MemoryEvaluation

MEMORY: Final = "memory"

RunsArgument = Annotated[list[Path], typer.Argument(help="Runs tables (.csv, .parquet).", show_default=False)]
ProtocolOption = Annotated[
    list[str] | None,
    typer.Option("--protocol", help="random, new-layout, new-model, scale-out, new-accelerator, new-site, new-release, "
                 "time-forward, few-shot, anchored, vtrain, memory; repeatable [all that the runs can answer]."),
]  # fmt: skip
OutputOption = Annotated[
    Path | None,
    typer.Option("--output", "-o", help="CSV for the predictions, one row each; memory's when it is asked for alone."),
]
JobsOption = Annotated[int, typer.Option(help="Processes.", min=1)]
SeedOption = Annotated[int, typer.Option(help="Seed of splits, draws and methods.")]
TrackOption = Annotated[bool, typer.Option("--track/--no-track", help="Log to MLflow.")]
TrackingOption = Annotated[str | None, typer.Option(help="MLflow store [MLFLOW_TRACKING_URI, else mlruns/].")]
ExperimentOption = Annotated[str, typer.Option(help="MLflow experiment.", metavar="NAME")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def evaluate(  # noqa: PLR0913 - one parameter per option
    runs: RunsArgument,
    protocol: ProtocolOption = None,
    output: OutputOption = None,
    jobs: JobsOption = 2,
    seed: SeedOption = 0,
    track: TrackOption = True,
    tracking_uri: TrackingOption = None,
    experiment: ExperimentOption = "evaluation",
    as_json: JsonOption = False,
) -> None:
    """Measure the accuracy on runs the predictor has not seen, by several protocols and beside baselines."""
    from surrogate.api.training import load_run_files

    with progress_shown(quiet=as_json) as tell:
        table = load_run_files(runs)
        step_time = _step_time(table, protocol, tell, n_jobs=jobs, random_state=seed)
        memory = _memory(table, protocol, tell, random_state=seed)
        if output is not None:
            _write_rows(step_time, memory, output)
        if track:
            tell("logging to MLflow")
            _log(step_time, table, tracking_uri, experiment)
            _log_memory(memory, table, tracking_uri, experiment, random_state=seed)
    if as_json:
        print_json(_facts(table, step_time, memory))
        return
    from surrogate.cli.evaluation_tables import print_evaluation
    from surrogate.cli.memory_evaluation_tables import print_memory_scores

    if step_time is not None:
        print_evaluation(step_time)
    if memory is not None:
        print_memory_scores(memory)


def _step_time(
    runs: pd.DataFrame, protocols: list[str] | None, tell: Callable[[str], None], *, n_jobs: int, random_state: int
) -> Evaluation | None:
    from surrogate.evaluation import evaluate as evaluate_step_times

    wanted = None if protocols is None else [name for name in protocols if name != MEMORY]
    if wanted == []:
        return None
    return evaluate_step_times(
        runs,
        protocols=wanted,
        n_jobs=n_jobs,
        random_state=random_state,
        on_progress=lambda done, total: tell(f"step times: {done} of {total} training sets"),
    )


def _memory(
    runs: pd.DataFrame, protocols: list[str] | None, tell: Callable[[str], None], *, random_state: int
) -> MemoryEvaluation | None:
    """Return memory's scores; None where they were not asked for, or the runs hold no memory and nobody asked."""
    from surrogate.errors import InputError
    from surrogate.evaluation.memory_protocol import evaluate_memory

    if protocols is not None and MEMORY not in protocols:
        return None
    try:
        return evaluate_memory(
            runs, random_state=random_state, on_fit=lambda done, total: tell(f"memory: {done} of {total} training sets")
        )
    except InputError:
        if protocols is not None:
            raise
        return None


def _write_rows(step_time: Evaluation | None, memory: MemoryEvaluation | None, output: Path) -> None:
    from surrogate.files import write_text_atomically

    if step_time is not None:
        write_text_atomically(output, step_time.predictions.to_csv(index=False))
    elif memory is not None:
        write_text_atomically(output, memory.rows.to_csv(index=False))


def _log(evaluation: Evaluation | None, runs: pd.DataFrame, tracking_uri: str | None, experiment: str) -> None:
    if evaluation is None:
        return
    from surrogate.api.assessment import named_figures
    from surrogate.tracking import log_evaluation

    protocols = list(dict.fromkeys(evaluation.scores["protocol"]))
    log_evaluation(
        evaluation,
        runs,
        metrics=named_figures(evaluation),
        experiment=experiment,
        run_name=protocols[0] if len(protocols) == 1 else f"{len(protocols)} protocols",
        parameters={"protocols": ", ".join(protocols), "random_state": evaluation.random_state},
        tracking_uri=tracking_uri,
    )


def _log_memory(
    evaluation: MemoryEvaluation | None,
    runs: pd.DataFrame,
    tracking_uri: str | None,
    experiment: str,
    *,
    random_state: int,
) -> None:
    if evaluation is None:
        return
    from surrogate.report import memory_artifacts
    from surrogate.tracking import log_memory_evaluation

    log_memory_evaluation(
        evaluation,
        runs,
        experiment=experiment,
        parameters={"protocols": MEMORY, "random_state": random_state},
        artifacts=memory_artifacts(evaluation),
        tracking_uri=tracking_uri,
    )


def _facts(runs: pd.DataFrame, step_time: Evaluation | None, memory: MemoryEvaluation | None) -> dict[str, Any]:
    from surrogate.evaluation.evaluation import records
    from surrogate.schema import table_digest

    facts: dict[str, Any] = {"runs": len(runs), "data_digest": table_digest(runs)}
    if step_time is not None:
        facts |= step_time.to_dict()
    if memory is not None:
        facts[MEMORY] = {name: records(getattr(memory, name)) for name in ("peaks", "outcomes", "reliability")}
    return facts
