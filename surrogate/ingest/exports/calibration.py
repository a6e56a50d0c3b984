"""What a benchmark says about a coefficient: the logarithm's mean and standard deviation, fitted robustly."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import least_squares

FloatArray = NDArray[np.float64]

SMALLEST_LOG_SD: Final = 0.02
"""No benchmark fixes a coefficient better than 2 %: the next run of the same machine differs by as much."""

LARGEST_LOG_SD: Final = 3.0
"""A coefficient that the sizes measured do not show is left this open (a factor of 20)."""

_MAD_TO_SIGMA: Final = 1.4826
_OUTLIER_SCALE: Final = 0.1  # log residuals beyond 10 % weigh less and less


class LogCoefficient(NamedTuple):
    """A coefficient as `site add` takes it: its name, and mean and standard deviation of its natural logarithm."""

    name: str
    mean: float
    sd: float


class LogFit(NamedTuple):
    """Fitted logarithms of the parameters, their standard deviations, and the robust scatter of the log times."""

    means: FloatArray
    sds: FloatArray
    residual_sd: float


def fit_logs(
    log_model: Callable[[FloatArray], FloatArray], log_values: FloatArray, start: FloatArray, upper: FloatArray
) -> LogFit:
    """Fit parameters in their logarithms to logarithms of times, with outliers weighted down.

    Parameters
    ----------
    log_model : callable
        From the log parameters, shape (p,), to log times, shape (n,).
    log_values : ndarray, shape (n,)
        Measured log times.
    start, upper : ndarray, shape (p,)
        First guess and upper bounds of the log parameters.

    Notes
    -----
    The covariance is s**2 (J'J)**-1 with s the robust scatter of the residuals (at least `SMALLEST_LOG_SD`).
    """
    solution = least_squares(
        lambda parameters: log_model(parameters) - log_values,
        np.minimum(start, upper - 1e-9),
        bounds=(np.full(start.size, -np.inf), upper),
        loss="soft_l1",
        f_scale=_OUTLIER_SCALE,
        x_scale=1.0,
        max_nfev=500,
    )
    residuals = log_model(solution.x) - log_values
    scatter = _MAD_TO_SIGMA * float(np.median(np.abs(residuals - np.median(residuals))))
    scatter = max(scatter, SMALLEST_LOG_SD)
    information = solution.jac.T @ solution.jac + np.eye(start.size) * 1e-12
    sds = scatter * np.sqrt(np.abs(np.diag(np.linalg.pinv(information))))
    return LogFit(solution.x, np.clip(sds, SMALLEST_LOG_SD, LARGEST_LOG_SD), scatter)
