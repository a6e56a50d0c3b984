"""An evaluation of memory as an MLflow run: peak errors and verdicts, per group, beside the rule of thumb."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from surrogate.api.assessment import metric_key
from surrogate.tracking.logged_run import Artifacts, LoggedRun, log_dataset, log_files
from surrogate.tracking.store import opened

if TYPE_CHECKING:
    import pandas as pd

    from surrogate.evaluation.memory_protocol import MemoryEvaluation

RUN_NAME: Final = "memory"
MODEL: Final = "model"
NAIVE: Final = "16 bytes per parameter"
ALL_ROWS: Final = "all"
MIN_ROWS_PER_FIFTH: Final = 50
"""Fifths of risk with fewer runs say nothing about calibration."""

_PEAK_FIGURES: Final = {
    MODEL: {
        "mape": "peak_mape",
        "median_ape": "peak_median_ape",
        "p90_ape": "peak_p90_ape",
        "mean_log": "peak_mean_log_error",
        "coverage_90": "peak_coverage",
    },
    NAIVE: {"naive_mape": "peak_mape"},
}
_OUTCOME_FIGURES: Final = {
    "roc_auc": "oom_roc_auc",
    "brier": "oom_brier",
    "accuracy": "oom_accuracy",
    "accuracy_at_5_percent_risk": "oom_accuracy_at_5_percent_risk",
    "missed_at_5_percent_risk": "oom_missed_at_5_percent_risk",
}


def log_memory_evaluation(
    evaluation: MemoryEvaluation,
    runs: pd.DataFrame,
    *,
    experiment: str,
    parameters: Mapping[str, object] | None = None,
    artifacts: Artifacts | None = None,
    tracking_uri: str | None = None,
) -> LoggedRun:
    """Track an evaluation of memory: one run with figures per group, tables and plots.

    Parameters
    ----------
    evaluation : MemoryEvaluation
        Its figures become metrics, its four tables files.
    runs : DataFrame
        The data it used, logged with its digest.
    experiment, parameters, artifacts, tracking_uri
        As MLflow shows them; `surrogate.report.memory_artifacts` draws the plots.

    Raises
    ------
    TrackingError
        If the store cannot be reached, read or written.
    """
    from surrogate.schema import table_digest

    with opened(tracking_uri) as opened_store:
        import mlflow

        client, place = opened_store.client, opened_store.experiment_id(experiment)
        with mlflow.start_run(experiment_id=place, run_name=RUN_NAME, description=_description(evaluation)) as run:
            run_id, digest = run.info.run_id, table_digest(runs)
            mlflow.set_tags({"data_digest": digest})
            mlflow.log_params({name: str(value) for name, value in (parameters or {}).items()})
            mlflow.log_metrics(memory_figures(evaluation))
            log_dataset(runs, digest, None)
            names = ("rows", "peaks", "outcomes", "reliability")
            tables = {f"tables/memory_{name}.csv": getattr(evaluation, name).to_csv(index=False) for name in names}
            log_files(client, run_id, {**tables, **(artifacts or {})})
            if not evaluation.outcomes.empty:
                client.log_table(run_id, evaluation.outcomes.astype(object), "tables/memory_outcomes.json")
    return LoggedRun(run_id=run_id, experiment=experiment, uri=opened_store.store.uri)


def memory_figures(evaluation: MemoryEvaluation) -> dict[str, float]:
    """Return figures as ``memory_split/method[/slice]/figure``, each part a slug; unknown figures are left out.

    Splits are `grouped` and `leave-one-source-out`; slices are the main source, the others together, and every source.
    """
    figures = dict(_peak_figures(evaluation.peaks.to_dict(orient="records")))
    figures |= dict(_outcome_figures(evaluation.outcomes.to_dict(orient="records")))
    figures |= dict(_calibration_figures(evaluation.reliability))
    return {name: float(value) for name, value in figures.items() if value is not None and math.isfinite(value)}


def _peak_figures(records: list[dict[Any, Any]]) -> Iterator[tuple[str, float]]:
    for record in records:
        for method, names in _PEAK_FIGURES.items():
            for column, figure in names.items():
                yield _key(record, method, figure), record[column]


def _outcome_figures(records: list[dict[Any, Any]]) -> Iterator[tuple[str, float]]:
    for record in records:
        for column, figure in _OUTCOME_FIGURES.items():
            yield _key(record, str(record["method"]), figure), record[column]


def _calibration_figures(reliability: pd.DataFrame) -> Iterator[tuple[str, float]]:
    """Yield the largest gap between predicted and observed frequency over the fifths that hold enough runs."""
    if reliability.empty:
        return
    filled = reliability[reliability["rows"] >= MIN_ROWS_PER_FIFTH]
    for (protocol, part), fifths in filled.groupby(["protocol", "slice"], sort=False):
        yield _key({"protocol": protocol, "slice": part}, MODEL, "oom_largest_gap"), fifths["gap"].abs().max()


def _key(record: Mapping[Any, Any], method: str, figure: str) -> str:
    part = () if record["slice"] == ALL_ROWS else (str(record["slice"]),)
    return metric_key(f"memory {record['protocol']}", method, *part, figure)


def _description(evaluation: MemoryEvaluation) -> str:
    """Return the run's text: both methods on all rows, split by split."""
    lines = ["Memory out of sample, against the rule of 16 bytes per parameter over the GPUs.", ""]
    for record in evaluation.peaks[evaluation.peaks["slice"] == ALL_ROWS].to_dict(orient="records"):
        lines.append(
            f"- {record['protocol']}: peak off by {record['mape']:.1%} on average over {record['rows']} runs "
            f"(rule: {record['naive_mape']:.0%})"
        )
    if evaluation.outcomes.empty:
        return "\n".join(lines)
    for record in evaluation.outcomes[evaluation.outcomes["slice"] == ALL_ROWS].to_dict(orient="records"):
        lines.append(
            f"- {record['protocol']}, {record['method']}: out of memory or not, ROC AUC {record['roc_auc']:.3f}, "
            f"Brier {record['brier']:.3f}, {record['accuracy_at_5_percent_risk']:.1%} right at 5 % risk"
        )
    return "\n".join(lines)
