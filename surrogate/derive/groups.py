"""Which rows are the same configuration, how far a row can be trusted, and who measured: rules for users' rows.

Shipped rows keep the groups and grades given in their source tables, which hold judgement; these rules fill only
what is missing.
"""

from __future__ import annotations

import hashlib
from typing import Final

import numpy as np
import pandas as pd

_SHAPE: Final = (
    "num_layers",
    "hidden_size",
    "ffn_hidden_size",
    "num_heads",
    "num_kv_heads",
    "head_dim",
    "vocab_size",
    "seq_len",
    "gated_mlp",
    "num_experts",
    "moe_top_k",
    "moe_ffn_hidden_size",
    "num_shared_experts",
    "attention",
)
_LAYOUT: Final = (
    "accelerator",
    "num_gpus",
    "tp",
    "pp",
    "cp",
    "dp",
    "ep",
    "vp",
    "global_batch_size",
    "micro_batch_size",
    "precision",
)
SPLIT_COLUMNS: Final = (
    "num_layers",
    "hidden_size",
    "num_heads",
    "seq_len",
    "num_experts",
    "accelerator",
    "num_gpus",
    "tp",
    "pp",
    "global_batch_size",
)
"""Columns that every row has (`num_experts` as 0 when absent): rows that differ only elsewhere stay together."""
REPEAT_COLUMNS: Final = (
    *_SHAPE,
    *_LAYOUT,
    "tied_embeddings",
    "sequence_parallel",
    "zero_stage",
    "fsdp",
    "hsdp_shard",
    "pipeline_schedule",
    "fp8_recipe",
    "recompute",
    "recompute_kind",
    "recompute_layers",
    "recompute_modules",
    "flash_attention",
    "attention_backend",
    "fused_norm",
    "overlap_grad_reduce",
    "overlap_param_gather",
    "tp_comm_overlap",
    "moe_dispatcher",
    "ep_overlap",
    "moe_capacity_factor",
    "cuda_graphs",
    "compiled",
    "optimizer",
    "cpu_offload",
    "framework",
    "variant",
)
"""Every setting that can change the time; the software version is not among them."""

UNKNOWN_FAMILY: Final = "unknown"
_COARSE_ROUNDING: Final = 0.01
_NEEDED_FOR_A: Final = ("ffn_hidden_size", "vocab_size", "micro_batch_size", "precision", "recompute", "zero_stage")


def group_columns(runs: pd.DataFrame) -> pd.DataFrame:
    """Return `repeat_group`, `split_group` and `publisher_family`, given values kept.

    Parameters
    ----------
    runs : DataFrame of shape (n, columns)
        Canonical columns.

    Returns
    -------
    DataFrame of shape (n, 3)
        No value is NA. A row without a family is its own source's family.

    Notes
    -----
    Names are digests of the values, so equal rows of different tables fall together. Whatever shares a
    `repeat_group` shares its `split_group` by construction.
    """
    dense = runs.assign(num_experts=runs["num_experts"].fillna(0))
    family = runs["publisher_family"].fillna(runs["source"]).fillna(UNKNOWN_FAMILY)
    return pd.DataFrame(
        {
            "publisher_family": family,
            "repeat_group": runs["repeat_group"].fillna(_digest_names(dense, REPEAT_COLUMNS, "rg")),
            "split_group": runs["split_group"].fillna(_digest_names(dense, SPLIT_COLUMNS, "sg")),
        },
        index=runs.index,
    )


def quality_grades(runs: pd.DataFrame, target: pd.DataFrame) -> pd.Series:
    """Return the grade of every row, given values kept.

    Parameters
    ----------
    runs : DataFrame of shape (n, columns)
        Canonical columns.
    target : DataFrame of shape (n, 4)
        As `target.target_columns` returns it.

    Returns
    -------
    Series of str, shape (n,)
        ``a``: a time, token or sample rate with all settings that a model needs; ``b``: some of them missing, or
        out of memory; ``c``: derived from FLOP/s or utilisation, or rounded to more than 1 %.
    """
    complete = runs[list(_NEEDED_FOR_A)].notna().all(axis="columns")
    coarse = target["time_from"].isin(["tflops", "mfu"]) | (target["time_rel_rounding"] > _COARSE_ROUNDING)
    grades = np.select([coarse, complete & target["time_from"].notna()], ["c", "a"], "b")
    return runs["quality"].fillna(pd.Series(grades, index=runs.index, dtype="str"))


def duplicates(repeat_group: pd.Series, seconds: pd.Series, run_id: pd.Series) -> pd.Series:
    """Return the first row of the same configuration and the same time, NA for first and for only rows.

    Parameters
    ----------
    repeat_group, seconds, run_id : Series of shape (n,)
        Group, measured step time and name; rows without a time are never duplicates.
    """
    first = run_id.groupby([repeat_group, seconds], dropna=True).transform("first")
    return first.where(first != run_id)


def _digest_names(runs: pd.DataFrame, columns: tuple[str, ...], prefix: str) -> pd.Series:
    """Return a name per row that depends on the values of `columns` only, NA being a value of its own."""
    hashes = pd.util.hash_pandas_object(runs[list(columns)].astype("str").fillna(""), index=False)
    names = {value: f"{prefix}-{hashlib.sha256(str(value).encode()).hexdigest()[:10]}" for value in hashes.unique()}
    return hashes.map(names).astype("str")
