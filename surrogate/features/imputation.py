"""Rules for what a row does not say. Filled cells are flagged, so that predictions can tell them.

The rules follow what frameworks did by default when they did not print the setting; docs/imputation.md lists them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from surrogate.analytic.workload import BoolArray, FloatArray
from surrogate.features.columns import numbers

DEFAULT_YEAR = 2026.6
"""Plans carry no date: their software is taken to be as new as the newest measured run (August 2026)."""

DEFAULT_VOCAB_SIZE = 51200.0
"""GPT-2's vocabulary padded to a multiple of 1024, as Megatron's benchmarks train with."""


@dataclass
class Imputer:
    """Fills missing cells of one table and remembers which."""

    runs: pd.DataFrame
    missing: dict[str, BoolArray] = field(default_factory=dict)

    def fill(self, column: str, default: NDArray[np.floating[Any]] | float) -> FloatArray:
        """Return a numeric or boolean column with its missing cells taken from `default`, shape (n,)."""
        values = numbers(self.runs, column)
        absent = np.isnan(values)
        self.missing[column] = absent
        return np.where(absent, default, values)

    def flag(self, column: str, absent: BoolArray) -> None:
        """Remember that a text column was filled on these rows."""
        self.missing[column] = absent

    def imputed_columns(self, relevant: dict[str, BoolArray] | None = None) -> list[list[str]]:
        """Return the names of the filled columns per row; where `relevant` has a column, only on those rows."""
        relevant = relevant or {}
        names: list[list[str]] = [[] for _ in range(len(self.runs))]
        for column, absent in self.missing.items():
            for row in np.flatnonzero(absent & relevant.get(column, np.True_)):
                names[row].append(column)
        return names


def default_micro_batch_size(*, num_params: FloatArray, sequences_per_rank: FloatArray) -> FloatArray:
    """Return 1 above 8e9 parameters, else the largest of 4, 2, 1 that divides the rank's sequences."""
    divides_4 = np.mod(sequences_per_rank, 4.0) == 0.0
    divides_2 = np.mod(sequences_per_rank, 2.0) == 0.0
    small = np.where(divides_4, 4.0, np.where(divides_2, 2.0, 1.0))
    return np.where(num_params > 8e9, 1.0, small)


def default_expert_parallel_size(*, num_experts: FloatArray, ranks: FloatArray) -> FloatArray:
    """Return the largest power of two within the experts, the data x context ranks and 64; 1 for dense models."""
    most = np.maximum(np.minimum(np.minimum(num_experts, ranks), 64.0), 1.0)
    return np.where(num_experts > 0.0, 2.0 ** np.floor(np.log2(most)), 1.0)


def default_expert_tensor_size(*, ep: FloatArray, tp: FloatArray) -> FloatArray:
    """Return 1 where experts are spread over expert parallel ranks, else the tensor parallel size."""
    return np.where(ep > 1.0, 1.0, tp)


def default_virtual_stages(*, num_layers: FloatArray, pp: FloatArray, interleaves: BoolArray) -> FloatArray:
    """Return 3 chunks for stacks that interleave by default and whose stages divide by 3, else 1."""
    return np.where(interleaves & (pp > 1.0) & (np.mod(num_layers / pp, 3.0) == 0.0), 3.0, 1.0)
