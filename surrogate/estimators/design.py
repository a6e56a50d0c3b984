"""Which runs to make next: those whose times, whatever they turn out to be, would narrow the targets most.

In a Gaussian model the variance left after a measurement depends on where it is made and not on what it shows, so the
choice can be made from inputs alone (A-optimal design, greedy).
"""

from __future__ import annotations

from typing import Final

import numpy as np
import pandas as pd
from scipy.linalg import solve_triangular
from sklearn.utils.validation import check_is_fitted

from surrogate.analytic.step_time import log_step_time_jacobian
from surrogate.analytic.workload import FloatArray, IntArray
from surrogate.estimators.hybrid import HybridPredictor, PreparedTable, prepare_table
from surrogate.estimators.prior_covariance import LinearisedRows
from surrogate.estimators.site_effects import SiteEffects

MOST_ROWS: Final = 400
"""Of more candidates or targets, this many spread evenly over the table take part."""
MEASUREMENT_VARIANCE: Final = 0.03**2
"""Of log time: what repeats of one configuration differ by, with some of what no term explains."""


def choose_runs(predictor: HybridPredictor, candidates: pd.DataFrame, targets: pd.DataFrame, count: int) -> IntArray:
    """Choose candidates to measure.

    Parameters
    ----------
    predictor : HybridPredictor
        What is known so far; measured times of candidates and targets are not looked at.
    candidates : DataFrame of n rows
        Runs that could be made, at the site that would make them.
    targets : DataFrame of m rows
        Configurations to know better.
    count : int
        How many to choose; at most n.

    Returns
    -------
    ndarray of shape (count,)
        Positions among the candidates, the most telling first.
    """
    check_is_fitted(predictor, "effects_")
    offered, wanted = _spread(len(candidates)), _spread(len(targets))
    rows = pd.concat([candidates.iloc[offered], targets.iloc[wanted]], ignore_index=True)
    covariance = posterior_covariance(predictor.effects_, prepare_table(rows))
    own, cross = covariance[: len(offered), : len(offered)], covariance[: len(offered), len(offered) :]
    return offered[greedy_choice(own, cross, count, noise_variance=MEASUREMENT_VARIANCE)]


def posterior_covariance(effects: SiteEffects, table: PreparedTable) -> FloatArray:
    """Return the covariance of log time between m configurations given what was measured, shape (m, m)."""
    jacobian = log_step_time_jacobian(table.terms, effects.linearisation_points(table.levels))
    rows = LinearisedRows(jacobian, table.levels, table.knobs)
    cross = effects.covariance(effects.rows, rows)
    whitened = solve_triangular(effects.covariance_factor_[0], cross, lower=True, check_finite=False)
    return np.asarray(effects.covariance(rows, rows) - whitened.T @ whitened)


def greedy_choice(own: FloatArray, cross: FloatArray, count: int, *, noise_variance: float) -> IntArray:
    """Choose the candidates that reduce the summed variance of the targets most, one after the other.

    Parameters
    ----------
    own : ndarray of shape (n, n)
        Covariance between candidates.
    cross : ndarray of shape (n, m)
        Covariance of candidates with targets.
    count : int
        How many to choose; at most n.
    noise_variance : float
        Of a measurement.

    Returns
    -------
    ndarray of shape (count,)
        Positions of the chosen candidates, in the order of choice.

    Notes
    -----
    Measuring candidate i reduces the summed variance by ``sum_j cross_ij^2 / (own_ii + noise)``; both matrices are then
    conditioned on it.

    Examples
    --------
    >>> own = np.array([[1.0, 0.9, 0.0], [0.9, 1.0, 0.0], [0.0, 0.0, 0.5]])
    >>> greedy_choice(own, own, 2, noise_variance=0.0)
    array([0, 2])
    """
    chosen: list[int] = []
    for _ in range(min(count, len(own))):
        variance = np.maximum(np.diag(own), 0.0) + max(noise_variance, np.finfo(np.float64).tiny)
        gain = (cross**2).sum(axis=1) / variance
        gain[chosen] = -np.inf
        best = int(gain.argmax())
        chosen.append(best)
        share = own[:, best] / variance[best]
        cross = cross - share[:, None] * cross[best][None, :]
        own = own - share[:, None] * own[best][None, :]
    return np.array(chosen, dtype=np.int64)


def _spread(count: int) -> IntArray:
    """Return at most `MOST_ROWS` positions spread evenly over a table."""
    return np.unique(np.linspace(0, count - 1, min(count, MOST_ROWS)).round().astype(np.int64))
