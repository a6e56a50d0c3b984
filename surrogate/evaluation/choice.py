"""Nearest runs, and which runs to make next where a predictor has no opinion of its own."""

from __future__ import annotations

from typing import Final

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from surrogate.analytic.workload import BoolArray, FloatArray, IntArray
from surrogate.estimators.design import greedy_choice
from surrogate.features.knobs import OTHER_DEVICE, knob_matrix
from surrogate.features.workload import prepare_runs

_LENGTH: Final = 3.0
"""Distance in knob space (factors of e) over which two configurations teach about each other."""
_SITE_VARIANCE: Final = 0.04
"""Variance of log time that all runs of a site share: between-source standard deviation about 0.2."""
_LOCAL_VARIANCE: Final = 0.0225
"""Variance that only similar runs share: within-source standard deviation about 0.15."""
_NOISE_VARIANCE: Final = 0.0016
_NO_ROW: Final = -1


def nearest_rows(targets: pd.DataFrame, candidates: pd.DataFrame, *, forbidden: BoolArray | None = None) -> IntArray:
    """Return for each target the nearest candidate, by the distance that a prediction's evidence is shown with.

    Parameters
    ----------
    targets : DataFrame of m runs
    candidates : DataFrame of n runs
    forbidden : ndarray of shape (m, n), optional
        Pairs that may not be used.

    Returns
    -------
    ndarray of shape (m,)
        Positions among the candidates, the first of equally near ones; -1 where none is allowed.
    """
    (knobs, devices), (other_knobs, other_devices) = (_places(runs) for runs in (targets, candidates))
    distances = np.sqrt(squared_distances(knobs, other_knobs))
    distances += OTHER_DEVICE * (devices[:, None] != other_devices[None, :])
    if forbidden is not None:
        distances = np.where(forbidden, np.inf, distances)
    nearest = distances.argmin(axis=1)
    return np.where(np.isfinite(distances.min(axis=1)), nearest, _NO_ROW)


def _places(runs: pd.DataFrame) -> tuple[FloatArray, NDArray[np.object_]]:
    prepared = prepare_runs(runs)
    return knob_matrix(prepared), np.asarray(prepared.hardware.accelerator, dtype=object)


def choose_runs(candidates: pd.DataFrame, targets: pd.DataFrame, count: int) -> IntArray:
    """Choose which candidates to measure so as to know the targets, as positions; times are not looked at."""
    knobs = [knob_matrix(prepare_runs(runs)) for runs in (candidates, targets)]
    return choose_informative(knobs[0], knobs[1], count)


def choose_informative(candidates: FloatArray, targets: FloatArray, count: int) -> IntArray:
    """Choose candidates whose measurement would reduce the summed variance of the targets most, one after the other.

    The prior is a Gaussian process with a constant for the site and a smooth term of the knobs; measurements enter
    through their place only, so the choice can be made before any run.

    Parameters
    ----------
    candidates : ndarray of shape (n, d)
        Knobs of the runs that could be made.
    targets : ndarray of shape (m, d)
        Knobs of the configurations to know.
    count : int
        How many to choose; at most n.

    Returns
    -------
    ndarray of shape (count,)
        Positions of the chosen candidates, in the order of choice.
    """
    own = prior_covariance(candidates, candidates)
    cross = prior_covariance(candidates, targets)
    return greedy_choice(own, cross, count, noise_variance=_NOISE_VARIANCE)


def prior_covariance(one: FloatArray, other: FloatArray) -> FloatArray:
    """Return the prior covariance of log time between configurations of one site, shape (n, m)."""
    local = np.exp(squared_distances(one, other) * (-0.5 / _LENGTH**2))
    return np.asarray(_SITE_VARIANCE + _LOCAL_VARIANCE * local)


def squared_distances(one: FloatArray, other: FloatArray) -> FloatArray:
    """Return squared Euclidean distances, shape (n, m)."""
    cross = one @ other.T
    squares = (one**2).sum(axis=1)[:, None] + (other**2).sum(axis=1)[None, :] - 2.0 * cross
    return np.asarray(np.maximum(squares, 0.0))
