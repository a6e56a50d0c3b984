"""Canonical columns -> the derived ones beside them."""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from surrogate.analytic.workload import FloatArray
from surrogate.catalog import RATES_BY_PRECISION, load_accelerators
from surrogate.derive import groups
from surrogate.derive.architecture import architecture_of, model_flops_per_token, total_parameters
from surrogate.derive.target import printed_rounding, step_times, target_columns
from surrogate.features.stacks import stack_names
from surrogate.schema import COLUMNS

SIXTEEN_BITS = ("fp16", "bf16")
"""What a row without a precision is taken to run at: the first of these that its accelerator has."""


def derive_columns(runs: pd.DataFrame, printed: pd.DataFrame | None = None) -> pd.DataFrame:
    """Return the runs with target, parameters, FLOPs, peak, utilisation, groups and grades.

    Parameters
    ----------
    runs : DataFrame of shape (n, columns)
        Canonical columns, as `schema.validate_runs` returns them.
    printed : DataFrame of shape (n, any), optional
        The table as it was read, for the digits that were printed; `runs` itself when not given.

    Returns
    -------
    DataFrame of shape (n, columns)
        In declared order, the user's own columns last. `stack`, `quality`, `repeat_group`, `split_group` and
        `publisher_family` keep given values; every other derived column is computed anew.
    """
    a = architecture_of(runs)
    peak = peak_flops_per_s(runs)
    target = target_columns(runs, step_times(runs, a, peak), printed_rounding(runs if printed is None else printed))
    flops = model_flops_per_token(a)
    tokens = runs["global_batch_size"].to_numpy(dtype=np.float64, na_value=np.nan) * a.seq_len
    rate = tokens * flops / runs["num_gpus"].to_numpy(dtype=np.float64, na_value=np.nan)
    names = groups.group_columns(runs)
    derived = {
        **target,
        "num_params": total_parameters(a),
        "model_flops_per_token": flops,
        "peak_flops_per_s": peak,
        "mfu_computed": rate / (target["measured_step_time_s"].to_numpy() * peak),
        "duplicate_of": groups.duplicates(names["repeat_group"], target["measured_step_time_s"], runs["run_id"]),
        **names,
        "quality": groups.quality_grades(runs, target),
        "stack": _text(stack_names(runs), runs.index),
    }
    result = runs.assign(**derived)
    declared = [column.name for column in COLUMNS]
    return result[declared + [name for name in result.columns if name not in declared]]


def peak_flops_per_s(runs: pd.DataFrame) -> FloatArray:
    """Return the dense peak per accelerator at each row's precision, shape (n,).

    A precision the accelerator lacks runs at the next wider one it has; NaN where the catalogue has neither.
    """
    pairs = runs["accelerator"] + "|" + runs["precision"].fillna("")
    peaks = {pair: _peak(*pair.split("|")) for pair in pairs.dropna().unique()}
    return pairs.map(peaks).to_numpy(dtype=np.float64)


def _peak(accelerator: str, precision: str) -> float:
    entry = load_accelerators()[accelerator]
    rates = RATES_BY_PRECISION[precision] if precision else SIXTEEN_BITS
    values = [getattr(entry, f"{rate}_flops_per_s") for rate in rates]
    return next((float(value) for value in values if value is not None), float("nan"))


def _text(names: NDArray[np.object_], index: pd.Index) -> pd.Series:
    """Return names as a text column, NA where they are empty."""
    return pd.Series(names, index=index, dtype="str").replace("", np.nan)
