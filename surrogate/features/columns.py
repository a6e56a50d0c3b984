"""Columns of a runs table as plain arrays: missing is NaN (numbers, flags) or an empty string (text)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from surrogate.analytic.workload import FloatArray

TextArray = NDArray[np.object_]


def numbers(runs: pd.DataFrame, column: str) -> FloatArray:
    """Return a numeric or boolean column of shape (n,) with NaN where it is missing or the column is absent."""
    if column not in runs.columns:
        return np.full(len(runs), np.nan)
    return runs[column].to_numpy(dtype=np.float64, na_value=np.nan)


def texts(runs: pd.DataFrame, column: str) -> pd.Categorical:
    """Return a text column as a categorical of n codes; missing text is the empty string."""
    if column not in runs.columns:
        return pd.Categorical.from_codes(np.zeros(len(runs), dtype=np.int8), categories=pd.Index([""], dtype=object))
    codes, distinct = runs[column].array.factorize()  # pd.factorize adds the time of a dozen checks
    given = list(distinct)
    names = sorted({*given, ""} if (codes < 0).any() else given, key=str)
    code_of = {name: code for code, name in enumerate(names)}
    codes = np.array([*map(code_of.get, given), code_of.get("", 0)])[codes]  # absent is -1: the last one
    return pd.Categorical.from_codes(codes, categories=pd.Index(names, dtype=object))


def lookup(values: pd.Categorical, function: Callable[[str], object], dtype: type = float) -> NDArray[np.generic]:
    """Return `function` of each text of shape (n,), called once for each distinct one."""
    table: NDArray[np.generic] = np.array([function(str(text)) for text in values.categories], dtype=dtype)
    return table[values.codes] if len(table) else np.zeros(0, dtype=dtype)


def years(runs: pd.DataFrame, default: float) -> FloatArray:
    """Return the column `date` (yyyy-mm) in years, shape (n,); `default` where it is missing."""

    def parse(text: str) -> float:
        return float(text[:4]) + (float(text[5:7]) - 1.0) / 12.0 if len(text) >= 7 else default

    return np.asarray(lookup(texts(runs, "date"), parse), dtype=np.float64)
