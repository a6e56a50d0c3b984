"""From a peak's predictive distribution to the probability that a run goes out of memory."""

from __future__ import annotations

from typing import Final

import numpy as np
from scipy.optimize import minimize
from scipy.special import log_ndtr, ndtr

from surrogate.analytic.workload import BoolArray, FloatArray

DEFAULT_OOM_RISK: Final = 0.05
"""Largest probability of going out of memory at which a plan counts as feasible."""

RECALIBRATION_PRIOR_SCALE: Final = 0.5
"""Shift and log slope stay near 0 unless the rows say otherwise."""


def oom_margin(log_peak: FloatArray, log_sd: FloatArray, usable_bytes: FloatArray) -> FloatArray:
    """Standardise how far the expected log peak lies above the usable memory (all of shape (n,))."""
    margin: FloatArray = (log_peak - np.log(usable_bytes)) / log_sd
    return margin


def oom_probability(margin: FloatArray, recalibration: tuple[float, float] = (0.0, 0.0)) -> FloatArray:
    """Probability of going out of memory, shape (n,).

    Parameters
    ----------
    margin : array of shape (n,)
        From `oom_margin`.
    recalibration : (float, float)
        Shift and log slope of the probit: P = Phi(shift + exp(log slope) * margin).

    Examples
    --------
    >>> oom_probability(np.array([0.0, 1.6448536])).round(3).tolist()
    [0.5, 0.95]
    """
    shift, log_slope = recalibration
    probability: FloatArray = ndtr(shift + np.exp(log_slope) * margin)
    return probability


def fit_recalibration(margin: FloatArray, out_of_memory: BoolArray) -> tuple[float, float]:
    """Fit shift and log slope of the probit on margins of rows that were left out (all of shape (n,))."""
    side = np.where(out_of_memory, 1.0, -1.0)

    def loss(parameters: FloatArray) -> float:
        shift, log_slope = parameters
        fit = -log_ndtr(side * (shift + np.exp(log_slope) * margin)).sum()
        return float(fit + 0.5 * ((parameters / RECALIBRATION_PRIOR_SCALE) ** 2).sum())

    shift, log_slope = minimize(loss, np.zeros(2), method="Nelder-Mead").x
    return float(shift), float(log_slope)
