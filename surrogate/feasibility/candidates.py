"""Variants of one plan as a table, and which of them can be placed at all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, Protocol

import numpy as np
import pandas as pd

from surrogate.analytic.memory import ENDS, NO_RULE_BROKEN, first_broken_rule, num_microbatches
from surrogate.analytic.workload import BoolArray, IntArray, Offload, Recompute, Workload
from surrogate.errors import InputError
from surrogate.features.workload import PreparedRuns, prepare_runs
from surrogate.schema.columns import COLUMN_BY_NAME

Changes = Mapping[str, object]

FOLLOWING: Final = (
    "vp",
    "pipeline_schedule",
    "pipeline_layout",
    "recompute_kind",
    "recompute_layers",
    "recompute_modules",
)
"""Settings that hang on others; data parallelism, which always follows, is not told."""

FULLY_SHARDED: Final = ("fsdp1", "fsdp2", "megatron-fsdp", "gspmd")


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


def is_partly_recomputed(w: Workload) -> bool:
    """Tell whether full recomputation leaves some layers of a stage out; the workload has one row."""
    return bool(w.recompute[0] == Recompute.FULL and w.recompute_layers[0] < np.floor(w.num_layers[0] / w.pp[0]))


def build_variants(plan: pd.DataFrame, changes: Sequence[Changes]) -> pd.DataFrame:
    """Repeat one plan with changes, one row each; data parallelism follows from the accelerators.

    Notes
    -----
    What hung on a changed setting goes with it (see `consequences`): chunks that no longer divide the layers, the
    layout and the schedule of another pipeline, details of another recomputation.
    """
    fields = sorted({field for change in changes for field in change})
    rows = plan.iloc[np.zeros(len(changes), dtype=np.int64)].reset_index(drop=True)
    before = {name: plan[name].iloc[0] if name in plan else None for name in fields}
    columns = {
        name: pd.Series([change.get(name, before[name]) for change in changes], dtype=object).astype(
            COLUMN_BY_NAME[name].kind.value
        )
        for name in fields
    }
    return _consistent(rows.assign(**columns), plan)


def consequences(plan: pd.DataFrame, variants: pd.DataFrame, row: int, change: Changes) -> Changes:
    """Return what a row of `build_variants` changes besides what was asked; None for a setting that is dropped."""
    found: dict[str, object] = {}
    for name in FOLLOWING:
        if name in change or name not in variants or name not in plan:
            continue
        before, after = plan[name].iloc[0], variants[name].iloc[row]
        if pd.isna(after) and not pd.isna(before):
            found[name] = None
        elif not pd.isna(after) and (pd.isna(before) or after != before):
            found[name] = after.item() if hasattr(after, "item") else after
    return found


def _consistent(table: pd.DataFrame, plan: pd.DataFrame) -> pd.DataFrame:
    tp, pp, cp = (_whole_numbers(table, name) for name in ("tp", "pp", "cp"))
    table = table.assign(dp=_whole_numbers(table, "num_gpus") // (tp * pp * cp))
    same_pipeline = (pp == _whole_numbers(plan, "pp")) & (
        _whole_numbers(table, "num_layers") == _whole_numbers(plan, "num_layers")
    )
    table = _with_fitting_chunks(table, pp, same_pipeline)
    if "recompute_layers" in table:
        stage_layers = -(-_whole_numbers(table, "num_layers") // pp)
        table = _dropped(table, ("recompute_layers",), _whole_numbers(table, "recompute_layers") > stage_layers)
    if "recompute" in table:
        before = plan["recompute"].astype("string").fillna("").iloc[0]
        same = (table["recompute"].astype("string").fillna("") == before).to_numpy(dtype=np.bool_)
        details = ("recompute_kind", "recompute_layers", "recompute_modules")
        table = _dropped(table, details, ~same)
    return table


def _with_fitting_chunks(table: pd.DataFrame, pp: IntArray, same_pipeline: BoolArray) -> pd.DataFrame:
    """Keep chunks, schedule and layout of a pipeline that did not change, or that still splits the layers evenly."""
    layers, chunks = _whole_numbers(table, "num_layers"), pp * _whole_numbers(table, "vp")
    divides = (layers % chunks == 0) | ((layers + ENDS) % chunks == 0)
    keeps = same_pipeline | ((pp > 1) & divides)
    if "vp" in table:
        table = table.assign(vp=table["vp"].where(keeps | table["vp"].isna().to_numpy(), 1))
    if "pipeline_schedule" in table:
        schedule = table["pipeline_schedule"].astype("string")
        interleaves = schedule.str.startswith("interleaved").fillna(False).to_numpy(dtype=np.bool_)
        table = table.assign(pipeline_schedule=schedule.mask(interleaves & ~keeps, "1f1b").mask(pp <= 1))
    return _dropped(table, ("pipeline_layout",), ~same_pipeline)


def _dropped(table: pd.DataFrame, names: Sequence[str], rows: BoolArray) -> pd.DataFrame:
    """Empty columns, those that are there, in the marked rows."""
    return table.assign(**{name: table[name].mask(rows) for name in names if name in table})


def _whole_numbers(table: pd.DataFrame, column: str) -> IntArray:
    """Read a column of counts, 1 where it is missing (shape (n,))."""
    if column not in table:
        return np.ones(len(table), dtype=np.int64)
    return pd.to_numeric(table[column]).fillna(1).to_numpy(dtype=np.int64)


def is_placeable(plans: pd.DataFrame) -> BoolArray:
    """Tell which rows divide evenly, break no placement rule, and are within what their framework does (shape (n,))."""
    if plans.empty:
        return np.zeros(0, dtype=np.bool_)
    prepared = prepare_runs(plans)
    w = prepared.workload
    placeable: BoolArray = _divides(w) & (first_broken_rule(w) == NO_RULE_BROKEN) & _framework_can(prepared, plans)
    return placeable


def _divides(w: Workload) -> BoolArray:
    """Accelerators into replicas and nodes, the batch into micro-batches, the sequence into its pieces."""
    whole_replicas = np.mod(w.num_gpus, w.tp * w.pp * w.cp) == 0
    whole_nodes = (w.num_gpus <= w.gpus_per_node) | (np.mod(w.num_gpus, w.gpus_per_node) == 0)
    whole_batches = np.mod(w.global_batch_size, w.dp * w.micro_batch_size) == 0
    pieces = np.where(w.cp > 1, 2.0 * w.cp, 1.0) * np.where(w.sequence_parallel, w.tp, 1.0)
    whole_shards = np.mod(w.dp * w.cp, np.minimum(w.shard_size, w.dp * w.cp)) == 0
    inside = w.tp <= w.fast_domain_gpus
    whole_pieces = np.mod(w.seq_len, pieces) == 0
    divides: BoolArray = whole_replicas & whole_nodes & whole_batches & whole_shards & whole_pieces & inside
    return divides


def _framework_can(prepared: PreparedRuns, plans: pd.DataFrame) -> BoolArray:
    """Hold a pipeline to whole gradients without FSDP, and Megatron to what its argument checks let pass."""
    w, stack = prepared.workload, prepared.stack
    fully_sharded = stack.is_torch_fsdp | stack.is_xla
    if "fsdp" in plans:
        fully_sharded = fully_sharded | plans["fsdp"].isin(FULLY_SHARDED).to_numpy(dtype=np.bool_)
    gradients = (w.zero_stage <= 1) | (w.pp == 1) | fully_sharded
    rounds = (w.vp <= 1) | (np.mod(num_microbatches(w), w.pp) == 0)
    activations_away = (w.offload != Offload.ACTIVATIONS) | ((w.pp == 1) & (w.recompute == Recompute.NONE))
    states_away = (w.offload != Offload.OPTIMIZER) | (w.zero_stage >= 1)
    experts = (w.num_experts == 0) | (w.tp == 1) | w.sequence_parallel
    can: BoolArray = gradients & (~stack.is_megatron | (rounds & activations_away & states_away & experts))
    return can
