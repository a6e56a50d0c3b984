"""Framework -> stack: one name for frameworks that share a performance core, and its generation."""

from __future__ import annotations

from typing import Final

import numpy as np
import pandas as pd

_STACK_OF_FRAMEWORK: Final = {
    "nemo": "megatron-core",
    "megatron-bridge": "megatron-core",
    "nemo-megatron": "megatron-lm-classic",
    "deepspeed-zero3": "deepspeed-zero",
    "hf-transformers-deepspeed": "deepspeed-zero",
    "easycontext": "deepspeed-zero",
    "pax": "paxml",
}
"""Frameworks whose stack is not their own name."""
_FIRST_MEGATRON_CORE_YEAR: Final = "2023"


def stack_names(runs: pd.DataFrame) -> pd.Series:
    """Return the stack of every row, given values kept.

    Parameters
    ----------
    runs : DataFrame of shape (n, columns)
        Canonical columns; read are `stack`, `framework`, `framework_version` and `date`.

    Returns
    -------
    Series of str, shape (n,)
        NA where neither stack nor framework is known. Megatron-LM counts as classic before 2023 and as Megatron-Core
        from then on, or without a date; Composer's FSDP is of torch 1 where its version says so, else of torch 2.
    """
    framework = runs["framework"].str.lower()
    named = framework.map(_STACK_OF_FRAMEWORK).fillna(framework)
    is_megatron, is_composer = (framework == "megatron-lm"), (framework == "composer-fsdp")
    classic = (runs["date"].fillna(_FIRST_MEGATRON_CORE_YEAR) < _FIRST_MEGATRON_CORE_YEAR).to_numpy(dtype=bool)
    torch_1 = runs["framework_version"].fillna("").str.contains("torch 1.", regex=False).to_numpy(dtype=bool)
    megatron = np.where(classic, "megatron-lm-classic", "megatron-core")
    composer = np.where(torch_1, "composer-fsdp-torch1", "composer-fsdp-torch2")
    by_rule = named.mask(is_megatron, pd.Series(megatron, index=runs.index))
    by_rule = by_rule.mask(is_composer, pd.Series(composer, index=runs.index))
    return runs["stack"].fillna(by_rule).astype("str")
