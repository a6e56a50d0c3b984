"""The checks of a runs table: every bad row is reported at once, with its column, rule and value."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from surrogate.catalog import resolve_accelerator
from surrogate.errors import RowProblem, TableError, UnknownNameError
from surrogate.schema.coercion import check_header, coerce, row_names
from surrogate.schema.column import Column, Kind
from surrogate.schema.columns import COLUMNS
from surrogate.schema.findings import HEADER, Findings
from surrogate.schema.io import read_table
from surrogate.schema.rules import check_rules


class CheckedRuns(NamedTuple):
    """The rows of a table that hold to the schema, and what is wrong with the others."""

    good: pd.DataFrame
    """Canonical columns; the index tells the row's place in the table (from 0)."""
    problems: list[RowProblem]
    """Every broken rule; `RowProblem.row` counts from 1."""


def read_runs(path: str | Path) -> pd.DataFrame:
    """Read a runs table from CSV or parquet, check it and return its canonical columns.

    Parameters
    ----------
    path : str or Path
        Published-unit names (``inter_node_gbps``, ``peak_memory_gb``, ``tflops_per_gpu``, ``params_b``,
        ``active_params_b``) are accepted and converted.

    Returns
    -------
    DataFrame
        Every input column in declared order (NA where the table lacks it), derived ones if given, then the
        user's own; `status` is ``ok`` where absent, `dp` and `run_id` are filled.

    Raises
    ------
    FileFormatError
        When the file is missing, empty or not a table.
    TableError
        With every bad row.
    """
    return validate_runs(read_table(path), str(path))


def validate_runs(table: pd.DataFrame, where: str = "runs") -> pd.DataFrame:
    """Check a table and return its canonical columns, as `read_runs` does.

    Parameters
    ----------
    table : DataFrame
        One row per run, under canonical or published-unit names.
    where : str
        What to call the table in the error.

    Raises
    ------
    TableError
        With every bad row: row (from 1), run_id, column, rule and value.

    Examples
    --------
    >>> run = {"num_layers": 32, "hidden_size": 4096, "num_heads": 32, "seq_len": 8192, "accelerator": "h100",
    ...        "num_gpus": 64, "global_batch_size": 128, "tp": 8, "pp": 1, "inter_node_gbps": 3200}
    >>> runs = validate_runs(pd.DataFrame([run]))
    >>> int(runs["dp"][0]), runs["accelerator"][0], float(runs["inter_node_bytes_per_s"][0])
    (8, 'H100-80GB', 400000000000.0)
    >>> validate_runs(pd.DataFrame([run | {"tp": 3}]), "mine")
    Traceback (most recent call last):
    surrogate.errors.TableError: mine: 2 problem(s)
      row 1 (row-1): `num_heads` must be a multiple of tp, got num_heads=32, tp=3
      row 1 (row-1): `num_gpus` must be a multiple of tp*pp*cp, got num_gpus=64, tp=3, pp=1, cp=NA
    """
    checked = check_runs(table)
    if checked.problems:
        raise TableError(where, checked.problems)
    return checked.good


def split_bad_rows(table: pd.DataFrame, where: str = "runs") -> CheckedRuns:
    """Separate the rows that hold to the schema from the others, so that the good ones can be used.

    Parameters
    ----------
    table : DataFrame
        As for `validate_runs`.
    where : str
        What to call the table in the error.

    Raises
    ------
    TableError
        When the table as a whole is unusable: a required column is missing or a name misspelt.
    """
    checked = check_runs(table)
    header = [problem for problem in checked.problems if problem.run_id == HEADER]
    if header:
        raise TableError(where, header)
    return checked


def check_runs(table: pd.DataFrame) -> CheckedRuns:
    """Return the good rows and every problem of a table, those of its header included.

    Parameters
    ----------
    table : DataFrame
        As for `validate_runs`.

    Raises
    ------
    InputError
        When a quantity is given twice, in published and in SI units.
    """
    table = table.reset_index(drop=True)
    findings = Findings(run_ids=row_names(table))
    check_header(table, findings)
    runs = coerce(table, findings)
    for column in COLUMNS:
        name = column.published.name if column.published and column.published.name in table else column.name
        if name in table:
            _check_values(runs[column.name], column, table[name].rename(name), findings)
    _check_required(table, findings)
    accelerators = _resolve_accelerators(runs["accelerator"], findings)
    check_rules(runs, findings)
    runs = runs.assign(accelerator=accelerators, dp=runs["dp"].fillna(_implied_dp(runs)))
    return CheckedRuns(runs[~findings.bad_rows(len(runs))], findings.problems())


def _check_values(values: pd.Series, column: Column, written: pd.Series, findings: Findings) -> None:
    """Record values outside a column's bounds or vocabulary, under the name and in the unit they were written in."""
    name = str(written.name)
    if column.allowed:
        bad = values.notna().to_numpy() & ~values.isin(column.allowed).to_numpy()
        findings.add(name, f"must be one of {', '.join(column.allowed)}", bad, written)
    if column.kind in (Kind.TEXT, Kind.FLAG):
        return
    numbers = values.to_numpy(dtype=np.float64, na_value=np.nan)
    if column.positive:
        findings.add(name, "must be above 0", numbers <= 0.0, written)
    if column.lower is not None:
        findings.add(name, f"must be at least {column.lower:g}", numbers < column.lower, written)
    if column.upper is not None:
        findings.add(name, _upper_rule(column), numbers > column.upper, written)


def _upper_rule(column: Column) -> str:
    """Return the rule for an upper bound; a share above 1 is most likely a percentage."""
    if column.upper == 1.0:
        return "must be at most 1 (a fraction, not percent)"
    return f"must be at most {column.upper:g}"


def _check_required(table: pd.DataFrame, findings: Findings) -> None:
    """Record empty cells of the columns that a prediction needs; unreadable cells are recorded already."""
    for name in (column.name for column in COLUMNS if column.required):
        if name in table:
            findings.add(name, "must be given", table[name].isna().to_numpy(), table[name])


def _resolve_accelerators(names: pd.Series, findings: Findings) -> pd.Series:
    """Return canonical accelerator names, recording the unknown ones with their near matches."""
    canonical: dict[str, str] = {}
    for name in names.dropna().unique():
        try:
            canonical[name] = resolve_accelerator(name).name
        except UnknownNameError as error:
            hint = f" (did you mean {', '.join(error.near)}?)" if error.near else ""
            findings.add("accelerator", f"must be in the catalogue{hint}", (names == name).to_numpy(dtype=bool), names)
    return names.map(canonical).astype("str")


def _implied_dp(runs: pd.DataFrame) -> pd.Series:
    """Return num_gpus // (tp*pp*cp), NA where a factor is missing or zero."""
    factors = runs["tp"] * runs["pp"] * runs["cp"].fillna(1)
    return runs["num_gpus"] // factors.mask(factors < 1)
