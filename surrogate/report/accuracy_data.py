"""What the accuracy plots show, as tables; drawing is apart."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import pandas as pd

from surrogate.features.ratios import FEATURES

if TYPE_CHECKING:
    from surrogate.api import TrainResult

_SCALE_EDGES: Final = (1, 8, 16, 64, 256, 1024, 4096, np.inf)
_MOST_FEATURES: Final = 20
_LEVELS: Final = np.round(np.arange(0.1, 1.0, 0.1), 2)
_MIN_FAMILY_ROWS: Final = 5


@dataclass(frozen=True, kw_only=True, slots=True)
class AccuracyData:
    """Out-of-sample rows of the first method, and what follows from them."""

    rows: pd.DataFrame
    """run_id, source, publisher_family, accelerator, num_gpus, measured_step_time_s, step_time_s, log_error, ..."""
    by_scale: pd.DataFrame
    """Per range of accelerators: label, rows, and the 10th, 50th and 90th percentile of log error."""
    by_method: pd.DataFrame
    """Per method: mape, median_ape, source_mape."""
    by_family: pd.DataFrame
    """Per publisher family: rows, share of measured times inside the 90 % interval, mean log error; empty for methods
    without intervals."""
    importance: pd.DataFrame
    """Share of the trees' total gain per feature, the largest first."""


def accuracy_data(result: TrainResult) -> AccuracyData | None:
    """Return the tables behind the plots of a training; None when it was not evaluated."""
    if result.evaluation is None:
        return None
    predictions = result.evaluation.predictions
    first = str(predictions["method"].iloc[0])
    rows = predictions[predictions["method"] == first].reset_index(drop=True)
    scores = result.evaluation.scores
    whole = scores[scores["slice"] == "all"]
    return AccuracyData(
        rows=rows,
        by_scale=errors_by_scale(rows),
        by_method=whole[["method", "mape", "median_ape", "source_mape"]].reset_index(drop=True),
        by_family=coverage_by_family(rows),
        importance=feature_importance(result),
    )


def errors_by_scale(rows: pd.DataFrame) -> pd.DataFrame:
    """Return percentiles of log error per range of accelerators."""
    gpus = rows["num_gpus"].to_numpy(dtype=np.float64)
    labels = [
        f"{low:,.0f}" if high == low + 1 else f"{low:,.0f}+" if np.isinf(high) else f"{low:,.0f} to {high - 1:,.0f}"
        for low, high in zip(_SCALE_EDGES[:-1], _SCALE_EDGES[1:], strict=True)
    ]
    bins = np.digitize(gpus, _SCALE_EDGES) - 1
    table = []
    for position, label in enumerate(labels):
        errors = rows["log_error"].to_numpy(dtype=np.float64)[bins == position]
        if errors.size:
            p10, p50, p90 = np.quantile(errors, [0.1, 0.5, 0.9])
            table.append({"accelerators": label, "rows": errors.size, "p10": p10, "p50": p50, "p90": p90})
    return pd.DataFrame(table, columns=["accelerators", "rows", "p10", "p50", "p90"])


def coverage_by_family(rows: pd.DataFrame) -> pd.DataFrame:
    """Return interval coverage and bias of each publisher family of at least five rows, least covered first."""
    rows = rows[rows["step_time_lower_s"].notna()]
    measured = rows["measured_step_time_s"]
    inside = (measured >= rows["step_time_lower_s"]) & (measured <= rows["step_time_upper_s"])
    grouped = rows.assign(inside=inside).groupby("publisher_family", dropna=True)
    table = grouped.agg(rows=("inside", "size"), coverage=("inside", "mean"), mean_log_error=("log_error", "mean"))
    return table[table["rows"] >= _MIN_FAMILY_ROWS].sort_values("coverage").reset_index()


def feature_importance(result: TrainResult) -> pd.DataFrame:
    """Return the features' shares of the residual trees' total gain."""
    booster = result.predictor.step_time.residual_.booster_.get_booster()
    gains = booster.get_score(importance_type="total_gain")
    total = sum(gains.values()) or 1.0
    names = {f"f{position}": name for position, name in enumerate(FEATURES)}
    table = [{"feature": names.get(key, f"category {key}"), "share": gain / total} for key, gain in gains.items()]
    ordered = pd.DataFrame(table, columns=["feature", "share"]).sort_values("share", ascending=False)
    return ordered.head(_MOST_FEATURES).reset_index(drop=True)
