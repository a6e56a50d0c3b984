"""Searches as MLflow runs: one for the study, with its pictures and how the best came about, one per best candidate."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, Protocol

from surrogate.tracking.logged_run import Artifacts, LoggedRun, log_files
from surrogate.tracking.store import OpenStore, opened
from surrogate.units import GIB, MILLI

if TYPE_CHECKING:
    import pandas as pd

EXPERIMENT: Final = "search"
MOST_CANDIDATES: Final = 20
"""Runs that one study makes at most, beside its own: a front may have hundreds of members."""
_LONGEST_PARAMETER: Final = 500
_FIRST_FIGURE: Final = "step_time_s"
"""Columns before it describe a candidate; it and those after are predicted."""
_PARENT_TAG: Final = "mlflow.parentRunId"
_NOTE_TAG: Final = "mlflow.note.content"
_TABLE_ROWS: Final = 10
_MOST_POINTS: Final = 1000
"""Metrics that MLflow takes at once."""


class StudyResult(Protocol):
    """What a search must offer; see `surrogate.search.SearchResult`."""

    @property
    def best(self) -> pd.DataFrame:
        """The best candidates: what tells them apart, then predictions from `step_time_s` on."""
        ...

    @property
    def near_misses(self) -> pd.DataFrame:
        """Candidates that do not fit."""
        ...

    @property
    def evaluated(self) -> int:
        """Candidates considered."""
        ...

    @property
    def exhaustive(self) -> bool:
        """Whether the first is proved to be the optimum."""
        ...

    @property
    def interrupted(self) -> bool:
        """Whether the search was stopped from the keyboard."""
        ...

    @property
    def study(self) -> Any:
        """The Optuna study."""
        ...

    def table(self) -> pd.DataFrame:
        """Return the best candidates as plain columns."""
        ...

    def figures(self) -> dict[str, str]:
        """Return pages about the study by file name."""
        ...

    def history(self) -> dict[str, list[tuple[int, float]]]:
        """Return the best value of each objective after each trial."""
        ...


def log_study(
    result: StudyResult,
    *,
    tracking_uri: str | None = None,
    settings: Mapping[str, object] | None = None,
) -> LoggedRun:
    """Track a study: its settings, history, pictures and best candidates, each of these as a run of its own beneath it.

    Parameters
    ----------
    result : StudyResult
        What `surrogate.search.search` gave, with a study.
    tracking_uri : str, optional
        A server or database; `MLFLOW_TRACKING_URI`, else the database in `mlruns/`.
    settings : mapping, optional
        What was asked, shown as parameters.

    Raises
    ------
    TrackingError
        If the store cannot be reached, read or written.
    """
    objectives = list(result.history())
    name = f"{result.study.study_name}, {', '.join(objectives)}"
    with opened(tracking_uri) as store:
        experiment = store.experiment_id(EXPERIMENT)
        run = store.client.create_run(experiment, run_name=name, tags={_NOTE_TAG: _description(result)})
        run_id = str(run.info.run_id)
        outcome = {"exhaustive": result.exhaustive, "interrupted": result.interrupted}
        figures = {"evaluated": float(result.evaluated), "trials": float(len(result.study.trials))}
        predicted = _predicted(result.best.iloc[0]) if len(result.best) else {}
        _log_figures(store, run_id, {**figures, **predicted}, {**(settings or {}), **outcome})
        _log_history(store, run_id, result.history())
        log_files(store.client, run_id, _files(result))
        _log_candidates(store, experiment, run_id, result.best.head(MOST_CANDIDATES))
        store.client.set_terminated(run_id)
    return LoggedRun(run_id=run_id, experiment=EXPERIMENT, uri=store.store.uri)


def _description(result: StudyResult) -> str:
    """Return what was found in Markdown, the best in its first line: MLflow shows that much unasked."""
    considered = "considered, so the first is the optimum" if result.exhaustive else "tried by Optuna"
    how = f"{result.evaluated:,} layouts were {considered}{' (interrupted)' if result.interrupted else ''}."
    if not len(result.best):
        return f"None fits in memory. {how}"
    shown = result.best.head(_TABLE_ROWS)
    first, differing = shown.iloc[0], _differing(shown)
    common = {name: value for name, value in _layout(first).items() if name not in differing}
    rows = [_row(place, row, differing) for place, (_, row) in enumerate(shown.iterrows(), start=1)]
    lines = [
        f"**{first[_FIRST_FIGURE]:.3g} s** a step with {_words(_layout(first))}. {how}",
        "",
        f"| {' | '.join(rows[0])} |",
        "|" + " ---: |" * len(rows[0]),
        *(f"| {' | '.join(row.values())} |" for row in rows),
        "",
        f"All: {_words(common)}." if common else "",
    ]
    if first.get("why"):
        lines += ["", f"1 beats 2 with probability {first['probability_faster']:.0%}: {first['why']}."]
    return "\n".join(lines)


def _row(place: int, candidate: pd.Series, columns: list[str]) -> dict[str, str]:
    """Return one row of the table, by header."""
    return {
        "": str(place),
        **{name: str(candidate[name]) for name in columns},
        "step, s": f"{candidate[_FIRST_FIGURE]:.3g}",
        "90 %": f"{candidate['step_time_lower_s']:.3g} to {candidate['step_time_upper_s']:.3g}",
        "tokens/s/GPU": f"{candidate['tokens_per_s_per_gpu']:,.0f}",
        "memory, GiB": f"{candidate['peak_memory_bytes'] / GIB:.1f}",
        "OOM risk": f"{candidate['oom_probability']:.1%}",
    }


def _differing(candidates: pd.DataFrame) -> list[str]:
    """Return the described columns in which candidates differ."""
    described = list(map(str, candidates.columns))
    described = described[: described.index(_FIRST_FIGURE)]
    return [name for name in described if len(set(candidates[name].astype(str))) > 1]


def _words(layout: Mapping[str, object]) -> str:
    return " ".join(f"{name}={value}" for name, value in layout.items())


def _files(result: StudyResult) -> Artifacts:
    pages = {f"figures/{name}": page for name, page in result.figures().items()}
    tables = {"best.csv": result.table(), "near_misses.csv": result.near_misses}
    return {**pages, **{name: table.to_csv(index=False) for name, table in tables.items() if len(table)}}


def _log_candidates(store: OpenStore, experiment: str, parent: str, best: pd.DataFrame) -> None:
    """Log the best candidates as runs beneath their study, the first last: MLflow lists the latest first."""
    differing = _differing(best) if len(best) else []
    for place, (_, candidate) in reversed(list(enumerate(best.iterrows(), start=1))):
        layout = _layout(candidate)
        apart = {name: value for name, value in layout.items() if name in differing} or layout
        name = f"{place}. {_words(apart)}"[:_LONGEST_PARAMETER]
        run = store.client.create_run(experiment, run_name=name, tags={_PARENT_TAG: parent})
        told = {column: candidate[column] for column in ("bottleneck", "why") if candidate.get(column)}
        _log_figures(store, run.info.run_id, {"rank": float(place), **_predicted(candidate)}, {**layout, **told})
        store.client.set_terminated(run.info.run_id)


def _log_figures(store: OpenStore, run_id: str, figures: Mapping[str, float], parameters: Mapping[str, object]) -> None:
    from mlflow.entities import Metric, Param

    now = _now_ms()
    store.client.log_batch(
        run_id,
        metrics=[Metric(name, value, now, 0) for name, value in figures.items() if math.isfinite(value)],
        params=[Param(name, str(value)[:_LONGEST_PARAMETER]) for name, value in parameters.items()],
    )


def _log_history(store: OpenStore, run_id: str, history: Mapping[str, list[tuple[int, float]]]) -> None:
    """Log each objective's best value by trial, so that MLflow draws it and compares studies."""
    from mlflow.entities import Metric

    now = _now_ms()
    points = [Metric(f"best_{name}", value, now, trial) for name, values in history.items() for trial, value in values]
    for start in range(0, len(points), _MOST_POINTS):
        store.client.log_batch(run_id, metrics=points[start : start + _MOST_POINTS])


def _now_ms() -> int:
    return round(time.time() / MILLI)


def _layout(candidate: pd.Series) -> dict[str, object]:
    columns = [str(name) for name in candidate.index]
    described = columns[: columns.index(_FIRST_FIGURE)]
    return {name: candidate[name] for name in described if str(candidate[name]) not in ("<NA>", "nan", "None")}


def _predicted(candidate: pd.Series) -> dict[str, float]:
    columns = [str(name) for name in candidate.index]
    return dict(_numbers(candidate, columns[columns.index(_FIRST_FIGURE) :]))


def _numbers(candidate: pd.Series, columns: list[str]) -> Iterator[tuple[str, float]]:
    for name in columns:
        value = candidate[name]
        if isinstance(value, int | float) and math.isfinite(value):
            yield name, float(value)
