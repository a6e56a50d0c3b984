"""The target: seconds per step, from whichever figure the publication prints, by its own convention."""

from __future__ import annotations

from typing import Final

import numpy as np
import pandas as pd

from surrogate.analytic.workload import FloatArray
from surrogate.derive.architecture import Architecture
from surrogate.derive.conventions import source_flops_per_token, source_peak_flops_per_s
from surrogate.schema import COLUMN_BY_NAME

FIGURES: Final = {
    "step": "step_time_s",
    "tokens": "tokens_per_s_per_gpu",
    "samples": "samples_per_s",
    "tflops": "achieved_flops_per_s",
    "mfu": "mfu",
}
"""`time_from` -> the column it reads, in the order of preference."""

COARSE_TOKEN_RATE: Final = 0.005
"""Relative rounding of a token rate above which FLOP/s give a second estimate."""


def step_times(runs: pd.DataFrame, a: Architecture, peak_flops_per_s: FloatArray) -> dict[str, FloatArray]:
    """Return the step time that follows from each published figure, NaN where it is not published.

    Parameters
    ----------
    runs : DataFrame of shape (n, columns)
        Canonical columns.
    a : Architecture
        Sizes of the same rows.
    peak_flops_per_s : ndarray of shape (n,)
        Dense peak per accelerator at the row's precision.

    Returns
    -------
    dict of ndarray of shape (n,)
        Seconds per step by `time_from`.
    """
    figures = {kind: runs[name].to_numpy(dtype=np.float64, na_value=np.nan) for kind, name in FIGURES.items()}
    sequences = runs["global_batch_size"].to_numpy(dtype=np.float64, na_value=np.nan)
    gpus = runs["num_gpus"].to_numpy(dtype=np.float64, na_value=np.nan)
    tokens_per_gpu = sequences * a.seq_len / gpus
    flops_per_gpu = tokens_per_gpu * source_flops_per_token(runs, a)
    return {
        "step": figures["step"],
        "tokens": tokens_per_gpu / figures["tokens"],
        "samples": sequences / figures["samples"],
        "tflops": flops_per_gpu / figures["tflops"],
        "mfu": flops_per_gpu / (figures["mfu"] * source_peak_flops_per_s(runs, peak_flops_per_s)),
    }


def target_columns(runs: pd.DataFrame, times: dict[str, FloatArray], rounding: pd.DataFrame) -> pd.DataFrame:
    """Return the target of every row and where it comes from.

    Parameters
    ----------
    runs : DataFrame of shape (n, columns)
        Canonical columns.
    times : dict of ndarray of shape (n,)
        As `step_times` returns them.
    rounding : DataFrame of shape (n, 5)
        Relative rounding of each figure, by canonical column name.

    Returns
    -------
    DataFrame of shape (n, 4)
        `measured_step_time_s`, `time_from`, `time_rel_rounding`, `step_time_alt_s`; NA for rows without a time.
    """
    measured, half_unit = np.full(len(runs), np.nan), np.full(len(runs), np.nan)
    time_from = pd.Series(None, index=runs.index, dtype="str")
    for kind, seconds in times.items():
        chosen = np.isnan(measured) & np.isfinite(seconds)
        measured[chosen] = seconds[chosen]
        half_unit[chosen] = rounding[FIGURES[kind]].to_numpy()[chosen]
        time_from[chosen] = kind
    stated = runs["stated_rel_rounding"].to_numpy(dtype=np.float64)
    half_unit = np.where(np.isnan(measured) | np.isnan(stated), half_unit, stated)
    coarse = (time_from == "tokens").to_numpy(dtype=bool) & (half_unit > COARSE_TOKEN_RATE)
    return pd.DataFrame(
        {
            "measured_step_time_s": measured,
            "time_from": time_from,
            "time_rel_rounding": half_unit,
            "step_time_alt_s": np.where(coarse, times["tflops"], np.nan),
        },
        index=runs.index,
    )


def printed_rounding(table: pd.DataFrame) -> pd.DataFrame:
    """Return half a unit of the last printed digit, relative to the figure, for the five measured figures.

    Parameters
    ----------
    table : DataFrame of shape (n, any)
        As read: text cells keep their printed digits; numbers count by their shortest form, in published units.

    Returns
    -------
    DataFrame of shape (n, 5)
        Fractions by canonical column name; NaN where nothing is printed.

    Examples
    --------
    >>> printed_rounding(pd.DataFrame({"step_time_s": ["12.5", "29.0", None]}))["step_time_s"].round(4).tolist()
    [0.004, 0.0017, nan]
    """
    return pd.DataFrame({name: _relative_half_unit(table, name) for name in FIGURES.values()}, index=table.index)


def _relative_half_unit(table: pd.DataFrame, name: str) -> pd.Series:
    published = COLUMN_BY_NAME[name].published
    if published and published.name in table:
        printed = table[published.name]
    elif name in table:
        printed = pd.to_numeric(table[name], errors="coerce") / published.factor if published else table[name]
    else:
        return pd.Series(np.nan, index=table.index)
    digits = printed.astype("str")
    if pd.api.types.is_numeric_dtype(printed.dtype):
        digits = digits.str.removesuffix(".0")
    decimals = digits.str.extract(r"^\s*\d*\.(\d+)\s*$", expand=False).str.len().fillna(0).to_numpy(dtype=np.float64)
    values = pd.to_numeric(printed, errors="coerce").to_numpy(dtype=np.float64, na_value=np.nan)
    return pd.Series(0.5 * 10.0**-decimals / values, index=table.index)
