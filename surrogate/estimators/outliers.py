"""How far rows and publishers lie from what all others say of them, and what follows for their weight.

Notes
-----
Rows N(0, A) without a group g of them err by ``[A^-1]_gg^-1 [A^-1 d]_g``, with that covariance ``[A^-1]_gg^-1``
(Rasmussen and Williams 2006, section 5.4.2).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np
from numpy.typing import NDArray

from surrogate.analytic.workload import FloatArray
from surrogate.features.levels import UNKNOWN

_DOUBTED_BEYOND_SDS: Final = 2.0
_EXPECTED_SDS: Final = 1.5
"""What a row errs beyond so many standard deviations is noise."""


def noise_of_outliers(noise_sd: FloatArray, error: FloatArray, error_sd: FloatArray) -> FloatArray:
    """Return the noise of rows that err more without them than is to be expected, shape (n,).

    What exceeds 1.5 standard deviations is taken for noise, so that one run that went wrong teaches others little.

    Parameters
    ----------
    noise_sd : ndarray, shape (n,)
        Standard deviation of log time between repeats.
    error, error_sd : ndarray, shape (n,)
        Measured less predicted log time without the row's group, and how large that is expected to be.
    """
    return np.asarray(np.hypot(noise_sd, np.maximum(np.abs(error) - _EXPECTED_SDS * error_sd, 0.0)))


def outlier_factor(surprise: FloatArray) -> FloatArray:
    """Return the factor on a row's noise by its error in standard deviations: ``max(1, z/2)^2``, shape (n,)."""
    return np.maximum(surprise / _DOUBTED_BEYOND_SDS, 1.0) ** 2


def left_out_surprise(covariance: FloatArray, deviation: FloatArray) -> FloatArray:
    """Return each row's error without it, in standard deviations, of rows N(0, covariance), shape (n,)."""
    inverse = np.linalg.inv(covariance)
    return np.asarray(np.abs(inverse @ deviation) / np.sqrt(np.diag(inverse)))


def group_surprises(inverse: FloatArray, alpha: FloatArray, names: NDArray[np.object_]) -> dict[str, float]:
    """Return by name the mean error of its rows without them, in standard deviations.

    Parameters
    ----------
    inverse : ndarray, shape (n, n)
        A^-1.
    alpha : ndarray, shape (n,)
        A^-1 d.
    names : ndarray of str, shape (n,)
        Groups; rows without a name are in none.
    """
    surprises = {}
    for name in set(names) - {UNKNOWN}:
        rows = np.flatnonzero(names == name)
        covariance = np.linalg.inv(inverse[np.ix_(rows, rows)])
        surprises[str(name)] = float(np.abs((covariance @ alpha[rows]).sum()) / np.sqrt(covariance.sum()))
    return surprises


def widened(widths: Mapping[str, float], surprises: Mapping[str, float], *, largest: float) -> dict[str, float]:
    """Return the factors on publishers' variances after those beyond one standard deviation got theirs times z^2."""
    factors = {name: min(widths.get(name, 1.0) * max(z, 1.0) ** 2, largest) for name, z in surprises.items()}
    return {name: factor for name, factor in sorted(factors.items()) if factor > 1.0}
