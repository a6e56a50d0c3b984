"""Fronts: candidates that no other beats in every objective; all losses are to be made small."""

from __future__ import annotations

from typing import Final

import numpy as np

from surrogate.analytic.workload import BoolArray, FloatArray

_ROWS: Final = 4096


def is_dominated_by(losses: FloatArray, front: FloatArray) -> BoolArray:
    """Tell which rows some member of a front equals or beats in every objective, shape (n,).

    Parameters
    ----------
    losses : ndarray, shape (n, objectives)
    front : ndarray, shape (m, objectives)

    Examples
    --------
    >>> is_dominated_by(np.array([[2.0, 2.0], [0.5, 3.0]]), np.array([[1.0, 1.0]])).tolist()
    [True, False]
    """
    dominated = np.zeros(len(losses), dtype=np.bool_)
    for start in range(0, len(losses), _ROWS):
        rows = slice(start, start + _ROWS)
        beaten: BoolArray = np.all(front[None, :, :] <= losses[rows, None, :], axis=2)
        dominated[rows] = np.any(beaten, axis=1)
    return dominated


def non_dominated(losses: FloatArray) -> BoolArray:
    """Tell which rows no other row beats; of equal rows the first stays, shape (n,).

    Notes
    -----
    In lexicographic order a row can only be dominated by one before it, so that one pass over a growing front does.

    Examples
    --------
    >>> non_dominated(np.array([[1.0, 3.0], [2.0, 2.0], [2.0, 4.0], [1.0, 3.0]])).tolist()
    [True, True, False, False]
    """
    order = np.lexsort(losses.T[::-1])
    front = np.empty((0, losses.shape[1]))
    kept = np.zeros(len(losses), dtype=np.bool_)
    for start in range(0, len(order), _ROWS):
        rows = order[start : start + _ROWS]
        rows = rows[~is_dominated_by(losses[rows], front)] if len(front) else rows
        for row in rows:
            if not len(front) or not (front <= losses[row]).all(axis=1).any():
                front = np.vstack([front, losses[row]])
                kept[row] = True
    return kept
