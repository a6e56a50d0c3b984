"""How far effects vary at each level, chosen on training rows: halves and doubles of round values, one after the other.

A choice must make rows better predicted without their publisher, without their release, and without their split group,
all in closed form, so that what it is reported on later took no part in it.
"""

from __future__ import annotations

from copy import copy
from dataclasses import replace
from typing import Final

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from surrogate.estimators.intervals import equal_weights
from surrogate.estimators.site_data import EffectScales, SiteData
from surrogate.estimators.site_effects import SiteEffects

ROWS_PER_SOURCE: Final = 25
"""Diverse rows of a source that take part in the choice: as telling as all, at a third of the time."""
MIN_FAMILIES: Final = 8
"""With fewer publishers nothing is chosen: their mean error says little about the next one."""
SMALLEST_GAIN: Final = 0.01
"""Of the mean log of the errors: a choice that brings less is left at the round value."""
DIRECTIONS: Final[tuple[tuple[str, ...], ...]] = (
    ("smooth",),
    ("site_smooth",),
    ("coefficients", "stack"),
    ("coefficients", "accelerator_family"),
    ("coefficients", "publisher_family", "release"),
    ("offsets", "stack", "accelerator_family"),
    ("offsets", "publisher_family", "release"),
)
"""Field of `EffectScales`, and the levels that move together where it has levels. The noise is not among them: repeats
say how large it is (data/README.md), and too small a one makes the model trust what it should average."""


def select_scales(data: SiteData, groups: NDArray[np.int64], start: EffectScales | None = None) -> EffectScales:
    """Choose scales by the closed-form errors of rows without their publisher, release and split group.

    Parameters
    ----------
    data : SiteData
        n measured rows.
    groups : ndarray of int, shape (n,)
        Split groups.
    start : EffectScales, optional
        Round values to start from.

    Returns
    -------
    EffectScales
        `start` where there are fewer than `MIN_FAMILIES` publishers.
    """
    best = start or EffectScales()
    if len(set(data.levels.publisher_family)) < MIN_FAMILIES:
        return best
    effects = SiteEffects(best).fit(data, groups)
    best = effects.scales
    error = _mean_log_error(effects, groups)
    for direction in DIRECTIONS:
        for factor in (0.5, 2.0):
            other = copy(effects)
            other.scales = _scaled(best, direction, factor)
            other.condition()
            other_error = _mean_log_error(other, groups)
            if other_error < error - SMALLEST_GAIN:
                best, error = other.scales, other_error
                break
    return best


def _mean_log_error(effects: SiteEffects, groups: NDArray[np.int64]) -> float:
    """Return the logarithm of the mean absolute error, releases weighing alike, averaged over what is left out."""
    levels = effects.levels_
    groupings = [pd.factorize(names)[0] for names in (levels.publisher_family, levels.release)]
    weights = equal_weights(levels.release)
    errors = effects.left_out_of_each([*groupings, groups])
    return float(np.mean([np.log(np.average(np.abs(error), weights=weights)) for error in errors]))


def _scaled(scales: EffectScales, direction: tuple[str, ...], factor: float) -> EffectScales:
    name, *levels = direction
    value = getattr(scales, name)
    moved = value | {level: value[level] * factor for level in levels} if levels else value * factor
    return replace(scales, **{name: moved})
