"""Searches as MLflow runs: what was searched, how far, and the best candidates."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final, Protocol

from surrogate.tracking.logged_run import LoggedRun, log_files
from surrogate.tracking.store import opened

if TYPE_CHECKING:
    import pandas as pd

EXPERIMENT: Final = "search"
_FIGURES: Final = ("step_time_s", "tokens_per_s_per_gpu", "peak_memory_bytes", "oom_probability")


class StudyResult(Protocol):
    """What a search must offer; see `surrogate.search.SearchResult`."""

    best: pd.DataFrame
    evaluated: int
    exhaustive: bool
    study: Any

    def table(self) -> pd.DataFrame:
        """Return the best candidates as plain columns."""
        ...


def log_study(result: StudyResult, *, tracking_uri: str | None = None) -> LoggedRun:
    """Track a study: figures of its best candidate, its settings, and the candidates as a table.

    Raises
    ------
    TrackingError
        If the store cannot be reached, read or written.
    """
    best: dict[Any, Any] = result.best.iloc[0].to_dict() if len(result.best) else {}
    figures = {name: float(best[name]) for name in _FIGURES if name in best and math.isfinite(best[name])}
    name = str(result.study.study_name)
    with opened(tracking_uri) as store:
        run = store.client.create_run(store.experiment_id(EXPERIMENT), run_name=name)
        run_id = run.info.run_id
        for figure, value in {**figures, "evaluated": float(result.evaluated)}.items():
            store.client.log_metric(run_id, figure, value)
        settings = {
            "study": name,
            "exhaustive": result.exhaustive,
            "sampler": type(result.study.sampler).__name__,
            "trials": len(result.study.trials),
            **{column: value for column, value in best.items() if isinstance(value, int | str | bool)},
        }
        for setting, chosen in settings.items():
            store.client.log_param(run_id, setting, str(chosen)[:500])
        log_files(store.client, run_id, {"best.csv": result.table().to_csv(index=False)})
        store.client.set_terminated(run_id)
    return LoggedRun(run_id=run_id, experiment=EXPERIMENT, uri=store.store.uri)
