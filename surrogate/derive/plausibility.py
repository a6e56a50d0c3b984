"""Times that no accelerator can reach: wrong units by a factor."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np
import pandas as pd

from surrogate.derive.target import FIGURES
from surrogate.errors import RowProblem
from surrogate.schema.findings import Findings

_RULE: Final = "must not need more than the accelerator's dense peak: MFU above 1, a unit wrong by a factor?"


def utilisation_problems(runs: pd.DataFrame) -> list[RowProblem]:
    """Return the rows whose time would need more than the accelerator's dense peak.

    Parameters
    ----------
    runs : DataFrame of shape (n, columns)
        With derived columns; the index tells the row's place in its table. Rows with windowed attention are
        skipped, because `model_flops_per_token` does not count the window.

    Returns
    -------
    list of RowProblem
        Named after the figure that the time comes from.
    """
    findings = Findings(run_ids=runs["run_id"])
    mfu = runs["mfu_computed"].to_numpy(dtype=np.float64)
    impossible = (mfu > 1.0) & runs["sliding_window"].isna().to_numpy()
    for kind, column in FIGURES.items():
        bad = impossible & (runs["time_from"] == kind).to_numpy(dtype=bool)
        if bad.any():
            shown = runs[column].map("{:g}".format) + " (MFU " + runs["mfu_computed"].map("{:.3g}".format) + ")"
            findings.add(column, _RULE, bad, shown)
    places = runs.index.to_numpy()
    return [replace(problem, row=int(places[problem.row - 1]) + 1) for problem in findings.problems()]
