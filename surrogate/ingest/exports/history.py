"""Run histories exported from W&B or MLflow, as CSV or JSON of any of their shapes, to rows per run."""

from __future__ import annotations

import csv
import gzip
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from surrogate.errors import FileFormatError
from surrogate.ingest.configs.scalars import as_float, as_text
from surrogate.ingest.exports.metric_names import meaning_of, step_column
from surrogate.units import MILLI

_MAX_BYTES: Final = 500_000_000
_MAX_ROWS: Final = 5_000_000
_MOST_STEPS: Final = 10**15
_CHART_COLUMN: Final = re.compile(r"(.+) - (.+?)(__MIN|__MAX)?")
_LONG_KEYS: Final = ("key", "metric", "metric_name", "name")
_LONG_RUNS: Final = ("run_id", "run", "run_uuid", "run_name", "Run")
_MS_SINCE_1970: Final = 1e11  # a time stamp above this is in milliseconds: 1e11 s would be the year 5138

Record = Mapping[str, object]


@dataclass(slots=True)
class RunHistory:
    """What one run logged.

    Parameters
    ----------
    name : str
        Run name or id; may be empty.
    rows : dict of int to dict
        Step to metric values. Time stamps are under ``_timestamp`` (seconds), running time under ``_runtime``.
    settings : dict of str to str
        Parameters or configuration of the run.
    is_summary : bool
        Only the last value of each metric is known.
    """

    name: str
    rows: dict[int, dict[str, float]] = field(default_factory=dict)
    settings: dict[str, str] = field(default_factory=dict)
    is_summary: bool = False

    def put(self, step: int, metric: str, value: float | None) -> None:
        """Take a value of a step; None says nothing."""
        if value is not None:
            self.rows.setdefault(step, {})[metric] = value


def read_histories(path: str | Path) -> tuple[str, list[RunHistory]]:
    """Return the tracker's name (``wandb`` or ``mlflow``) and the runs of an exported history.

    Parameters
    ----------
    path : path
        W&B: ``run.history()`` as CSV or JSON (list, lines), a chart's CSV. MLflow: metric histories as CSV (key, value,
        step, timestamp) or JSON, a run's JSON, ``search_runs`` as CSV. May be gzipped.

    Raises
    ------
    FileFormatError
        The file cannot be read or is no such export.
    """
    text = read_text(Path(path), _MAX_BYTES)
    records = _json_records(text)
    if records is None:
        records = _csv_records(text)
    if not records:
        raise FileFormatError(f"{path}: neither JSON nor CSV with a header and rows")
    kind, runs = _interpreted(records)
    if not any(run.rows for run in runs):
        raise FileFormatError(f"{path}: no metric with a step in it; is it a W&B or MLflow history?")
    return kind, [run for run in runs if run.rows]


def read_text(path: Path, most_bytes: int) -> str:
    """Return a file's text, gunzipped where needed.

    Raises
    ------
    FileFormatError
        It cannot be read or is larger than `most_bytes`.
    """
    try:
        with path.open("rb") as file:
            is_gzip = file.read(2) == b"\x1f\x8b"
        with gzip.open(path, "rb") if is_gzip else path.open("rb") as stream:
            data = stream.read(most_bytes + 1)
    except (OSError, EOFError, ValueError) as error:
        raise FileFormatError(f"{path}: cannot be read ({error})") from error
    if len(data) > most_bytes:
        raise FileFormatError(f"{path}: larger than {most_bytes} bytes")
    return data.decode("utf-8", errors="replace").removeprefix("\ufeff")


def _json_records(text: str) -> list[Record] | None:
    if not text.lstrip().startswith(("{", "[")):
        return None
    try:
        loaded = json.loads(text)
    except RecursionError:
        return None
    except ValueError:
        return _json_lines(text)
    if isinstance(loaded, dict):
        loaded = _unwrapped(loaded)
    items = loaded if isinstance(loaded, list) else [loaded]
    return [item for item in items if isinstance(item, dict)]


def _json_lines(text: str) -> list[Record]:
    records: list[Record] = []
    for line in text.splitlines()[:_MAX_ROWS]:
        try:
            item = json.loads(line) if line.lstrip().startswith("{") else None
        except (ValueError, RecursionError):
            continue
        if isinstance(item, dict):
            records.append(item)
    return records


def _unwrapped(loaded: dict[str, object]) -> object:
    """Return the records inside `{"metrics": [...]}`, `{"history": [...]}`, a columns-wise table, or the run itself."""
    for key in ("history", "rows", "metrics", "data"):
        if isinstance(loaded.get(key), list):
            return loaded[key]
    columns = {key: value for key, value in loaded.items() if isinstance(value, list | dict) and value}
    lists = [value for value in columns.values() if isinstance(value, list)]
    if lists and len(lists) == len(loaded) and len({len(value) for value in lists}) == 1:
        return [dict(zip(columns, row, strict=True)) for row in zip(*lists, strict=True)]
    if columns and len(columns) == len(loaded) and all(_is_indexed(value) for value in columns.values()):
        return _from_indexed(columns)
    return [loaded]


def _is_indexed(value: object) -> bool:
    return isinstance(value, dict) and all(str(key).lstrip("-").isdecimal() for key in list(value)[:5])


def _from_indexed(columns: Mapping[str, object]) -> list[Record]:
    rows: dict[str, dict[str, object]] = {}
    for name, cells in columns.items():
        for index, value in cells.items() if isinstance(cells, dict) else ():
            rows.setdefault(str(index), {})[name] = value
    return list(rows.values())


def _csv_records(text: str) -> list[Record]:
    lines = [line for line in text.replace("\0", "").splitlines() if line.strip()][: _MAX_ROWS + 1]
    if len(lines) < 2:
        return []
    delimiter = max(",;\t", key=lines[0].count)
    try:
        return [
            {key: value for key, value in row.items() if isinstance(key, str) and isinstance(value, str)}
            for row in csv.DictReader(lines, delimiter=delimiter)
        ]
    except csv.Error:
        return []


def _interpreted(records: Sequence[Record]) -> tuple[str, list[RunHistory]]:
    first = records[0]
    if isinstance(first.get("data"), dict) and isinstance(first.get("info"), dict):
        return "mlflow", [_mlflow_run(record) for record in records]
    if isinstance(first.get("run"), dict):
        inner = [record["run"] for record in records]
        return "mlflow", [_mlflow_run(run) for run in inner if isinstance(run, dict)]
    if any(key.startswith("metrics.") for key in first):
        return "mlflow", [_searched_run(record) for record in records]
    key = next((name for name in _LONG_KEYS if name in first), None)
    if key and "value" in first:
        return "mlflow", _long_runs(records, key)
    if _is_chart(first):
        return "wandb", _chart_runs(records)
    return "wandb", [_wide_run(records)]


def _wide_run(records: Sequence[Record]) -> RunHistory:
    run = RunHistory("")
    counter = step_column(dict.fromkeys(name for record in records[:1000] for name in record))
    step = 0
    for index, record in enumerate(records):
        step = _step_of(record, counter, step if counter else index)
        for name, value in record.items():
            if name != counter:
                run.put(step, _clock_name(name), _clock_value(name, as_float(value)))
    return run


def _step_of(record: Record, counter: str | None, otherwise: int) -> int:
    """Return a row's step; a row without the counter belongs to the step before."""
    step = as_float(record.get(counter)) if counter else None
    return int(step) if step is not None and abs(step) < _MOST_STEPS else otherwise


def _clock_name(name: str) -> str:
    return {"timestamp": "_timestamp", "runtime": "_runtime", "Relative Time (Process)": "_runtime"}.get(name, name)


def _clock_value(name: str, value: float | None) -> float | None:
    if value is not None and _clock_name(name) == "_timestamp" and value > _MS_SINCE_1970:
        return value * MILLI
    return value


def _is_chart(first: Record) -> bool:
    parts = [_CHART_COLUMN.fullmatch(name) for name in first]
    return any(part and meaning_of(part.group(2)) for part in parts)


def _chart_runs(records: Sequence[Record]) -> list[RunHistory]:
    runs: dict[str, RunHistory] = {}
    counter = step_column(records[0])
    for index, record in enumerate(records):
        step = _step_of(record, counter, index)
        for column, value in record.items():
            part = _CHART_COLUMN.fullmatch(column)
            if part is None or part.group(3):
                continue
            run = runs.setdefault(part.group(1), RunHistory(part.group(1)))
            run.put(step, part.group(2), as_float(value))
    return list(runs.values())


def _long_runs(records: Sequence[Record], key: str) -> list[RunHistory]:
    runs: dict[str, RunHistory] = {}
    label = next((name for name in _LONG_RUNS if name in records[0] and name != key), None)
    for index, record in enumerate(records):
        name = as_text(record.get(label)) or "" if label else ""
        _put_metric(runs.setdefault(name, RunHistory(name)), record, key, index)
    return list(runs.values())


def _put_metric(run: RunHistory, record: Record, key: str, index: int) -> None:
    metric = as_text(record.get(key))
    if metric is None:
        return
    number = _step_of(record, "step", index)
    run.put(number, metric, as_float(record.get("value")))
    run.put(number, "_timestamp", _clock_value("timestamp", as_float(record.get("timestamp"))))


def _mlflow_run(record: Record) -> RunHistory:
    info, data = record.get("info"), record.get("data")
    name = (as_text(info.get("run_name")) or as_text(info.get("run_id"))) if isinstance(info, dict) else None
    run = RunHistory(name or "", is_summary=True)
    if not isinstance(data, dict):
        return run
    for index, metric in enumerate(_named(data.get("metrics"))):
        _put_metric(run, metric, "key", index)
    run.settings = {str(item.get("key")): str(item.get("value")) for item in _named(data.get("params"))}
    run.is_summary = len(run.rows) <= 1
    return run


def _named(entries: object) -> Iterable[Record]:
    """Return `[{"key":..., "value":...}]` also from `{"key": value}`."""
    if isinstance(entries, dict):
        return [{"key": key, "value": value} for key, value in entries.items()]
    return [entry for entry in entries if isinstance(entry, dict)] if isinstance(entries, list) else []


def _searched_run(record: Record) -> RunHistory:
    name = as_text(record.get("tags.mlflow.runName")) or as_text(record.get("run_id")) or ""
    run = RunHistory(name, is_summary=True)
    for column, value in record.items():
        section, _dot, key = column.partition(".")
        text = as_text(value)
        if section == "metrics":
            run.put(0, key, as_float(value))
        elif section == "params" and text is not None:
            run.settings[key] = text
    return run
