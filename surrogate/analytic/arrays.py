"""What analytic functions take and give: numbers or arrays that broadcast against each other."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np

from surrogate.analytic.workload import BoolArray, FloatArray, IntArray

FloatLike: TypeAlias = float | FloatArray
IntLike: TypeAlias = int | IntArray
BoolLike: TypeAlias = bool | BoolArray


def as_floats(value: FloatLike | BoolLike) -> FloatArray:
    """Return `value` as a float64 array without a needless copy; a number becomes a 0-d array, a flag 0 or 1."""
    return np.asarray(value, dtype=np.float64)
