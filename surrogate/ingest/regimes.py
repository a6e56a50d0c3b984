"""Lasting changes of level in a series: found, so that two speeds are not averaged into one that never was."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

SMALLEST_CHANGE: Final = 0.05
"""Relative change of level below which two stretches are one regime."""
_FEWEST_RECORDS: Final = 5
_MOST_REGIMES: Final = 12
_WINDOW: Final = 20  # records on each side that must differ
_NOISE_FACTOR: Final = 1.5  # a change must exceed this many robust standard deviations of the records around it


def split_regimes(log_values: NDArray[np.float64]) -> list[int]:
    """Cut a series where its level changes for good.

    Binary segmentation: each stretch is cut where the cumulative sum of its winsorised deviations from the median
    is largest, if the medians of the twenty records on either side then differ enough. Linear in the length for
    each of at most twelve cuts.

    Parameters
    ----------
    log_values : ndarray, shape (n,)
        Natural logarithm of the step times, in order.

    Returns
    -------
    list of int
        Boundaries: 0, the cuts, n.

    Examples
    --------
    >>> split_regimes(np.log(np.r_[np.full(20, 3.4), np.full(10, 5.1)]))
    [0, 20, 30]
    """
    bounds = [0, log_values.size]
    open_stretches = [(0, log_values.size)]
    while open_stretches and len(bounds) <= _MOST_REGIMES:
        begin, end = open_stretches.pop()
        cut = _best_cut(log_values[begin:end])
        if cut is not None:
            bounds.append(begin + cut)
            open_stretches += [(begin, begin + cut), (begin + cut, end)]
    return sorted(bounds)


def _best_cut(stretch: NDArray[np.float64]) -> int | None:
    if stretch.size < 2 * _FEWEST_RECORDS:
        return None
    centre = np.median(stretch)
    spread = 1.4826 * float(np.median(np.abs(stretch - centre)))
    clipped = np.clip(stretch - centre, -max(3 * spread, 0.5), max(3 * spread, 0.5))
    drift = np.abs(np.cumsum(clipped - clipped.mean()))[_FEWEST_RECORDS - 1 : -_FEWEST_RECORDS]
    cut = int(np.argmax(drift)) + _FEWEST_RECORDS
    left, right = stretch[max(0, cut - _WINDOW) : cut], stretch[cut : cut + _WINDOW]
    levels = float(np.median(left)), float(np.median(right))
    noise = 1.4826 * max(
        float(np.median(np.abs(left - levels[0]))),
        float(np.median(np.abs(right - levels[1]))),
    )
    change = abs(levels[1] - levels[0])
    return cut if change > max(np.log1p(SMALLEST_CHANGE), _NOISE_FACTOR * noise) else None
