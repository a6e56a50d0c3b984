"""Site effects: one Gaussian model of log step time whose coefficients vary from site to site.

Notation (shapes): n training rows, k coefficients.

=========  ======  ====================================================================================
symbol     shape   meaning
=========  ======  ====================================================================================
J          (n, k)  derivative of the log analytic time by the log coefficients
S_l        (k,)    prior variance of a coefficient's deviation at level l (global, stack, ...)
M_l        (n, n)  1 where two rows share their level l, weighted by age for stacks
r          (n,)    log measured time less the analytic one, linearised at the prior
A          (n, n)  covariance of r: sum_l M_l (J S_l J' + c_l^2) + smooth kernels of the knobs + noise
alpha      (n,)    A^-1 r
=========  ======  ====================================================================================

Everything the model says follows by conditioning this Gaussian: the calibration of the population, a publisher's
habits, a user's own five runs, or one anchor.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve, solve_triangular

from surrogate.analytic.coefficients import LOG_SD, LOG_TEXTBOOK
from surrogate.analytic.step_terms import StepTerms
from surrogate.analytic.step_time import log_step_time, log_step_time_jacobian
from surrogate.analytic.workload import FloatArray
from surrogate.estimators.kernels import one_blas_thread, similarity_blocks, squared_distances
from surrogate.estimators.outliers import (
    group_surprises,
    left_out_surprise,
    noise_of_outliers,
    outlier_factor,
    widened,
)
from surrogate.estimators.prior_covariance import LinearisedRows, level_match, prior_covariance, symmetric_covariance
from surrogate.estimators.site_data import EffectScales, SharedPoints, SiteData, concatenated
from surrogate.estimators.sites import LEVELS, PUBLISHER_LEVELS, distinct_sites, is_among
from surrogate.features.levels import UNKNOWN, SiteLevels

_DAMPING = 0.6
"""Share of each Gauss-Newton step that is taken."""
SLOPE_STEP = 0.1
"""Share of the way to a site's coefficients over which the slope of log time is taken."""
_SMALLEST_SURPRISING_SD = 0.05
_WIDENINGS = 3
"""Rounds of measuring how far out publishers lie: each sees what the one before has widened."""
_BLOCK_ROWS = 4096
"""Rows whose terms stay in a core's cache while log time is evaluated a dozen times."""
_DIRECTIONS = 10
"""Main directions of a site's posterior that carry its variance to the step time."""
_TILED_ROWS = 512
"""Up to so many rows, log time at several points is evaluated in one call."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SiteEstimate:
    """What the model believes about n configurations before the residual."""

    log_time: FloatArray
    log_sd: FloatArray
    """Standard deviation of log time from coefficients, offsets and distance, shape (n,)."""
    similarity: FloatArray
    """Kernel similarity to the nearest measured row, in [0, 1]."""


class SmoothCorrection(NamedTuple):
    """The part of log time that knobs explain beyond the physics, each of shape (m,)."""

    log_time: FloatArray
    similarity: FloatArray
    """Kernel similarity to the nearest measured row, in [0, 1]."""
    local_similarity: FloatArray
    """The same among rows of the publisher family, over a shorter length; 0 where it has none."""


class SiteEffects:
    """Conditions the Gaussian on measured rows and predicts others.

    Parameters
    ----------
    scales : EffectScales
        Prior standard deviations by level.
    relinearisations : int
        Gauss-Newton steps after the first.
    """

    points_: SharedPoints
    levels_: SiteLevels
    knobs_: FloatArray
    jacobian_: FloatArray
    residual_: FloatArray
    noise_sd_: FloatArray
    covariance_factor_: tuple[FloatArray, bool]
    alpha_: FloatArray

    def __init__(self, scales: EffectScales | None = None, relinearisations: int = 4) -> None:
        self.scales = scales or EffectScales()
        self.relinearisations = relinearisations

    @one_blas_thread()
    def fit(self, data: SiteData, groups: NDArray[np.int64] | None = None) -> SiteEffects:
        """Condition on `data`, relinearising around what stacks and devices turn out to be.

        Parameters
        ----------
        data : SiteData
            n measured rows.
        groups : ndarray of int, shape (n,), optional
            Repeats of one configuration. Rows far from what the other groups say of them are trusted less.

        Returns
        -------
        SiteEffects
            With `points_`, `jacobian_`, `residual_`, `alpha_` and `covariance_factor_` of the last linearisation.
        """
        self.points_ = SharedPoints.textbook()
        self.scales = replace(self.scales, publisher_width={})
        for step in range(self.relinearisations + 1):
            self._linearise(data)
            self.condition()
            if step < self.relinearisations:
                self.points_ = self.points_.towards(self._shared_means(), _DAMPING)
        self._distrust_outliers(np.arange(len(data)) if groups is None else groups)
        self._widen_outlying_publishers()
        return self

    def extended(self, more: SiteData) -> SiteEffects:
        """Return effects that know `more` rows too, linearised where the others are.

        A row far from what all others say, the other new ones among them, is trusted less.
        """
        added = copy(self)
        added._linearise(more)
        factor, count = np.tril(self.covariance_factor_[0]), len(self.alpha_)
        cross = solve_triangular(factor, self.covariance(self.rows, added.rows), lower=True, check_finite=False)
        remaining = added._noisy_covariance() - cross.T @ cross
        known = solve_triangular(factor, self.residual_, lower=True, check_finite=False)
        doubt = outlier_factor(left_out_surprise(remaining, added.residual_ - cross.T @ known))
        remaining += np.diag((doubt**2 - 1.0) * (self.scales.noise_factor * more.noise_sd) ** 2)
        added.noise_sd_ = more.noise_sd * doubt
        longer = np.zeros((count + len(more), count + len(more)))
        longer[:count, :count] = factor
        longer[count:, :count] = cross.T
        longer[count:, count:] = np.linalg.cholesky(remaining)
        added.levels_ = SiteLevels(**concatenated(self.levels_, more.levels))
        for name in ("knobs_", "jacobian_", "residual_", "noise_sd_"):
            setattr(added, name, np.concatenate([getattr(self, name), getattr(added, name)]))
        added._solve(longer)
        return added

    def restricted(self, rows: NDArray[np.int64] | NDArray[np.bool_]) -> SiteEffects:
        """Return effects that know only these of their rows, linearised as before."""
        return next(self.restrictions([rows]))

    def restrictions(self, choices: Iterable[NDArray[np.int64] | NDArray[np.bool_]]) -> Iterator[SiteEffects]:
        """Yield effects restricted to each choice of rows."""
        covariance = self._noisy_covariance()
        for rows in choices:
            kept = copy(self)
            kept.levels_ = self.levels_.take(rows)
            for name in ("knobs_", "jacobian_", "residual_", "noise_sd_"):
                setattr(kept, name, getattr(self, name)[rows])
            with one_blas_thread():
                kept._solve(cho_factor(covariance[rows][:, rows], lower=True, check_finite=False)[0])
            yield kept

    def _widen_outlying_publishers(self) -> None:
        """Let publishers who lie far out keep their habits to themselves instead of moving what others get."""
        for _ in range(_WIDENINGS):
            surprises = group_surprises(self._inverse_covariance(), self.alpha_, self.levels_.publisher_family)
            width = widened(self.scales.publisher_width, surprises, largest=self.scales.largest_width)
            self.scales = replace(self.scales, publisher_width=width)
            self.condition()

    def _distrust_outliers(self, groups: NDArray[np.int64]) -> None:
        """Take for noise what lies more than 1.5 standard deviations from what other groups predict."""
        log_sd = np.maximum(1.0 / np.sqrt(np.diag(self._inverse_covariance())), _SMALLEST_SURPRISING_SD)
        factor = self.scales.noise_factor
        self.noise_sd_ = noise_of_outliers(factor * self.noise_sd_, self.left_out(groups), log_sd) / factor
        self.condition()

    def _inverse_covariance(self) -> FloatArray:
        return np.asarray(cho_solve(self.covariance_factor_, np.eye(len(self.alpha_)), check_finite=False))

    def left_out(self, groups: NDArray[np.int64]) -> FloatArray:
        """Return measured less predicted log time of each row without its group, in closed form, shape (n,)."""
        return self.left_out_of_each([groups])[0]

    @one_blas_thread()
    def left_out_of_each(self, groupings: Sequence[NDArray[np.int64]]) -> list[FloatArray]:
        """Return for several groupings measured less predicted log time of each row without its group.

        Notes
        -----
        ``e_g = [A^-1]_gg^-1 alpha_g`` (Rasmussen and Williams 2006, section 5.4.2, for blocks).
        """
        inverse = self._inverse_covariance()
        all_errors = []
        for groups in groupings:
            errors = np.empty(len(groups))
            order = np.argsort(groups, kind="stable")
            for rows in np.split(order, np.flatnonzero(np.diff(groups[order])) + 1):
                errors[rows] = np.linalg.solve(inverse[np.ix_(rows, rows)], self.alpha_[rows])
            all_errors.append(errors)
        return all_errors

    def knowledge(self, levels: SiteLevels) -> NDArray[np.object_]:
        """Return what is known about each row's site: release, family or population, shape (m,)."""
        release = is_among(levels.release, self.levels_.release)
        family = is_among(levels.publisher_family, self.levels_.publisher_family)
        return np.where(release, "release", np.where(family, "family", "population")).astype(object)

    def _linearise(self, data: SiteData) -> None:
        points = self.points_.at(data.levels)
        self.levels_, self.knobs_, self.noise_sd_ = data.levels, data.knobs, data.noise_sd
        # in the precision of saved models, so that a loaded one predicts the same digits
        self.jacobian_ = log_step_time_jacobian(data.terms, points).astype(np.float32).astype(np.float64)
        shift = np.einsum("nk,nk->n", self.jacobian_, points - LOG_TEXTBOOK)
        self.residual_ = data.log_time - log_step_time(data.terms, points) + shift

    @property
    def rows(self) -> LinearisedRows:
        """The known rows."""
        return LinearisedRows(self.jacobian_, self.levels_, self.knobs_)

    @one_blas_thread()
    def condition(self) -> None:
        """Solve for `alpha_` from what is known: levels, knobs, Jacobian, residual and noise."""
        covariance = self._noisy_covariance().T  # symmetric, and transposed it is factorised in place
        self._solve(cho_factor(covariance, lower=True, overwrite_a=True, check_finite=False)[0])

    def _noisy_covariance(self) -> FloatArray:
        covariance = symmetric_covariance(self.scales, self.rows)
        covariance[np.diag_indices_from(covariance)] += (self.scales.noise_factor * self.noise_sd_) ** 2
        return covariance

    def _solve(self, factor: FloatArray) -> None:
        self._directions: dict[tuple[object, ...], FloatArray] = {}
        self.covariance_factor_ = (factor, True)
        self.alpha_ = cho_solve(self.covariance_factor_, self.residual_, check_finite=False)

    def covariance(self, one: LinearisedRows, other: LinearisedRows) -> FloatArray:
        """Return the prior covariance between n and m rows, noise apart, shape (n, m)."""
        return prior_covariance(self.scales, one, other)

    def match(self, level: str, one: SiteLevels, other: SiteLevels) -> FloatArray:
        """Return the weight with which rows share a level, shape (n, m)."""
        return level_match(self.scales, level, one, other)

    def _shared_means(self) -> SharedPoints:
        """Return the posterior means at the levels that linearisation points follow."""
        weighted = LOG_SD**2 * self.jacobian_ * self.alpha_[:, None]
        scales = self.scales.coefficients

        def by_name(level: str) -> dict[str, FloatArray]:
            names = getattr(self.levels_, level)
            return {str(name): scales[level] ** 2 * weighted[names == name].sum(axis=0) for name in pd.unique(names)}

        return SharedPoints(
            population=LOG_TEXTBOOK + scales["global"] ** 2 * weighted.sum(axis=0),
            by_stack=by_name("stack"),
            by_family=by_name("accelerator_family"),
        )

    def coefficients(self, levels: SiteLevels, *, shared_by: tuple[str, ...] = LEVELS) -> FloatArray:
        """Return the posterior mean log coefficients per row from the global level and `shared_by`, shape (m, k)."""
        weighted = self.jacobian_ * self.alpha_[:, None]
        scales = self.scales.coefficients
        deviation = np.tile(scales["global"] ** 2 * weighted.sum(axis=0), (len(levels), 1))
        for level in shared_by:
            deviation += scales[level] ** 2 * (self.match(level, levels, self.levels_) @ weighted)
        coefficients: FloatArray = LOG_TEXTBOOK + LOG_SD**2 * deviation
        return coefficients

    def linearisation_points(self, levels: SiteLevels) -> FloatArray:
        """Return the log coefficients around which rows are linearised: population, stack and device, shape (m, k)."""
        return self.points_.at(levels)

    def offsets(self, levels: SiteLevels) -> FloatArray:
        """Return the posterior mean of the sum of all levels' offsets of log time, shape (m,)."""
        total = np.full(len(levels), self.scales.offsets["global"] ** 2 * self.alpha_.sum())
        for level in LEVELS:
            total += self.scales.offsets[level] ** 2 * (self.match(level, levels, self.levels_) @ self.alpha_)
        return total

    def smooth(self, levels: SiteLevels, knobs: FloatArray) -> SmoothCorrection:
        """Return the smooth correction of log time, with the similarity to the nearest measured rows."""
        s = self.scales
        weights = (s.smooth**2 * self.alpha_).astype(np.float32)
        correction, similarity = np.empty(len(knobs)), np.empty(len(knobs))
        for rows, kernel in similarity_blocks(knobs * s.knob_factors, self.knobs_ * s.knob_factors, s.smooth_length):
            correction[rows] = kernel @ weights
            similarity[rows] = kernel.max(axis=1)
        local = np.zeros(len(knobs))
        for family in set(levels.publisher_family) - {UNKNOWN}:
            known = self.levels_.publisher_family == family
            if known.any():
                own = np.flatnonzero(levels.publisher_family == family)
                near = squared_distances(knobs[own], self.knobs_[known])
                near = np.exp(near * (-0.5 / s.site_smooth_length**2))
                correction[own] += s.site_smooth**2 * (near @ self.alpha_[known])
                local[own] = near.max(axis=1)
        return SmoothCorrection(correction, similarity, local)

    @one_blas_thread()
    def predict(
        self, terms: StepTerms, levels: SiteLevels, knobs: FloatArray, *, with_spread: bool = True
    ) -> SiteEstimate:
        """Return log step time and its standard deviation for m configurations.

        Parameters
        ----------
        terms, levels, knobs
            As in `SiteData`, m rows.
        with_spread : bool
            Whether the standard deviation is wanted; 0 otherwise.

        Returns
        -------
        SiteEstimate
            Arrays of shape (m,).
        """
        smooth = self.smooth(levels, knobs)
        log_time, variance = np.empty(len(levels)), np.empty(len(levels))
        for of_site, site in distinct_sites(levels):
            point, offset = self.linearisation_points(site)[0], self.offsets(site)[0]
            towards_site = SLOPE_STEP * (self.coefficients(site)[0] - point)
            directions = self._main_directions(site) if with_spread else np.zeros((0, len(point) + 1))
            for rows in np.array_split(of_site, len(of_site) // _BLOCK_ROWS + 1):
                block = terms if len(rows) == len(levels) else terms.take(rows)
                points = np.vstack([point, point + towards_site, point + 0.5 * directions[:, :-1]])
                base, moved, *ahead = _log_times(block, points)
                log_time[rows] = base + (moved - base) / SLOPE_STEP + offset
                variance[rows] = sum(
                    (2.0 * (there - base) + shift) ** 2 for there, shift in zip(ahead, directions[:, -1], strict=True)
                )
        far = self.scales.smooth**2 * (1.0 - smooth.similarity**2)
        new = self.scales.site_smooth**2 * (1.0 - smooth.local_similarity**2)
        return SiteEstimate(
            log_time=log_time + smooth.log_time,
            log_sd=np.sqrt(variance + far + new),
            similarity=smooth.similarity,
        )

    @one_blas_thread()
    def site_covariance(self, site: SiteLevels) -> FloatArray:
        """Return the posterior covariance of one site's log coefficients and offset, shape (k + 1, k + 1)."""
        s = self.scales
        matches = {level: self.match(level, site, self.levels_)[0] for level in LEVELS}
        known = [level for level in LEVELS if getattr(site, level)[0] != UNKNOWN]
        reach = s.coefficients["global"] ** 2 + sum(s.coefficients[level] ** 2 * matches[level] for level in LEVELS)
        shift = s.offsets["global"] ** 2 + sum(s.offsets[level] ** 2 * matches[level] for level in LEVELS)
        cross = np.vstack([LOG_SD[:, None] ** 2 * (self.jacobian_ * np.reshape(reach, (-1, 1))).T, shift[None, :]])
        width = s.widths(site.publisher_family)[0]
        weights = {level: width if level in PUBLISHER_LEVELS else 1.0 for level in LEVELS if known} | {"global": 1.0}
        prior = np.append(
            LOG_SD**2 * sum(weight * s.coefficients[level] ** 2 for level, weight in weights.items()),
            sum(weight * s.offsets[level] ** 2 for level, weight in weights.items()),
        )
        whitened = solve_triangular(self.covariance_factor_[0], cross.T, lower=True, check_finite=False)
        return np.asarray(np.diag(prior) - whitened.T @ whitened)

    def _main_directions(self, site: SiteLevels) -> FloatArray:
        """Return the main directions of a site's posterior, one standard deviation long, shape (d, k + 1)."""
        key = (*(getattr(site, level)[0] for level in LEVELS), site.year[0])
        if key not in self._directions:
            self._directions[key] = _main_directions(self.site_covariance(site))
        return self._directions[key]


def _main_directions(covariance: FloatArray) -> FloatArray:
    values, vectors = np.linalg.eigh(covariance)
    main = np.argsort(values)[::-1][:_DIRECTIONS]
    main = main[values[main] > 0.0]
    directions: FloatArray = np.sqrt(values[main])[:, None] * vectors[:, main].T
    return directions


def _log_times(terms: StepTerms, points: FloatArray) -> FloatArray:
    """Return log time of m configurations at p log coefficient vectors of shape (p, k), shape (p, m)."""
    if len(terms) * len(points) > _TILED_ROWS:
        return np.stack([log_step_time(terms, point) for point in points])
    tiled = terms.take(np.tile(np.arange(len(terms)), len(points)))
    return log_step_time(tiled, np.repeat(points, len(terms), axis=0)).reshape(len(points), len(terms))
