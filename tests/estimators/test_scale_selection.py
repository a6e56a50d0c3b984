"""Scales are chosen on training rows alone, and only where the choice pays."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from surrogate.estimators.scale_selection import DIRECTIONS, MIN_FAMILIES, select_scales
from surrogate.estimators.site_data import EffectScales, SiteData


def scale_of(scales: EffectScales, direction: tuple[str, ...]) -> float:
    name, *levels = direction
    value = getattr(scales, name)
    return float(value[levels[0]] if levels else value)


@pytest.fixture(scope="module")
def some(site_rows: SiteData) -> SiteData:
    """Return every other row."""
    return site_rows.take(np.arange(0, len(site_rows), 2))


def test_every_scale_is_a_half_the_whole_or_the_double_of_where_it_started(some):
    start, chosen = EffectScales(), select_scales(some, np.arange(len(some)))
    for direction in DIRECTIONS:
        assert scale_of(chosen, direction) / scale_of(start, direction) in (0.5, 1.0, 2.0)


@pytest.mark.parametrize("direction", [("smooth",), ("coefficients", "stack"), ("coefficients", "accelerator_family")])
def test_a_scale_far_too_large_is_halved(some, direction):
    name, *levels = direction
    value = getattr(EffectScales(), name)
    far = value | {level: 16.0 * value[level] for level in levels} if levels else 16.0 * value
    wild = replace(EffectScales(), **{name: far})
    chosen = select_scales(some, np.arange(len(some)), wild)
    assert scale_of(chosen, direction) == 0.5 * scale_of(wild, direction)


def test_what_may_be_luck_changes_nothing(some):
    """Half of the doubled scale errs less on average, but not by two standard errors over publishers."""
    start = EffectScales()
    doubled = replace(start, coefficients=start.coefficients | {"stack": 2.0 * start.coefficients["stack"]})
    assert select_scales(some, np.arange(len(some)), doubled).coefficients["stack"] == doubled.coefficients["stack"]


def test_few_publishers_choose_nothing(some):
    families = some.levels.publisher_family
    known = np.isin(families, np.unique(families)[: MIN_FAMILIES - 1])
    few = some.take(known)
    assert select_scales(few, np.arange(len(few))) == EffectScales()
