"""Exported run histories to measured runs, by the same steady-state rule as logs."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final, cast

from surrogate.ingest.exports.history import RunHistory, read_histories
from surrogate.ingest.exports.metric_names import PERCENT, Meaning, chosen_metrics, is_evaluation, is_loss
from surrogate.ingest.numbers import is_known
from surrogate.ingest.records import Mark, MemoryKind, Settings, StepRecord
from surrogate.ingest.report import LogReport, LogRun, Scalar
from surrogate.ingest.summary import summarise_run
from surrogate.ingest.tracker import RunTracker

_LARGEST_FRACTION: Final = 1.0
_MOST_MFU_PERCENT: Final = 100.0


def read_history(path: str | Path, known: Mapping[str, Scalar] | None = None) -> LogReport:
    """Read a W&B or MLflow export: each run's steady state and what its parameters say of the configuration.

    Parameters
    ----------
    path : path
        CSV or JSON, see `read_histories`.
    known : mapping, optional
        Runs-table columns known from elsewhere (a plan): the sizes that turn a token rate into a step time.

    Returns
    -------
    LogReport
        One `LogRun` per run; a run whose metrics give no step time says so.

    Raises
    ------
    FileFormatError
        The file is no such export.
    """
    kind, histories = read_histories(path)
    runs: list[LogRun] = []
    for history in histories:
        runs += _summarised(history, kind, known or {})
    notes = () if runs else ("no metric of a known name: step time, throughput, MFU or memory",)
    return LogReport(path=str(path), format=kind, runs=tuple(runs), notes=notes)


def _summarised(history: RunHistory, kind: str, known: Mapping[str, Scalar]) -> list[LogRun]:
    metrics = chosen_metrics(dict.fromkeys(name for row in history.rows.values() for name in row))
    if not metrics:
        return []
    tracker = RunTracker()
    for event in _events(history, metrics):
        tracker.add(event)
    runs = []
    for data in tracker.finish():
        run = summarise_run(data, format_name=kind, framework="", known=known, before={})
        runs.append(replace(run, notes=(*_remarks(history, metrics), *run.notes)))
    return runs


def _remarks(history: RunHistory, metrics: Mapping[str, Meaning]) -> Iterator[str]:
    if history.name:
        yield f"run {history.name}"
    used = [f"{meaning.attribute} from {name!r}" for name, meaning in metrics.items()]
    yield "metrics used: " + ", ".join(used)
    if history.is_summary:
        yield "only last values were exported: this is one step, not a steady state"


def _events(history: RunHistory, metrics: Mapping[str, Meaning]) -> Iterator[StepRecord | Mark | Settings]:
    if history.settings:
        yield Settings(history.settings)
    percent = {name for name, meaning in metrics.items() if meaning.attribute == "mfu" and _is_percent(history, name)}
    for step in sorted(history.rows):
        row = history.rows[step]
        if any(name in row for name in metrics):
            yield _record(step, row, metrics, percent)
        if any(is_evaluation(name) for name in row):
            yield Mark("evaluation")


def _is_percent(history: RunHistory, metric: str) -> bool:
    """Tell whether a utilisation is logged as a percentage: one above 1 can only be."""
    values = sorted(row[metric] for row in history.rows.values() if metric in row)
    return bool(values) and _LARGEST_FRACTION < values[len(values) // 2] <= _MOST_MFU_PERCENT


def _record(step: int, row: Mapping[str, float], metrics: Mapping[str, Meaning], percent: set[str]) -> StepRecord:
    record = StepRecord(step=step, clock_s=row.get("_timestamp", math.nan), elapsed_s=row.get("_runtime", math.nan))
    for name, meaning in metrics.items():
        value = row.get(name, math.nan)
        value = 1.0 / value if meaning.is_inverse and is_known(value) else value
        value *= PERCENT if name in percent and meaning.factor != PERCENT else meaning.factor
        if is_known(value) and (meaning.attribute != "mfu" or value <= _LARGEST_FRACTION):
            setattr(record, meaning.attribute, value)
        if meaning.memory_kind:
            record.memory_kind = cast(MemoryKind, meaning.memory_kind)
    loss = next((name for name in row if is_loss(name)), None)
    record.loss = "" if loss is None else repr(row[loss])
    return record
