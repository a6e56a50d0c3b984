"""Variants of one plan as a table, and which of them can be placed at all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np
import pandas as pd

from surrogate.analytic.memory import NO_RULE_BROKEN, first_broken_rule
from surrogate.analytic.workload import BoolArray, IntArray, Workload
from surrogate.errors import InputError
from surrogate.features.workload import prepare_runs

Changes = Mapping[str, object]


class PlanPredictor(Protocol):
    """Predicts whole tables of plans at once."""

    def __call__(self, plans: pd.DataFrame) -> pd.DataFrame:
        """Predict plans.

        Parameters
        ----------
        plans : DataFrame of n rows
            Canonical columns.

        Returns
        -------
        DataFrame of n rows
            At least `step_time_s`, `peak_memory_bytes` and `oom_probability`, in the order of `plans`; NaN where a
            plan cannot be predicted.
        """
        ...


def one_plan(plan: pd.DataFrame) -> pd.DataFrame:
    """Return `plan` if it is one row.

    Raises
    ------
    InputError
        If it holds another number of rows.
    """
    if len(plan) != 1:
        raise InputError("plan", "must be one row", len(plan))
    return plan


def current_settings(plan: pd.DataFrame) -> Workload:
    """Return the plan's complete settings, with what it leaves out filled by the product's rules."""
    return prepare_runs(one_plan(plan)).workload


def build_variants(plan: pd.DataFrame, changes: Sequence[Changes]) -> pd.DataFrame:
    """Repeat one plan with changes, one row each; data parallelism follows from the accelerators.

    Notes
    -----
    A change of the pipeline's depth drops what was fitted to the old one: chunks that no longer divide the layers,
    a named layout, and the schedule where no pipeline is left.
    """
    fields = sorted({field for change in changes for field in change})
    rows = pd.concat([plan] * len(changes), ignore_index=True) if changes else plan.iloc[:0]
    before = {name: plan[name].iloc[0] if name in plan else None for name in fields}
    columns = {name: pd.Series([change.get(name, before[name]) for change in changes], dtype=object) for name in fields}
    kept = {name: plan[name].dtype for name in fields if name in plan}
    table = rows.assign(**columns).infer_objects().astype(kept)
    return _consistent(table)


def _consistent(table: pd.DataFrame) -> pd.DataFrame:
    tp, pp, cp = (_whole_numbers(table, name) for name in ("tp", "pp", "cp"))
    vp = _whole_numbers(table, "vp")
    keeps_chunks = (pp > 1) & (_whole_numbers(table, "num_layers") % (pp * vp) == 0)
    table = table.assign(dp=_whole_numbers(table, "num_gpus") // (tp * pp * cp))
    if "vp" in table:
        table = table.assign(vp=np.where(keeps_chunks, vp, 1))
    if "pipeline_schedule" in table:
        named = np.asarray(table["pipeline_schedule"].astype("string").fillna(""), dtype=object)
        interleaves = np.array([str(name).startswith("interleaved") for name in named], dtype=np.bool_)
        plain = np.where(interleaves & ~keeps_chunks, "1f1b", named)
        table = table.assign(pipeline_schedule=pd.array(np.where(pp > 1, plain, ""), dtype="string"))
    return table


def _whole_numbers(table: pd.DataFrame, column: str) -> IntArray:
    """Read a column of counts, 1 where it is missing (shape (n,))."""
    if column not in table:
        return np.ones(len(table), dtype=np.int64)
    return pd.to_numeric(table[column]).fillna(1).to_numpy(dtype=np.int64)


def is_placeable(plans: pd.DataFrame) -> BoolArray:
    """Tell which rows divide evenly and break no placement rule (shape (n,))."""
    if plans.empty:
        return np.zeros(0, dtype=np.bool_)
    w = prepare_runs(plans).workload
    whole = np.mod(w.num_gpus, w.tp * w.pp * w.cp) == 0
    batches = np.mod(w.global_batch_size, w.dp * w.micro_batch_size) == 0
    domain = w.tp <= w.fast_domain_gpus
    placeable: BoolArray = whole & batches & domain & (first_broken_rule(w) == NO_RULE_BROKEN)
    return placeable
