"""Source tables -> the one table of measured runs, and any table of runs ready for training."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from surrogate.derive.columns import derive_columns
from surrogate.derive.plausibility import utilisation_problems
from surrogate.errors import FileFormatError, TableError
from surrogate.schema import CheckedRuns, check_runs, read_table


def load_runs(path: str | Path) -> pd.DataFrame:
    """Read one table of runs, check it, and add the derived columns.

    Parameters
    ----------
    path : str or Path
        CSV or parquet; the shipped table or a user's own.

    Returns
    -------
    DataFrame
        Canonical and derived columns, see `derive_columns`.

    Raises
    ------
    FileFormatError
        When the file is missing, empty or not a table.
    TableError
        With every bad row, impossible utilisations included.
    """
    return _good_or_raise(check_table(read_table(path)), str(path))


def build_runs(sources_dir: str | Path) -> pd.DataFrame:
    """Join all source tables of a folder into one table with derived columns.

    Parameters
    ----------
    sources_dir : str or Path
        Folder of CSV files, one per publication.

    Returns
    -------
    DataFrame
        Rows in the order of file names and, within a file, of lines.

    Raises
    ------
    FileFormatError
        When the folder has no CSV file, or one cannot be read.
    TableError
        With every bad row of all files; rows count through the joined table.
    """
    files = sorted(Path(sources_dir).glob("*.csv"))
    if not files:
        raise FileFormatError(f"{sources_dir}: no source tables (*.csv) in this folder")
    table = pd.concat([read_table(file) for file in files], ignore_index=True)
    return _good_or_raise(check_table(table), str(sources_dir))


def check_table(table: pd.DataFrame) -> CheckedRuns:
    """Return the good rows of a table with derived columns, and every problem, utilisations above 1 included.

    Parameters
    ----------
    table : DataFrame
        As `schema.read_table` returns it. Printed digits are only known while cells are text, so a table that
        holds numbers keeps the `time_rel_rounding` it brings.

    Raises
    ------
    InputError
        When a quantity is given twice, in published and in SI units.
    """
    checked = check_runs(table)
    runs = derive_columns(checked.good, table.loc[checked.good.index])
    if "time_rel_rounding" in checked.good:
        given = checked.good["time_rel_rounding"]
        runs = runs.assign(time_rel_rounding=given.fillna(runs["time_rel_rounding"]))
    impossible = utilisation_problems(runs)
    good = runs.drop(index=[problem.row - 1 for problem in impossible])
    return CheckedRuns(good, sorted([*checked.problems, *impossible], key=lambda problem: problem.row))


def _good_or_raise(checked: CheckedRuns, where: str) -> pd.DataFrame:
    if checked.problems:
        raise TableError(where, checked.problems)
    return checked.good.reset_index(drop=True)
