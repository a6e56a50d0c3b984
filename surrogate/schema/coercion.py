"""A table as a user wrote it -> the canonical columns: names, SI units and dtypes."""

from __future__ import annotations

import difflib
from typing import Final

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from surrogate.errors import InputError
from surrogate.schema.column import Column, Kind
from surrogate.schema.columns import (
    BY_PUBLISHED_NAME,
    COLUMN_BY_NAME,
    COLUMNS,
    INPUT_COLUMNS,
    REQUIRED_COLUMNS,
)
from surrogate.schema.findings import Findings
from surrogate.schema.free_text import with_said_settings

_TRUE: Final = frozenset({"true", "t", "yes", "1", "1.0"})
_FALSE: Final = frozenset({"false", "f", "no", "0", "0.0"})
_TYPO_SIMILARITY: Final = 0.85
_DEFAULTS: Final = {"status": "ok"}


def row_names(table: pd.DataFrame) -> pd.Series:
    """Return the `run_id` column, with ``row-<n>`` (counted from 1) where it is missing."""
    numbers = pd.Series(np.arange(1, len(table) + 1).astype(str), index=table.index, dtype="str")
    fallback = "row-" + numbers
    return table["run_id"].astype("str").fillna(fallback) if "run_id" in table else fallback


def check_header(table: pd.DataFrame, findings: Findings) -> None:
    """Record required columns that are missing and unknown ones that look like a missing known one.

    Any other unknown column is the user's own and is kept.

    Raises
    ------
    InputError
        When a quantity is given twice, in published and in SI units.
    """
    given = {str(name) for name in table.columns}
    present = {BY_PUBLISHED_NAME[name].name if name in BY_PUBLISHED_NAME else name for name in given}
    for published, column in BY_PUBLISHED_NAME.items():
        if {published, column.name} <= given:
            raise InputError(column.name, f"must be given once, not beside `{published}`", "both", "drop one of them")
    absent = [name for name in (*INPUT_COLUMNS, *BY_PUBLISHED_NAME) if name not in given and name not in present]
    misspelt: set[str] = set()
    for name in sorted(given - COLUMN_BY_NAME.keys() - BY_PUBLISHED_NAME.keys()):
        near = difflib.get_close_matches(name, absent, n=1, cutoff=_TYPO_SIMILARITY)
        if near:
            findings.add_header(name, f"is not a column of the runs table: did you mean `{near[0]}`?")
            misspelt.update(near)
    for name in REQUIRED_COLUMNS:
        if name not in present and name not in misspelt:
            findings.add_header(name, "is a required column and is missing")


def coerce(table: pd.DataFrame, findings: Findings) -> pd.DataFrame:
    """Return the table with every input column, in SI units, in declared order; bad cells become NA.

    Parameters
    ----------
    table : DataFrame of shape (n, any)
        As read; published-unit names are accepted.
    findings : Findings
        Receives the cells that cannot be read as what their column holds.

    Returns
    -------
    DataFrame of shape (n, columns)
        Declared input columns, then derived ones if given, then the user's own.
    """
    table = with_said_settings(table)
    columns: dict[str, pd.Series] = {}
    for column in COLUMNS:
        name = column.published.name if column.published and column.published.name in table else column.name
        if name in table:
            values = _coerce_column(table[name], column, name, findings)
            if column.published and name == column.published.name:
                values = values * column.published.factor
        elif column.derived:
            continue
        else:
            values = pd.Series(None, index=table.index, dtype=column.kind.value)
        columns[column.name] = values
    own = [name for name in table.columns if name not in COLUMN_BY_NAME and name not in BY_PUBLISHED_NAME]
    columns |= {name: table[name] for name in own}
    result = pd.DataFrame(columns, index=table.index)
    return result.assign(
        run_id=row_names(table), **{name: result[name].fillna(value) for name, value in _DEFAULTS.items()}
    )


def _coerce_column(values: pd.Series, column: Column, name: str, findings: Findings) -> pd.Series:
    """Return one column in its declared dtype, recording what cannot be read."""
    match column.kind:
        case Kind.TEXT:
            return values.astype("str").str.strip().replace("", None)
        case Kind.FLAG:
            return _coerce_flags(values, name, findings)
        case _:
            return _coerce_numbers(values, column, name, findings)


def _coerce_flags(values: pd.Series, name: str, findings: Findings) -> pd.Series:
    if values.dtype in ("bool", "boolean"):
        return values.astype("boolean")
    given = values.notna().to_numpy()
    words = values.astype("str").str.strip().str.lower()
    true, false = words.isin(_TRUE).to_numpy(), words.isin(_FALSE).to_numpy()
    findings.add(name, "must be true or false", given & ~true & ~false, values)
    return pd.Series(pd.array(true, dtype="boolean"), index=values.index).mask(~(true | false))


def _coerce_numbers(values: pd.Series, column: Column, name: str, findings: Findings) -> pd.Series:
    numbers = _parse_numbers(values)
    unreadable = values.notna().to_numpy() & np.isnan(numbers)
    findings.add(name, "must be a number", unreadable, values)
    infinite = np.isinf(numbers)
    findings.add(name, "must be finite", infinite, values)
    numbers = np.where(infinite, np.nan, numbers)
    if column.kind is Kind.FLOAT:
        return pd.Series(numbers, index=values.index)
    fractional = ~np.isnan(numbers) & (numbers != np.round(numbers))
    findings.add(name, "must be a whole number", fractional, values)
    whole = pd.Series(np.where(fractional, np.nan, numbers), index=values.index)
    return whole.astype("Int64")


def _parse_numbers(values: pd.Series) -> NDArray[np.float64]:
    """Return the values as floats, NaN where missing or unreadable; each distinct value is parsed once."""
    if pd.api.types.is_numeric_dtype(values.dtype):
        return values.to_numpy(dtype=np.float64, na_value=np.nan)
    codes, distinct = pd.factorize(values)
    parsed = pd.to_numeric(pd.Series(distinct), errors="coerce").to_numpy(dtype=np.float64, na_value=np.nan)
    return np.append(parsed, np.nan)[codes]
