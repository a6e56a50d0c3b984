"""The prior covariance of log times: what rows share through physics, sites and similar knobs, noise apart.

A pair of rows shares a level's variance where both have its name, so that all levels together are one factor on
the physics and one added offset per pair of *sites*, of which there are a dozen times fewer than rows.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from surrogate.analytic.coefficients import LOG_SD
from surrogate.analytic.workload import FloatArray
from surrogate.estimators.kernels import squared_distances
from surrogate.estimators.site_data import EffectScales
from surrogate.estimators.sites import LEVELS, PUBLISHER_LEVELS, blocks_of_equal_names, distinct_sites, same_names
from surrogate.features.levels import SiteLevels

_TILE_ROWS: Final = 256
"""Rows of a symmetric covariance made at once: what lies below the diagonal is copied."""


class LinearisedRows(NamedTuple):
    """What prior covariances between rows are made of, n rows."""

    jacobian: FloatArray
    """Shape (n, k)."""
    levels: SiteLevels
    knobs: FloatArray
    """Shape (n, d)."""

    def take(self, start: int, stop: int) -> LinearisedRows:
        """Return the rows from `start` up to `stop`."""
        rows = np.arange(start, stop)
        return LinearisedRows(self.jacobian[start:stop], self.levels.take(rows), self.knobs[start:stop])


def prior_covariance(scales: EffectScales, one: LinearisedRows, other: LinearisedRows) -> FloatArray:
    """Return the prior covariance between n and m rows, shape (n, m)."""
    return _covariance(scales, one, other, _shared_variances(scales, one.levels, other.levels))


def symmetric_covariance(scales: EffectScales, rows: LinearisedRows) -> FloatArray:
    """Return the prior covariance of n rows with each other, shape (n, n)."""
    count = len(rows.levels)
    shared = _shared_variances(scales, rows.levels, rows.levels)
    covariance = np.empty((count, count))
    for start in range(0, count, _TILE_ROWS):
        stop = min(start + _TILE_ROWS, count)
        tile = _covariance(scales, rows.take(start, stop), rows.take(start, count), shared.from_row(start, stop))
        covariance[start:stop, start:] = tile
        covariance[stop:, start:stop] = tile[:, stop - start :].T
    return covariance


def level_match(scales: EffectScales, level: str, one: SiteLevels, other: SiteLevels) -> FloatArray:
    """Return the weight with which n and m rows share a level, shape (n, m).

    A stack's habits fade with age; publishers who lie far out weigh more than 1.
    """
    same = same_names(getattr(one, level), getattr(other, level)).astype(np.float64)
    if level == "stack":
        same *= np.exp(-np.abs(one.year[:, None] - other.year[None, :]) / scales.stack_memory_years)
    if level in PUBLISHER_LEVELS and scales.publisher_width:
        same *= scales.widths(one.publisher_family)[:, None]
    return same


class _SharedVariances(NamedTuple):
    """What the sites of n rows share with those of m others."""

    slopes: FloatArray
    """Factor on the physics by pair of sites."""
    offsets: FloatArray
    """Variance of the offsets of log time by pair of sites."""
    codes: NDArray[np.int64]
    """Site of each row, shape (n,)."""
    other_codes: NDArray[np.int64]
    """Site of each other row, shape (m,)."""

    def from_row(self, start: int, stop: int) -> _SharedVariances:
        """Return that of rows up to `stop` with all others, both from `start` on."""
        return self._replace(codes=self.codes[start:stop], other_codes=self.other_codes[start:])


def _shared_variances(scales: EffectScales, one: SiteLevels, other: SiteLevels) -> _SharedVariances:
    codes, sites = _site_codes(one)
    other_codes, other_sites = (codes, sites) if other is one else _site_codes(other)
    slopes = np.full((len(sites), len(other_sites)), scales.coefficients["global"] ** 2)
    offsets = np.full_like(slopes, scales.offsets["global"] ** 2)
    for level in LEVELS:
        match = level_match(scales, level, sites, other_sites)
        slopes += scales.coefficients[level] ** 2 * match
        offsets += scales.offsets[level] ** 2 * match
    return _SharedVariances(slopes, offsets, codes, other_codes)


def _covariance(
    scales: EffectScales, one: LinearisedRows, other: LinearisedRows, shared: _SharedVariances
) -> FloatArray:
    total: FloatArray = (one.jacobian * LOG_SD**2) @ other.jacobian.T
    total *= np.take(shared.slopes, shared.other_codes, axis=1)[shared.codes]
    total += np.take(shared.offsets, shared.other_codes, axis=1)[shared.codes]
    for rows, columns in blocks_of_equal_names(one.levels.publisher_family, other.levels.publisher_family):
        distance2 = squared_distances(one.knobs[rows.ravel()], other.knobs[columns.ravel()])
        total[rows, columns] += scales.site_smooth**2 * np.exp(distance2 * (-0.5 / scales.site_smooth_length**2))
    factors = scales.knob_factors
    distance2 = squared_distances(one.knobs * factors, other.knobs * factors)
    distance2 *= -0.5 / scales.smooth_length**2
    similarity = np.exp(distance2, out=distance2)
    similarity *= scales.smooth**2
    total += similarity
    return total


def _site_codes(levels: SiteLevels) -> tuple[NDArray[np.int64], SiteLevels]:
    """Return each row's position among the distinct sites (shape (n,)), and those sites."""
    codes = np.empty(len(levels), dtype=np.int64)
    rows_by_site = [rows for rows, _ in distinct_sites(levels)]
    for code, rows in enumerate(rows_by_site):
        codes[rows] = code
    return codes, levels.take(np.concatenate([rows[:1] for rows in rows_by_site]))
