"""Columns that follow from a layout: what rules and conditions may read beside the searched ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from surrogate.analytic.workload import FloatArray
from surrogate.search.domains import RECOMPUTE_STEPS

Column = NDArray[Any]
Columns = Mapping[str, Column]


@dataclass(frozen=True, kw_only=True, slots=True)
class Derived:
    """One derived column."""

    needs: tuple[str, ...]
    of: Callable[[Columns], FloatArray]


def _data_parallel(c: Columns) -> FloatArray:
    return np.asarray(c["num_gpus"] / (c["tp"] * c["cp"] * c["pp"]))


def _microbatches(c: Columns) -> FloatArray:
    return np.asarray(c["global_batch_size"] / (c["dp"] * c["micro_batch_size"]))


def _layers_per_chunk(c: Columns) -> FloatArray:
    return np.asarray(np.ceil(c["num_layers"] / (c["pp"] * c["vp"])))


def _missing_layers(c: Columns) -> FloatArray:
    """Layers that would have to be added for equal chunks."""
    return np.asarray(c["layers_per_chunk"] * c["pp"] * c["vp"] - c["num_layers"])


def _expert_tensor(c: Columns) -> FloatArray:
    """Experts spread over expert parallel ranks are whole; the same rule fills `expert_tp` of a run."""
    return np.where(c["ep"] > 1, 1.0, c["tp"])


def recomputed_chunk_layers(share: Column, layers_per_chunk: Column) -> FloatArray:
    """Return the layers of a chunk that a share covers, rounded up."""
    return np.asarray(np.ceil(share * layers_per_chunk))


def _repeats_share(c: Columns) -> Column:
    """Tell which shares cover as many layers as the next smaller one, or all of them."""
    share, layers = c["recompute_share"], c["layers_per_chunk"]
    covered = recomputed_chunk_layers(share, layers)
    before = recomputed_chunk_layers(share - 1.0 / RECOMPUTE_STEPS, layers)
    return np.asarray((share < 1.0) & ((covered >= layers) | (covered == before)))


DERIVED: Final[Mapping[str, Derived]] = {
    "dp": Derived(needs=("num_gpus", "tp", "cp", "pp"), of=_data_parallel),
    "num_microbatches": Derived(needs=("global_batch_size", "dp", "micro_batch_size"), of=_microbatches),
    "layers_per_chunk": Derived(needs=("num_layers", "pp", "vp"), of=_layers_per_chunk),
    "missing_layers": Derived(needs=("layers_per_chunk", "pp", "vp", "num_layers"), of=_missing_layers),
    "expert_tp": Derived(needs=("ep", "tp"), of=_expert_tensor),
    "repeats_share": Derived(needs=("recompute_share", "layers_per_chunk"), of=_repeats_share),
}
