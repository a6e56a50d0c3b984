"""Bad cells collected column by column, turned into row problems at the end."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from surrogate.errors import RowProblem
from surrogate.schema.columns import COLUMNS

_COLUMN_ORDER: Final = {column.name: position for position, column in enumerate(COLUMNS)}
HEADER: Final = "header"


@dataclass(kw_only=True, slots=True)
class Findings:
    """Every broken rule of one table.

    Parameters
    ----------
    run_ids : Series of shape (n,)
        Names of the rows, for the messages.
    """

    run_ids: pd.Series
    _bad_rows: list[NDArray[np.int64]] = field(default_factory=list)
    _problems: list[RowProblem] = field(default_factory=list)

    def add(self, column: str, rule: str, bad: NDArray[np.bool_], values: pd.Series) -> None:
        """Record that `column` breaks `rule` in the rows where `bad` is true.

        Parameters
        ----------
        column : str
            Name as the user wrote it.
        rule : str
            What must hold, as the end of a sentence.
        bad : array of bool, shape (n,)
            Rows that break it.
        values : Series of shape (n,)
            What was given; only the bad rows are read.
        """
        rows = np.flatnonzero(bad)
        if not rows.size:
            return
        shown = values.iloc[rows].tolist()
        names = self.run_ids.iloc[rows].tolist()
        self._bad_rows.append(rows)
        self._problems.extend(
            RowProblem(row=int(row) + 1, run_id=str(name), column=column, rule=rule, value=_shown(value))
            for row, name, value in zip(rows, names, shown, strict=True)
        )

    def add_header(self, column: str, rule: str) -> None:
        """Record a problem of the table itself: a column that is missing or misspelt."""
        self._problems.append(RowProblem(row=0, run_id=HEADER, column=column, rule=rule, value="nothing"))

    def bad_rows(self, length: int) -> NDArray[np.bool_]:
        """Return which of the `length` rows break any rule."""
        bad = np.zeros(length, dtype=bool)
        for rows in self._bad_rows:
            bad[rows] = True
        return bad

    def problems(self) -> list[RowProblem]:
        """Return all problems in the order of rows, then of columns."""
        last = len(_COLUMN_ORDER)
        return sorted(self._problems, key=lambda problem: (problem.row, _COLUMN_ORDER.get(problem.column, last)))


def _shown(value: str | float | None) -> str:
    """Return a value as a user would write it."""
    if pd.isna(value):
        return "nothing"
    return f"{value:g}" if isinstance(value, float) else str(value)
