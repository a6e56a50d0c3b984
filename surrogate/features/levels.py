"""What runs may have in common, at five levels: stack, device, shape of the experts, publisher and release."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from surrogate.analytic.workload import FloatArray, Workload
from surrogate.features.columns import texts
from surrogate.features.workload import PreparedRuns

_YEAR_STEPS = 2.0
"""Releases of the same half-year are of the same age."""
UNKNOWN = ""
"""A site nobody measured: the population."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SiteLevels:
    """One name per level and row, shape (n,); an empty name shares its effect with no other row."""

    stack: NDArray[np.object_]
    accelerator_family: NDArray[np.object_]
    expert_shape: NDArray[np.object_]
    """Widths, number and choice of the experts; empty for a dense model."""
    publisher_family: NDArray[np.object_]
    release: NDArray[np.object_]
    year: FloatArray

    def __len__(self) -> int:
        return len(self.stack)

    def take(self, rows: NDArray[np.int64] | NDArray[np.bool_]) -> SiteLevels:
        """Return the selected rows."""
        return SiteLevels(
            stack=self.stack[rows],
            accelerator_family=self.accelerator_family[rows],
            expert_shape=self.expert_shape[rows],
            publisher_family=self.publisher_family[rows],
            release=self.release[rows],
            year=self.year[rows],
        )


def site_levels(runs: pd.DataFrame, prepared: PreparedRuns) -> SiteLevels:
    """Return the levels of n rows; a release is a source within its publisher family."""
    family = np.asarray(texts(runs, "publisher_family"), dtype=object)
    source = np.asarray(texts(runs, "source"), dtype=object)
    family = np.where(family == UNKNOWN, source, family)
    release = np.where(source == UNKNOWN, UNKNOWN, source + "|" + family)
    return SiteLevels(
        stack=np.asarray(prepared.stack.stack, dtype=object),
        accelerator_family=np.asarray(prepared.hardware.family, dtype=object),
        expert_shape=_expert_shapes(prepared.workload),
        publisher_family=family,
        release=release,
        year=np.round(prepared.stack.year * _YEAR_STEPS) / _YEAR_STEPS,
    )


def _expert_shapes(w: Workload) -> NDArray[np.object_]:
    """Return one name per shape of routed experts, whatever the number of layers, shape (n,)."""
    sizes = np.stack([w.hidden_size, w.moe_ffn_hidden_size, w.num_experts, w.moe_top_k], axis=1)
    distinct, of_row = np.unique(sizes, axis=0, return_inverse=True)
    names = [
        f"{hidden:.0f} x {width:.0f}, {top_k:.0f} of {count:.0f}" if count else UNKNOWN
        for hidden, width, count, top_k in distinct
    ]
    return np.array(names, dtype=object)[of_row]
