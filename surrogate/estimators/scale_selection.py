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

from surrogate.analytic.workload import FloatArray
from surrogate.estimators.site_data import EffectScales, SiteData
from surrogate.estimators.site_effects import SiteEffects

ROWS_PER_SOURCE: Final = 25
"""Diverse rows of a source that take part in the choice: as telling as all, at a third of the time."""
MIN_FAMILIES: Final = 8
"""With fewer publishers nothing is chosen: their mean error says little about the next one."""
BEYOND_LUCK: Final = 2.0
"""Standard errors over publishers by which a choice must make errors smaller; otherwise the round value stays."""
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
    errors = _publishers_errors(effects, groups)
    for direction in DIRECTIONS:
        for factor in (0.5, 2.0):
            other = copy(effects)
            other.scales = _scaled(best, direction, factor)
            other.condition()
            other_errors = _publishers_errors(other, groups)
            if _is_better(other_errors, errors):
                best, errors = other.scales, other_errors
                break
    return best


def _publishers_errors(effects: SiteEffects, groups: NDArray[np.int64]) -> FloatArray:
    """Return each publisher's mean absolute error, releases weighing alike, by what is left out, shape (3, p)."""
    levels = effects.levels_
    groupings = [pd.factorize(names)[0] for names in (levels.publisher_family, levels.release)]
    errors = pd.DataFrame(effects.left_out_of_each([*groupings, groups])).T.abs()
    by_release = errors.groupby([levels.publisher_family, levels.release]).mean()
    return by_release.groupby(level=0).mean().to_numpy().T


def _is_better(errors: FloatArray, than: FloatArray) -> bool:
    """Return whether publishers' errors are smaller by more than the luck of which publishers there are."""
    gain = ((than - errors) / than.mean(axis=1, keepdims=True)).mean(axis=0)
    return bool(gain.mean() > BEYOND_LUCK * gain.std(ddof=1) / np.sqrt(len(gain)))


def _scaled(scales: EffectScales, direction: tuple[str, ...], factor: float) -> EffectScales:
    name, *levels = direction
    value = getattr(scales, name)
    moved = value | {level: value[level] * factor for level in levels} if levels else value * factor
    return replace(scales, **{name: moved})
