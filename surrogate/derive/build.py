"""Source tables -> the one table of measured runs, and any table of runs ready for training."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from surrogate.derive.columns import derive_columns
from surrogate.derive.plausibility import utilisation_problems
from surrogate.errors import FileFormatError, TableError
from surrogate.schema import check_runs, read_table


def load_runs(path: str | Path) -> pd.DataFrame:
    """Read one table of runs, check it, and add the derived columns.

    Parameters
    ----------
    path : str or Path
        CSV or parquet; the shipped table and users' own.

    Returns
    -------
    DataFrame
        Canonical and derived columns, see `derive.derive_columns`.

    Raises
    ------
    FileFormatError
        When the file is missing, empty or not a table.
    TableError
        With every bad row, impossible utilisations included.

    Notes
    -----
    A parquet file has no printed digits, so its given `time_rel_rounding` is kept.
    """
    table = read_table(path)
    checked = check_runs(table)
    runs = derive_columns(checked.good, table.loc[checked.good.index])
    if "time_rel_rounding" in table and Path(path).suffix == ".parquet":
        runs = runs.assign(time_rel_rounding=checked.good["time_rel_rounding"].fillna(runs["time_rel_rounding"]))
    problems = sorted([*checked.problems, *utilisation_problems(runs)], key=lambda problem: problem.row)
    if problems:
        raise TableError(str(path), problems)
    return runs


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
    checked = check_runs(table)
    runs = derive_columns(checked.good, table.loc[checked.good.index])
    problems = [*checked.problems, *utilisation_problems(runs)]
    if problems:
        raise TableError(str(sources_dir), problems)
    return runs.reset_index(drop=True)
