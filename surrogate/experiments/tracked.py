"""Experiments in MLflow: one run per method, metrics under the same names, so that methods compare at a glance."""

from __future__ import annotations

import math
from typing import Final

import pandas as pd

from surrogate.api.assessment import metric_key
from surrogate.evaluation import Evaluation
from surrogate.evaluation.slices import ALL_ROWS
from surrogate.experiments.markdown import question
from surrogate.report.accuracy_data import AccuracyData, coverage_by_family, errors_by_scale
from surrogate.report.accuracy_images import accuracy_images
from surrogate.tracking import log_evaluation

FIGURES: Final = (
    "mape",
    "median_ape",
    "p90_ape",
    "source_mape",
    "source_mean_abs_log_error",
    "source_mean_log_error",
    "source_coverage",
    "source_interval_score",
)

PICTURES: Final = ("plots/measured_vs_predicted.png", "plots/error_by_scale.png", "plots/coverage_by_family.png")


def track_methods(evaluation: Evaluation, runs: pd.DataFrame, *, experiment: str) -> None:
    """Log one MLflow run per method."""
    for method in dict.fromkeys(evaluation.scores["method"]):
        view = only_method(evaluation, method)
        log_evaluation(
            view,
            runs,
            metrics=method_metrics(view),
            experiment=experiment,
            run_name=method,
            parameters={"method": method, "random_state": evaluation.random_state},
            tags={"method": method},
            description=f"{method} under {', '.join(dict.fromkeys(view.scores['protocol']))}",
            artifacts=method_images(view),
        )


def only_method(evaluation: Evaluation, method: str) -> Evaluation:
    """Return the evaluation of one method, with the comparisons it takes part in."""
    compared = evaluation.comparisons

    def own(table: pd.DataFrame) -> pd.DataFrame:
        return table[table["method"] == method].reset_index(drop=True)

    return Evaluation(
        predictions=own(evaluation.predictions),
        scores=own(evaluation.scores),
        rankings=own(evaluation.rankings),
        comparisons=compared[(compared["method"] == method) | (compared["baseline"] == method)].reset_index(drop=True),
        random_state=evaluation.random_state,
    )


def method_images(view: Evaluation) -> dict[str, bytes]:
    """Return the pictures of one method: measured against predicted, error by scale, coverage by family."""
    rows = view.predictions[view.predictions["step_time_s"].notna()].reset_index(drop=True)
    if rows.empty:
        return {}
    whole = view.scores[view.scores["slice"] == ALL_ROWS]
    data = AccuracyData(
        rows=rows,
        by_scale=errors_by_scale(rows),
        by_method=whole[["method", "mape", "median_ape", "source_mape"]],
        by_family=coverage_by_family(rows),
        importance=pd.DataFrame(columns=["feature", "share"]),
    )
    shown = PICTURES if rows["step_time_lower_s"].notna().any() else PICTURES[:2]
    return {name: picture for name, picture in accuracy_images(data).items() if name in shown}


def method_metrics(view: Evaluation) -> dict[str, float]:
    """Return one method's figures as ``protocol_variant/figure``, and ``protocol_variant/slice/mape``."""
    metrics: dict[str, float] = {}
    for row in view.scores.to_dict(orient="records"):
        if row["slice"] == ALL_ROWS:
            metrics |= {f"{metric_key(question(row))}/{name}": float(row[name]) for name in FIGURES}
        else:
            metrics[f"{metric_key(question(row), row['slice'])}/mape"] = float(row["mape"])
    for row in view.rankings.to_dict(orient="records"):
        metrics |= {f"{metric_key(question(row))}/{name}": float(row[name]) for name in ("spearman", "regret")}
    return {name: value for name, value in metrics.items() if math.isfinite(value)}
