"""Sets of time intervals as sorted arrays of starts and ends: union, length, clipping, overlap. No loops."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

IntArray = NDArray[np.int64]


class Intervals(NamedTuple):
    """Disjoint intervals in order: ``start``, ``end``, both of shape (n,), in clock units (ns)."""

    start: IntArray
    end: IntArray

    @property
    def length(self) -> int:
        """Total length in clock units."""
        return int(np.sum(self.end - self.start))


def union(start: IntArray, end: IntArray) -> Intervals:
    """Merge overlapping and touching intervals.

    Parameters
    ----------
    start, end : array of int, shape (n,)
        Any order, ``end >= start``.

    Examples
    --------
    >>> union(np.array([0, 5, 2]), np.array([3, 6, 4]))
    Intervals(start=array([0, 5]), end=array([4, 6]))
    """
    if not len(start):
        return Intervals(np.zeros(0, np.int64), np.zeros(0, np.int64))
    order = np.argsort(start, kind="stable")
    start, reached = start[order], np.maximum.accumulate(end[order])
    opens = np.concatenate([[True], start[1:] > reached[:-1]])
    closes = np.concatenate([opens[1:], [True]])
    return Intervals(start[opens], reached[closes])


def clip(intervals: Intervals, low: int, high: int) -> Intervals:
    """Keep the parts inside [low, high]."""
    start, end = np.maximum(intervals.start, low), np.minimum(intervals.end, high)
    inside = end > start
    return Intervals(start[inside], end[inside])


def overlap_length(one: Intervals, other: Intervals) -> int:
    """Return the length of the intersection: |A| + |B| - |A or B|.

    Examples
    --------
    >>> overlap_length(union(np.array([0]), np.array([4])), union(np.array([3, 8]), np.array([6, 9])))
    1
    """
    both = union(np.concatenate([one.start, other.start]), np.concatenate([one.end, other.end]))
    return one.length + other.length - both.length
