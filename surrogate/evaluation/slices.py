"""Parts of a runs table that are scored apart, because an average over all rows hides them."""

from __future__ import annotations

from typing import Final

import numpy as np
import pandas as pd

from surrogate.analytic.workload import BoolArray, FloatArray
from surrogate.catalog import load_accelerators
from surrogate.features.columns import lookup, numbers, texts
from surrogate.features.hardware import accelerator_family

SWEEP_FAMILIES: Final = ("vtrain", "mosaicml", "aleph-alpha")
"""Publisher families of the three large A100 sweeps: 56 % of the shipped measured rows."""
NEW_FAMILIES: Final = ("H100", "Blackwell")
LOW_PRECISIONS: Final = ("fp8", "mxfp8", "nvfp4")
LARGE_SCALE_GPUS: Final = 1024.0
ALL_ROWS: Final = "all"


def slice_masks(runs: pd.DataFrame) -> dict[str, BoolArray]:
    """Return which of n rows belong to each named slice, shape (n,) each; the first is all rows."""
    sweep = np.isin(np.asarray(texts(runs, "publisher_family"), dtype=object), SWEEP_FAMILIES)
    moe = np.nan_to_num(numbers(runs, "num_experts")) > 0.0
    known = settings_known(runs)
    masks = {
        ALL_ROWS: np.ones(len(runs), dtype=np.bool_),
        "A100 sweeps": sweep,
        "without the sweeps": ~sweep,
        "H100 and newer": np.isin(accelerator_families(runs), NEW_FAMILIES),
        "MoE": moe,
        "dense": ~moe,
        "FP8/FP4": np.isin(np.asarray(texts(runs, "precision"), dtype=object), LOW_PRECISIONS),
        ">= 1,024 accelerators": numbers(runs, "num_gpus") >= LARGE_SCALE_GPUS,
        "settings known": known,
        "settings unknown": ~known,
    }
    return {name: np.asarray(mask, dtype=np.bool_) for name, mask in masks.items()}


def accelerator_families(runs: pd.DataFrame) -> np.typing.NDArray[np.object_]:
    """Return V100, A100, H100, Blackwell, TPU or other per row, shape (n,)."""
    index = load_accelerators()
    families = lookup(texts(runs, "accelerator"), lambda name: accelerator_family(index[name]), object)
    return np.asarray(families, dtype=object)


def settings_known(runs: pd.DataFrame) -> BoolArray:
    """Return where a row says how it recomputes, computes attention, shards and batches, shape (n,)."""

    def given(*columns: str) -> BoolArray:
        present: list[FloatArray | BoolArray] = [
            runs[column].notna().to_numpy() for column in columns if column in runs.columns
        ]
        return np.asarray(np.any(present, axis=0)) if present else np.zeros(len(runs), dtype=np.bool_)

    return (
        given("recompute", "recompute_kind")
        & given("flash_attention", "attention_backend")
        & given("zero_stage", "fsdp")
        & given("micro_batch_size")
    )
