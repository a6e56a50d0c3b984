"""A traced run written for `train`: the runs table with one row, and the priors beside it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import pandas as pd

from surrogate.errors import InputError
from surrogate.files import replaced_atomically
from surrogate.plan import load_plan, plan_to_row
from surrogate.schema import write_parquet
from surrogate.traces.calibration import Prior, coefficient_priors, priors_path, run_row
from surrogate.traces.columns import Trace


class WrittenRun(NamedTuple):
    """Where the row and the priors were written, and what the priors are."""

    runs: str
    priors_file: str
    priors: dict[str, Prior]


def write_run(traces: Sequence[Trace], runs_file: Path, plan: Path | None = None) -> WrittenRun:
    """Write the run of some traces and the priors they give.

    Parameters
    ----------
    traces : sequence of Trace
        The ranks of one job.
    runs_file : Path
        Ends in ``.parquet`` or ``.csv``.
    plan : Path, optional
        What was trained, for the columns a trace does not know; without it the row is partial.

    Raises
    ------
    InputError
        When the file's ending is neither, or the plan contradicts the trace.
    FileFormatError
        When the traces hold no training step.
    """
    if runs_file.suffix not in {".parquet", ".csv"}:
        raise InputError("--to-runs", "must end in .parquet or .csv", str(runs_file))
    row = run_row(traces, plan_to_row(load_plan(plan)) if plan else None)
    priors = coefficient_priors(traces)
    table = pd.DataFrame([row])
    if runs_file.suffix == ".parquet":
        write_parquet(table, runs_file)
    else:
        with replaced_atomically(runs_file) as temporary:
            table.to_csv(temporary, index=False)
    beside = priors_path(runs_file)
    with replaced_atomically(beside) as temporary:
        temporary.write_text(json.dumps({name: prior._asdict() for name, prior in priors.items()}, indent=2) + "\n")
    return WrittenRun(str(runs_file), str(beside), priors)
