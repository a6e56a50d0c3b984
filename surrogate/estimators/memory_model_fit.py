"""Posterior of the item factors: a mixed model of log peaks, exact rows and censored rows together.

Notation: row i has item bytes A_ik (k items); item k is scaled by exp(z_ik), z_ik = w_k + sum over levels of the effect
of the row's site on k's group; f_i = log sum_k A_ik exp(z_ik) is the predicted log peak, S_ik = A_ik exp(z_ik)/exp(f_i)
its shares, which are also its derivatives. theta stacks w and all site effects; J is the derivative of f by theta.

Rows that publish a peak y_i: Student-t around f_i with scale sigma (a published peak can be a misprint). Rows that ran
without one: probit P(f_i + noise < log usable). Rows that ran out of memory: the complement. theta is Gaussian around
the textbook (0): w_k with a fixed scale, site effects with a variance per level and effect that the data set (EM).
The posterior is Laplace's. Leaving a block out is closed form on it (one Newton step back).

References
----------
Tobit: Tobin 1958. Laplace and EM for variance components: MacKay 1992; Bishop, Pattern Recognition, 3.5 and 4.4.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final, NamedTuple

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.special import log_ndtr

from surrogate.analytic.workload import BoolArray, FloatArray, IntArray
from surrogate.estimators.memory_model_items import ITEM_EFFECT, NUM_EFFECTS, NUM_ITEMS, effect_shares
from surrogate.estimators.memory_model_posterior import Posterior, log_peak
from surrogate.estimators.memory_model_sites import UNKNOWN

DEGREES_OF_FREEDOM: Final = 4.0
"""Of the Student-t: heavy enough for a misprinted peak, light enough to use every other."""

EM_STEPS: Final = 8
NEWTON_STEPS_FIRST: Final = 6
NEWTON_STEPS: Final = 3
VARIANCE_BOUNDS: Final = (1e-4, 0.25)
"""A site may move an item by a factor of e^0.5 as a rule: more is what few rows make up."""
PEAK_SCALE_BOUNDS: Final = (0.02, 0.3)
LIMIT_SCALES: Final = (0.03, 0.04, 0.05, 0.06, 0.08, 0.1, 0.12, 0.15, 0.2)
"""Candidates of the probit's scale; the likelihood picks one."""

LIMIT_SCALE_SPREAD: Final = 0.5
"""Prior standard deviation of the log of a source's noise at the limit around the population's."""

_LOG_SQRT_2PI: Final = 0.9189385332046727


class LeftOut(NamedTuple):
    """Predictions of rows whose block was left out; arrays of shape (n,)."""

    mean: FloatArray
    """Log peak."""
    variance: FloatArray
    """Of the log peak, without noise."""


class RowTerms(NamedTuple):
    """Minus log likelihood of each row and its derivatives by the predicted log peak; arrays of shape (n,)."""

    loss: FloatArray
    slope: FloatArray
    curvature: FloatArray


@dataclass(frozen=True, kw_only=True, slots=True)
class Evidence:
    """Rows to learn from: n_peak with a published peak, then n_limit known to lie on one side of a limit."""

    items: FloatArray
    """Item bytes the row's measure sees, shape (n, num_items)."""
    codes: IntArray
    """Site codes, shape (n, num_levels)."""
    target: FloatArray
    """Log published peak, then log usable memory, shape (n,)."""
    side: FloatArray
    """0 for a published peak, +1 where the run stayed below the limit, -1 where it went over, shape (n,)."""

    def take(self, rows: IntArray | BoolArray) -> Evidence:
        """Return the selected rows."""
        return Evidence(items=self.items[rows], codes=self.codes[rows], target=self.target[rows], side=self.side[rows])

    @property
    def source(self) -> IntArray:
        """Code of the narrowest level, shape (n,)."""
        return self.codes[:, -1]

    @property
    def is_peak(self) -> BoolArray:
        """Rows with a published peak."""
        peak: BoolArray = self.side == 0
        return peak


def fit_posterior(evidence: Evidence, num_sites: tuple[int, ...], item_scale: float) -> Posterior:
    """Fit factors, variance components and noise scales.

    Parameters
    ----------
    evidence : Evidence
        n rows.
    num_sites : tuple of int
        Values per level.
    item_scale : float
        Prior standard deviation of the log factor of an item that all sites share.
    """
    num_parameters = NUM_ITEMS + NUM_EFFECTS * sum(num_sites)
    posterior = Posterior(
        num_sites=num_sites,
        mean=np.zeros(num_parameters),
        covariance=np.eye(num_parameters),
        variances=np.concatenate([[item_scale**2], np.full(len(num_sites) * NUM_EFFECTS, 0.04)]),
        peak_scale=0.08,
        limit_scales=np.full(num_sites[-1] + 1, 0.1),
        own_means=np.zeros((0, NUM_ITEMS)),
        own_covariances=np.zeros((0, NUM_ITEMS, NUM_ITEMS)),
    )
    component = component_of_parameter(num_sites)
    for step in range(EM_STEPS):
        posterior = _maximise(posterior, evidence, component, NEWTON_STEPS if step else NEWTON_STEPS_FIRST)
        if step < EM_STEPS - 1:
            posterior = _update_scales(posterior, evidence, component)
    return posterior


def component_of_parameter(num_sites: tuple[int, ...]) -> IntArray:
    """Give the variance component of each parameter: 0 for item factors, then one per level and effect."""
    parts = [np.zeros(NUM_ITEMS, dtype=np.int64)]
    for level, count in enumerate(num_sites):
        parts.append(np.tile(1 + level * NUM_EFFECTS + np.arange(NUM_EFFECTS), count))
    return np.concatenate(parts)


def row_factors(theta: FloatArray, codes: IntArray, num_sites: tuple[int, ...]) -> FloatArray:
    """Sum the log factors of every row's items, shape (n, num_items)."""
    factors = np.tile(theta[:NUM_ITEMS], (len(codes), 1))
    offset = NUM_ITEMS
    for level, count in enumerate(num_sites):
        effects = np.vstack(
            [theta[offset : offset + count * NUM_EFFECTS].reshape(count, NUM_EFFECTS), np.zeros(NUM_EFFECTS)]
        )
        factors += effects[codes[:, level]][:, ITEM_EFFECT]  # UNKNOWN = -1 takes the row of zeros
        offset += count * NUM_EFFECTS
    return factors


def jacobian(shares: FloatArray, codes: IntArray, num_sites: tuple[int, ...]) -> FloatArray:
    """Differentiate the log peak by theta, shape (n, num_parameters)."""
    rows = np.arange(len(shares))
    by_effect = effect_shares(shares)
    derivative = np.zeros((len(shares), NUM_ITEMS + NUM_EFFECTS * sum(num_sites)))
    derivative[:, :NUM_ITEMS] = shares
    offset = NUM_ITEMS
    for level, count in enumerate(num_sites):
        known = rows[codes[:, level] != UNKNOWN]
        columns = offset + codes[known, level][:, None] * NUM_EFFECTS + np.arange(NUM_EFFECTS)
        derivative[known[:, None], columns] = by_effect[known]
        offset += count * NUM_EFFECTS
    return derivative


def row_terms(evidence: Evidence, predicted: FloatArray, peak_scale: float, limit_scale: FloatArray) -> RowTerms:
    """Likelihood of every row given its predicted log peak and the noise at its limit (both of shape (n,))."""
    residual = (predicted - evidence.target) / peak_scale
    weight = (DEGREES_OF_FREEDOM + 1.0) / (DEGREES_OF_FREEDOM + residual**2)
    margin = evidence.side * (evidence.target - predicted) / limit_scale
    hazard = np.exp(-0.5 * margin**2 - _LOG_SQRT_2PI - log_ndtr(margin))
    peak = evidence.is_peak
    student = 0.5 * (DEGREES_OF_FREEDOM + 1.0) * np.log1p(residual**2 / DEGREES_OF_FREEDOM) + np.log(peak_scale)
    return RowTerms(
        loss=np.where(peak, student, -log_ndtr(margin)),
        slope=np.where(peak, weight * residual / peak_scale, evidence.side * hazard / limit_scale),
        curvature=np.where(peak, weight / peak_scale**2, np.maximum(hazard * (hazard + margin), 0.0) / limit_scale**2),
    )


def leave_out(posterior: Posterior, evidence: Evidence, blocks: IntArray) -> LeftOut:
    """Predict every row without its block (blocks of shape (n,)).

    Notes
    -----
    With K = J_B Sigma J_B', h the curvatures and g the slopes of block B: taking the block back is one Newton step,
    variance (I - K h)^-1 K and shift variance * g.
    """
    predicted, derivative = _predict_all(evidence, posterior.mean, posterior.num_sites)
    terms = row_terms(evidence, predicted, posterior.peak_scale, posterior.limit_scale(evidence.source))
    spread = derivative @ posterior.covariance
    mean, variance = predicted.copy(), np.empty(len(predicted))
    for block in np.unique(blocks):
        rows = np.flatnonzero(blocks == block)
        within = spread[rows] @ derivative[rows].T
        without = np.linalg.solve(np.eye(len(rows)) - within * terms.curvature[rows], within)
        mean[rows] += without @ terms.slope[rows]
        variance[rows] = np.maximum(np.diag(without), 0.0)
    return LeftOut(mean, variance)


def _predict_all(evidence: Evidence, theta: FloatArray, num_sites: tuple[int, ...]) -> tuple[FloatArray, FloatArray]:
    predicted, shares = log_peak(evidence.items, row_factors(theta, evidence.codes, num_sites))
    return predicted, jacobian(shares, evidence.codes, num_sites)


def _maximise(posterior: Posterior, evidence: Evidence, component: IntArray, steps: int) -> Posterior:
    """Take damped Newton steps to the mode; the curvature there gives the covariance."""
    precision = 1.0 / posterior.variances[component]
    limit_scale = posterior.limit_scale(evidence.source)
    theta = posterior.mean

    def objective(candidate: FloatArray) -> float:
        predicted, _ = log_peak(evidence.items, row_factors(candidate, evidence.codes, posterior.num_sites))
        loss = row_terms(evidence, predicted, posterior.peak_scale, limit_scale).loss
        return float(loss.sum() + 0.5 * (precision * candidate**2).sum())

    for _ in range(steps):
        predicted, derivative = _predict_all(evidence, theta, posterior.num_sites)
        terms = row_terms(evidence, predicted, posterior.peak_scale, limit_scale)
        gradient = derivative.T @ terms.slope + precision * theta
        hessian = (derivative.T * terms.curvature) @ derivative + np.diag(precision)
        factor = cho_factor(hessian)
        direction, length, before = cho_solve(factor, gradient), 1.0, objective(theta)
        while objective(theta - length * direction) > before and length > 1e-3:
            length /= 2.0
        theta = theta - length * direction
    return replace(posterior, mean=theta, covariance=cho_solve(factor, np.eye(len(theta))))


def _update_scales(posterior: Posterior, evidence: Evidence, component: IntArray) -> Posterior:
    """EM step: variance components from the effects, noise scales from the residuals."""
    second_moment = posterior.mean**2 + np.diag(posterior.covariance)
    counts = np.maximum(np.bincount(component, minlength=len(posterior.variances)), 1)
    variances = np.bincount(component, weights=second_moment, minlength=len(posterior.variances)) / counts
    variances = np.clip(variances, *VARIANCE_BOUNDS)
    variances[0] = posterior.variances[0]  # the trust in the textbook is given, not learnt
    predicted, derivative = _predict_all(evidence, posterior.mean, posterior.num_sites)
    peak = evidence.is_peak
    peak_scale = posterior.peak_scale
    if peak.any():
        residual = predicted[peak] - evidence.target[peak]
        weight = (DEGREES_OF_FREEDOM + 1.0) / (DEGREES_OF_FREEDOM + (residual / peak_scale) ** 2)
        leverage = ((derivative[peak] @ posterior.covariance) * derivative[peak]).sum(axis=1)
        peak_scale = float(np.sqrt(np.mean(weight * residual**2 + leverage)))
    return replace(
        posterior,
        variances=variances,
        peak_scale=float(np.clip(peak_scale, *PEAK_SCALE_BOUNDS)),
        limit_scales=_limit_scales(evidence, predicted, len(posterior.limit_scales)),
    )


def _limit_scales(evidence: Evidence, predicted: FloatArray, count: int) -> FloatArray:
    """Choose the noise at the limit: the population's last, each source's shrunk towards it."""
    grid = np.array(LIMIT_SCALES)
    rows = np.flatnonzero(~evidence.is_peak)
    losses = np.zeros((count, len(grid)))
    for column, scale in enumerate(grid):
        row_loss = row_terms(evidence, predicted, 1.0, np.full(len(predicted), scale)).loss[rows]
        losses[:-1, column] = np.bincount(evidence.source[rows], weights=row_loss, minlength=count - 1)
    population = int(np.argmin(losses.sum(axis=0)))
    away = np.log(grid / grid[population]) / LIMIT_SCALE_SPREAD
    scales: FloatArray = grid[np.argmin(losses + 0.5 * away**2, axis=1)]
    return scales
