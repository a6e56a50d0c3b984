"""How accurate a training is on rows it has not seen: the random protocol, baselines beside it."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

import pandas as pd

from surrogate.errors import InputError

if TYPE_CHECKING:
    from surrogate.evaluation import Evaluation

PROTOCOL: Final = "random"
SPLIT: Final = "5 folds by split_group, random"
SELECTION_FIGURE: Final = f"{PROTOCOL}/hybrid/mean_abs_log_error"
"""By this figure one training is better than another on the same data."""
FIGURES: Final = (
    "mape",
    "median_ape",
    "p90_ape",
    "mean_abs_log_error",
    "mean_log_error",
    "source_mape",
    "source_mean_abs_log_error",
    "coverage",
    "source_coverage",
    "interval_score",
)
RANKING_FIGURES: Final = ("spearman", "regret")


def assess(runs: pd.DataFrame, *, random_state: int, n_jobs: int, progress: Callable[[str], None]) -> Evaluation | None:
    """Cross-validate hybrid and baselines by the random protocol; None where the table is too small to split."""
    from surrogate.evaluation import evaluate

    def on_progress(done: int, total: int) -> None:
        progress(f"cross-validating with baselines, {done} of {total} folds")

    progress("cross-validating with baselines")
    try:
        return evaluate(runs, protocols=[PROTOCOL], random_state=random_state, n_jobs=n_jobs, on_progress=on_progress)
    except InputError as error:
        if error.field not in ("runs", "protocol"):
            raise
        return None


def named_figures(evaluation: Evaluation) -> dict[str, float]:
    """Return figures as ``protocol/method[/slice]/figure``, each part a slug; unknown figures are left out.

    Every method has the figures of all rows; slices are the first method's.
    """
    from surrogate.evaluation.slices import ALL_ROWS

    named: dict[str, float] = {}
    first = str(evaluation.scores["method"].iloc[0])
    for record in evaluation.scores.to_dict(orient="records"):
        part = str(record["slice"])
        if part == ALL_ROWS:
            key = metric_key(_question(record), str(record["method"]))
        elif record["method"] == first:
            key = metric_key(_question(record), first, part)
        else:
            continue
        named |= {f"{key}/{figure}": float(record[figure]) for figure in FIGURES}
    for record in evaluation.rankings.to_dict(orient="records"):
        key = metric_key(_question(record), str(record["method"]))
        named |= {f"{key}/{figure}": float(record[figure]) for figure in RANKING_FIGURES}
    return {name: value for name, value in named.items() if math.isfinite(value)}


def metric_key(*parts: str) -> str:
    """Return names as one key that MLflow takes and that parts at its slashes only.

    Examples
    --------
    >>> metric_key("random", "XGBoost on log(time/roofline)", ">= 1,024 accelerators")
    'random/xgboost_on_log_time_roofline/from_1024_accelerators'
    """
    plain = (part.lower().replace(">=", "from").replace(",", "") for part in parts)
    return "/".join(re.sub(r"[^a-z0-9\-]+", "_", part).strip("_") for part in plain)


def _question(record: Mapping[Any, Any]) -> str:
    return f"{record['protocol']} {record['variant']}".strip()
