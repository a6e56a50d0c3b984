"""`judge`: the step time that a training log shows against the one its configuration should have."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pandas as pd

from surrogate.api.judgement import Judgement, judge
from surrogate.api.plan_files import read_plan
from surrogate.api.predictor import Predictor
from surrogate.derive import check_table
from surrogate.errors import InputError, TableError
from surrogate.plan import PartialPlan, plan_to_row, plans_to_frame
from surrogate.schema import REQUIRED_COLUMNS

_TARGET: Final = "measured_step_time_s"


@dataclass(frozen=True, kw_only=True, slots=True)
class JudgedRun:
    """One run of a log."""

    run_id: str
    run: pd.DataFrame
    """Its row, with derived columns."""
    judgement: Judgement
    notes: tuple[str, ...]
    """What reading the log had to assume."""

    def to_dict(self) -> dict[str, object]:
        """Return the judgement in plain JSON."""
        return {"run_id": self.run_id, **self.judgement.to_dict(), "notes": list(self.notes)}


def judge_log(
    log: Path, predictor: Predictor, *, plan: Path | None = None, format_name: str | None = None, reference: str = ""
) -> list[JudgedRun]:
    """Judge every run that a log shows.

    Parameters
    ----------
    log : Path
        A training log, plain or gzip.
    predictor : Predictor
        At the run's site, or anchored.
    plan : Path, optional
        What the log does not print.
    format_name : str, optional
        Reader of the log; detected when not given.
    reference : str, optional
        What normal means; said by what is known about the site when not given.

    Raises
    ------
    FileFormatError
        If the log cannot be read.
    InputError
        If log and plan together do not settle the configuration, or the log shows no steady step time.
    """
    from surrogate.ingest import ingest_logs

    known = None if plan is None else _as_partial(plan)
    read = ingest_logs([log], plan=known, format=format_name)
    runs = _complete_runs(read.rows, log)
    return [
        JudgedRun(
            run_id=str(row["run_id"].iloc[0]),
            run=row,
            judgement=judge(row, float(row[_TARGET].iloc[0]), predictor, reference=reference),
            notes=read.notes,
        )
        for row in (runs.iloc[[position]] for position in range(len(runs)))
    ]


def judge_plan(plan: Path, measured_step_time_s: float, predictor: Predictor, *, reference: str = "") -> JudgedRun:
    """Judge a step time that was measured on the configuration of a plan; errors as in `judge` and `read_plan`."""
    frame = plans_to_frame([read_plan(plan)])
    judgement = judge(frame, measured_step_time_s, predictor, reference=reference)
    return JudgedRun(run_id=str(frame["run_id"].iloc[0]), run=frame, judgement=judgement, notes=())


def _as_partial(plan: Path) -> PartialPlan:
    values = {name: value for name, value in plan_to_row(read_plan(plan)).items() if value is not None}
    values.pop("run_id", None)
    return PartialPlan(name=plan.name, values=values)


def _complete_runs(rows: pd.DataFrame, log: Path) -> pd.DataFrame:
    """Return the rows with derived columns, or say what they lack."""
    if rows.empty:
        raise InputError("LOG", "must show a training run", str(log), "see `surrogate ingest`")
    missing = [name for name in REQUIRED_COLUMNS if name not in rows or rows[name].isna().any()]
    if missing:
        way_out = "give --plan PLAN.yaml with what the log does not print"
        raise InputError(", ".join(missing), f"must be known to judge {log}", None, way_out)
    checked = check_table(rows)
    if checked.problems:
        raise TableError(str(log), checked.problems)
    timed = checked.good[checked.good[_TARGET].notna()]
    if timed.empty:
        raise InputError("LOG", "must show a steady step time", str(log), "give --measured SECONDS")
    return timed.reset_index(drop=True)
