"""The memory model's view of a row: bytes by item, and which items a way of measuring sees."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from surrogate.analytic.memory import TEXTBOOK, MemoryBreakdown, MemoryCoefficients
from surrogate.analytic.workload import FloatArray

PeakKind = Literal["allocated", "reserved", "device"]

PRIOR_COEFFICIENTS: Final[MemoryCoefficients] = replace(TEXTBOOK, gathered_input_share=0.1)
"""Textbook, but for gathered inputs: a share that is 0 could not be learnt by a factor."""

ITEM_NAMES: Final[tuple[str, ...]] = tuple(
    field.name for field in fields(MemoryBreakdown) if field.name not in ("stage", "host_bytes")
)

_UNSEEN: Final[dict[PeakKind, frozenset[str]]] = {
    "allocated": frozenset({"fragmentation_bytes", "context_bytes"}),
    "reserved": frozenset({"context_bytes"}),
    "device": frozenset(),
}

_TOGETHER: Final[dict[str, str]] = {
    "gradients_bytes": "weights_bytes",
    "communication_bytes": "transient_bytes",
    "gathered_parameters_bytes": "transient_bytes",
    "embedding_bytes": "norm_activations_bytes",
    "fragmentation_bytes": "context_bytes",
}
"""Items whose site effects are one: a site's few rows cannot tell them apart."""

_EFFECT_NAMES: Final[tuple[str, ...]] = tuple(name for name in ITEM_NAMES if name not in _TOGETHER)

ITEM_EFFECT: Final[NDArray[np.int64]] = np.array(
    [_EFFECT_NAMES.index(_TOGETHER.get(name, name)) for name in ITEM_NAMES], dtype=np.int64
)
"""For each item the site effect that scales it, shape (num_items,)."""

NUM_ITEMS: Final = len(ITEM_NAMES)
NUM_EFFECTS: Final = len(_EFFECT_NAMES)


def item_table(breakdown: MemoryBreakdown) -> FloatArray:
    """Stack a breakdown's device items into an array of shape (n, num_items)."""
    return np.column_stack([getattr(breakdown, name) for name in ITEM_NAMES])


def scaled_breakdown(breakdown: MemoryBreakdown, factors: FloatArray) -> MemoryBreakdown:
    """Multiply each item by its factor (shape (n, num_items)); stage and host bytes stay."""
    items = {name: getattr(breakdown, name) * factors[:, index] for index, name in enumerate(ITEM_NAMES)}
    return replace(breakdown, **items)


def seen_items(kinds: NDArray[np.str_]) -> FloatArray:
    """Mark with 1 the items that each row's way of measuring sees, shape (n, num_items)."""
    seen = np.ones((len(kinds), NUM_ITEMS))
    for kind, unseen in _UNSEEN.items():
        columns = [index for index, name in enumerate(ITEM_NAMES) if name in unseen]
        seen[np.ix_(kinds == kind, columns)] = 0.0
    return seen


def effect_shares(item_shares: FloatArray) -> FloatArray:
    """Sum item shares (shape (n, num_items)) by the site effect that scales them, shape (n, num_effects)."""
    shares = np.zeros((len(item_shares), NUM_EFFECTS))
    np.add.at(shares.T, ITEM_EFFECT, item_shares.T)
    return shares
