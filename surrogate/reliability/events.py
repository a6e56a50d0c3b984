"""A site's own failure log: one CSV row per failure, read strictly.

Columns: ``start_day`` (days since the watch began) or ``start`` (ISO 8601); ``component`` (see `hardware.COMPONENTS`,
or ``planned`` for stops that are no failures); optional ``node`` and ``end_day`` or ``end`` (when the node was back).
"""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import numpy as np

from surrogate.errors import FileFormatError, InputError, RowProblem, TableError
from surrogate.reliability.arrays import BoolArray, FloatArray
from surrogate.reliability.failures import component_index
from surrogate.units import HOURS_PER_DAY, SECONDS_PER_DAY

PLANNED: Final = "planned"


@dataclass(frozen=True, kw_only=True, slots=True)
class ExposureWindow:
    """How long how many nodes were watched.

    Parameters
    ----------
    days : float
        Length of the watch.
    num_nodes : int
        Nodes watched, broken or not.
    start : datetime, optional
        When the watch began; needed when the log has dates instead of day numbers.
    """

    days: float
    num_nodes: int
    start: datetime | None = None

    def __post_init__(self) -> None:
        if not self.days > 0.0:
            raise InputError("exposure", "must be longer than zero days", self.days, "give the days that were watched")
        if self.num_nodes < 1:
            raise InputError("nodes", "must be at least 1", self.num_nodes)


@dataclass(frozen=True, kw_only=True, slots=True)
class FailureLog:
    """Failures in order of time, every array of shape (m,).

    ``end_day`` is NaN where the return to service is unknown; ``node`` is empty where it is not named.
    """

    window: ExposureWindow
    start_day: FloatArray
    end_day: FloatArray
    node: tuple[str, ...]
    component: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.component)

    def component_counts(self) -> dict[str, int]:
        """Return failures per component, planned stops left out."""
        counted = Counter(self.component)
        counted.pop(PLANNED, None)
        return dict(counted)

    def failures(self) -> FailureLog:
        """Return the log without planned stops."""
        return self.take(np.array([name != PLANNED for name in self.component], dtype=bool))

    def between(self, first_day: float, last_day: float) -> FailureLog:
        """Return what started in [first_day, last_day), days counted from ``first_day``."""
        inside = self.take((self.start_day >= first_day) & (self.start_day < last_day))
        window = ExposureWindow(days=last_day - first_day, num_nodes=self.window.num_nodes)
        return FailureLog(
            window=window,
            start_day=inside.start_day - first_day,
            end_day=inside.end_day - first_day,
            node=inside.node,
            component=inside.component,
        )

    def take(self, keep: BoolArray) -> FailureLog:
        """Return the rows where ``keep`` is true."""
        rows = np.flatnonzero(keep)
        return FailureLog(
            window=self.window,
            start_day=self.start_day[rows],
            end_day=self.end_day[rows],
            node=tuple(self.node[row] for row in rows),
            component=tuple(self.component[row] for row in rows),
        )

    def mean_repair_hours(self) -> float:
        """Return the mean time out of service, NaN when no end is known."""
        out = (self.end_day - self.start_day)[np.isfinite(self.end_day)]
        return float(out.mean() * HOURS_PER_DAY) if out.size else float("nan")


def load_failure_log(path: Path, window: ExposureWindow, *, merge_overlaps: bool = False) -> FailureLog:
    """Read a failure log.

    Parameters
    ----------
    path : Path
        CSV file with a header line.
    window : ExposureWindow
        What was watched.
    merge_overlaps : bool
        Join outages of one node that overlap into one failure instead of refusing them.

    Returns
    -------
    FailureLog

    Raises
    ------
    FileFormatError
        When the file is not such a table.
    TableError
        Lists every row that is outside the window, out of order, overlapping, or unreadable.
    """
    rows = _read_rows(path)
    parse = _date_parser(window) if "start" in rows[0] else _parse_day
    columns = ("start", "end") if "start" in rows[0] else ("start_day", "end_day")
    problems: list[RowProblem] = []
    starts = [_parse(row, index, columns[0], parse, problems) for index, row in enumerate(rows)]
    ends = [_parse(row, index, columns[1], parse, problems) for index, row in enumerate(rows)]
    log = FailureLog(
        window=window,
        start_day=np.array(starts, dtype=np.float64),
        end_day=np.array(ends, dtype=np.float64),
        node=tuple((row.get("node") or "").strip() for row in rows),
        component=tuple((row.get("component") or "").strip() for row in rows),
    )
    if merge_overlaps and not problems:
        log = _merged(log)
    problems += [*_component_problems(log), *_window_problems(log), *_order_problems(log), *_overlap_problems(log)]
    if problems:
        raise TableError(str(path), sorted(problems, key=lambda problem: problem.row))
    return log


def _read_rows(path: Path) -> list[dict[str, str]]:
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise FileFormatError(f"`{path}` cannot be read as a failure log: {error}") from error
    rows = list(csv.DictReader(text.splitlines()))
    header = set(rows[0]) if rows else set()
    if "component" not in header or not header & {"start", "start_day"}:
        wanted = "columns `component` and `start` or `start_day`, and at least one row"
        raise FileFormatError(f"`{path}` is not a failure log: it must have {wanted}")
    return rows


def _parse_day(text: str) -> float:
    return float(text)


def _date_parser(window: ExposureWindow) -> Callable[[str], float]:
    if window.start is None:
        way_out = "give --exposure as START..END, or a log with day numbers in `start_day`"
        raise InputError("exposure", "must have a start date when the log has dates in `start`", window.days, way_out)
    origin = _aware(window.start)
    return lambda text: (_aware(datetime.fromisoformat(text)) - origin).total_seconds() / SECONDS_PER_DAY


def _aware(moment: datetime) -> datetime:
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _parse(
    row: Mapping[str, str], index: int, column: str, parse: Callable[[str], float], problems: list[RowProblem]
) -> float:
    text = (row.get(column) or "").strip()
    if not text and column.startswith("end"):
        return float("nan")
    try:
        return parse(text)
    except ValueError:
        problems.append(_problem(index, row.get("node") or "", column, "must be a day number or an ISO date", text))
        return float("nan")


def _problem(row: int, node: str, column: str, rule: str, value: object) -> RowProblem:
    return RowProblem(row=row + 2, run_id=node or "no node", column=column, rule=rule, value=str(value))


def _component_problems(log: FailureLog) -> list[RowProblem]:
    problems = []
    for row, name in enumerate(log.component):
        try:
            if name != PLANNED:
                component_index(name)
        except InputError as error:
            problems.append(
                _problem(int(row), log.node[row], "component", f"{error.rule} ({error.way_out})", repr(name))
            )
    return problems


def _window_problems(log: FailureLog) -> list[RowProblem]:
    outside = (log.start_day < 0.0) | (log.start_day > log.window.days)
    rule = f"must lie inside the exposure window of {log.window.days:g} days"
    found = [
        _problem(int(row), log.node[row], "start", rule, f"day {log.start_day[row]:g}")
        for row in np.flatnonzero(outside)
    ]
    backwards = np.flatnonzero(log.end_day < log.start_day)
    return found + [
        _problem(int(row), log.node[row], "end", "must not lie before the start", log.end_day[row]) for row in backwards
    ]


def _order_problems(log: FailureLog) -> list[RowProblem]:
    rule = "must not lie before the row above: sort the log by time"
    late = np.flatnonzero(np.diff(log.start_day) < 0.0) + 1
    return [_problem(int(row), log.node[row], "start", rule, f"day {log.start_day[row]:g}") for row in late]


def _overlap_problems(log: FailureLog) -> list[RowProblem]:
    rule = "must not lie inside an earlier outage of the same node: merge them (--merge-overlaps)"
    back_in_service: dict[str, float] = {}
    problems = []
    for row, node in enumerate(log.node):
        if node and log.start_day[row] < back_in_service.get(node, -np.inf):
            problems.append(_problem(row, node, "start", rule, f"day {log.start_day[row]:g}"))
        if node and np.isfinite(log.end_day[row]):
            back_in_service[node] = max(back_in_service.get(node, -np.inf), log.end_day[row])
    return problems


def _merged(log: FailureLog) -> FailureLog:
    """Return the log with an outage that starts inside an earlier one of its node joined to that one."""
    end = log.end_day.copy()
    keep = np.ones(len(log), dtype=bool)
    last: dict[str, int] = {}
    for row, node in enumerate(log.node):
        before = last.get(node) if node else None
        if before is not None and log.start_day[row] < end[before]:
            keep[row] = False
            end[before] = np.fmax(end[before], log.end_day[row])
        else:
            last[node] = row
    merged = FailureLog(window=log.window, start_day=log.start_day, end_day=end, node=log.node, component=log.component)
    return merged.take(keep)
