"""Rows of the runs table from training logs."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import pandas as pd

from surrogate.errors import RowProblem, TableError
from surrogate.files import write_text_atomically
from surrogate.ingest.log import read_log
from surrogate.ingest.numbers import is_known
from surrogate.ingest.report import LogRun, Scalar
from surrogate.plan import PartialPlan, load_partial_plan
from surrogate.schema import COLUMN_BY_NAME, INPUT_COLUMNS, REQUIRED_COLUMNS, check_runs, write_parquet
from surrogate.schema.coercion import coerce
from surrogate.schema.findings import Findings

MEASURED_COLUMNS: Final = (
    "step_time_s", "step_time_p95_s", "step_time_cv", "tokens_per_s_per_gpu", "samples_per_s",
    "achieved_flops_per_s", "mfu", "peak_memory_bytes",
)  # fmt: skip
_SLUG: Final = re.compile(r"[^A-Za-z0-9.]+")


@dataclass(frozen=True, kw_only=True, slots=True)
class IngestResult:
    """Rows and what is to be said about them.

    Attributes
    ----------
    rows : DataFrame
        One row per run, all input columns of the runs table in order, with its dtypes; NA where unknown.
    notes : tuple of str
        Per file and run: how values were derived, and why others cannot be.
    """

    rows: pd.DataFrame
    notes: tuple[str, ...]


def ingest_logs(
    paths: Iterable[str | Path],
    plan: str | Path | PartialPlan | None = None,
    source: str | None = None,
    format: str | None = None,  # noqa: A002 - the option's name
) -> IngestResult:
    """Read training logs into rows of the runs table.

    Parameters
    ----------
    paths : iterable of path
        Log files, plain or gzip.
    plan : path or PartialPlan, optional
        What is known of the configuration; wins over what the logs print, except for the batch size of step lines.
    source : str, optional
        Name of the site that the rows belong to.
    format : str, optional
        Reader to use for all files; detected when None.

    Raises
    ------
    FileFormatError
        A log or the plan cannot be read.
    InputError
        The plan holds an impossible value.
    """
    partial = load_partial_plan(plan) if isinstance(plan, str | Path) else plan
    known: dict[str, Scalar] = {}
    if partial is not None:
        known = {name: value for name, value in dict(partial.values).items() if value is not None}
    rows: list[dict[str, Scalar]] = []
    notes: list[str] = []
    for path in paths:
        report = read_log(path, format, known)
        notes += [f"{path}: {note}" for note in report.notes]
        for number, run in enumerate(report.runs, start=1):
            where = f"{path}" + (f", run {number}" if len(report.runs) > 1 else "")
            notes += [f"{where}: {text}" for text in run_remarks(run)]
            rows.append(_row(run, known, source, Path(path), number if len(report.runs) > 1 else 0))
    _make_ids_unique(rows)
    table = pd.DataFrame(rows, columns=list(INPUT_COLUMNS)) if rows else pd.DataFrame(columns=list(INPUT_COLUMNS))
    run_ids = table["run_id"].astype("string")
    return IngestResult(rows=coerce(table, Findings(run_ids=run_ids)), notes=tuple(notes))


def run_remarks(run: LogRun) -> list[str]:
    """Return the notes of a run, and the reasons for what it lacks, as sentences."""
    lacking = [f"{column} cannot be derived: {why}" for column, why in run.reasons.items()]
    return [*run.notes, *lacking]


def _row(run: LogRun, known: Mapping[str, Scalar], source: str | None, path: Path, number: int) -> dict[str, Scalar]:
    """One run as a row; what is empty is left out."""
    settings = {**run.settings, **_configured(known, run)}
    row: dict[str, Scalar] = {name: value for name, value in settings.items() if name in COLUMN_BY_NAME}
    row |= {name: value for name in MEASURED_COLUMNS if is_known(value := float(getattr(run, name)))}
    has_time = "step_time_s" in row
    row |= {
        "run_id": _slug(path, source) + (f"-{number}" if number else ""),
        "status": run.status,
        "framework": known.get("framework") or run.framework or row.get("framework", ""),
        "framework_version": run.framework_version,
        "source": source or "",
        "source_ref": path.name,
        "date": datetime.fromtimestamp(run.first_clock_s, UTC).strftime("%Y-%m") if is_known(run.first_clock_s) else "",
        "n_steps": run.n_steps if has_time and run.n_steps else "",
        "peak_memory_kind": run.peak_memory_kind,
        "notes": "; ".join(run_remarks(run)),
    }
    is_possible_mfu = is_known(run.mfu) and run.mfu <= 1.0  # programs that do not know the device print more
    return {name: value for name, value in row.items() if value != "" and (name != "mfu" or is_possible_mfu)}


def _configured(known: Mapping[str, Scalar], run: LogRun) -> dict[str, Scalar]:
    """Return the plan's columns, with the batch size that really ran."""
    values = dict(known)
    if run.settings.get("global_batch_size") != known.get("global_batch_size", run.settings.get("global_batch_size")):
        values["global_batch_size"] = run.settings["global_batch_size"]
    return values


def _slug(path: Path, source: str | None) -> str:
    """Name of a log: its file name, with the folder's when the file is only numbered."""
    stem = path.name.removesuffix(".gz").rsplit(".", 1)[0]
    parts = [source or "", path.parent.name if stem.isdigit() else "", stem]
    return _SLUG.sub("-", "-".join(part for part in parts if part)).strip("-") or "log"


def _make_ids_unique(rows: Sequence[dict[str, Scalar]]) -> None:
    seen: dict[str, int] = {}
    for row in rows:
        name = str(row["run_id"])
        seen[name] = seen.get(name, 0) + 1
        if seen[name] > 1:
            row["run_id"] = f"{name}.{seen[name]}"


def check_ingested(rows: pd.DataFrame, where: str, *, complete: bool) -> list[str]:
    """Check rows by the schema; say which required columns partial rows lack.

    Parameters
    ----------
    rows : DataFrame
        As `ingest_logs` returns.
    where : str
        What to call the table in errors.
    complete : bool
        Whether a missing required column is an error (a plan was given) or a remark.

    Raises
    ------
    TableError
        With every bad row.
    """
    problems = [problem for problem in check_runs(rows).problems if complete or not _is_gap(problem)]
    if problems:
        raise TableError(where, problems)
    lacking = [name for name in REQUIRED_COLUMNS if rows[name].isna().any()]
    return [f"rows lack {', '.join(lacking)}: a plan (--plan) supplies them"] if lacking else []


def _is_gap(problem: RowProblem) -> bool:
    """Whether a rule is broken only because something is unknown."""
    return problem.value == "nothing" or re.search(r"=(?:NA|<NA>|nan)\b", problem.value) is not None


def write_rows(rows: pd.DataFrame, path: str | Path) -> None:
    """Write rows as CSV (`.csv`) or parquet, whole or not at all.

    Raises
    ------
    surrogate.files.FileWriteError
        The file cannot be written.
    """
    if Path(path).suffix.lower() == ".csv":
        write_text_atomically(path, rows.to_csv(index=False))
    else:
        write_parquet(rows, path)


def rows_as_json(rows: pd.DataFrame) -> list[dict[str, object]]:
    """Rows as plain values, None where unknown."""
    return [{str(name): _plain(value) for name, value in record.items()} for record in rows.to_dict("records")]


def _plain(value: object) -> object:
    if value is pd.NA or value is None or (isinstance(value, float) and math.isnan(value)):
        return None
    return value.item() if hasattr(value, "item") else value
