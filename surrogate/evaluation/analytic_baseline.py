"""The analytic model without trees and without sites: one set of coefficients for all runs."""

from __future__ import annotations

from typing import Final, Self

import numpy as np
import pandas as pd

from surrogate.analytic.coefficients import LOG_SD, LOG_TEXTBOOK
from surrogate.analytic.step_terms import StepTerms, step_terms
from surrogate.analytic.step_time import log_step_time, log_step_time_jacobian
from surrogate.analytic.workload import FloatArray
from surrogate.evaluation.baselines import point_frame
from surrogate.evaluation.scores import MEASURED
from surrogate.features.columns import numbers
from surrogate.features.workload import prepare_runs

_STEPS: Final = 6
_DAMPING: Final = 0.7
"""Share of each Gauss-Newton step that is taken."""
_RESIDUAL_SCALE: Final = 0.15
"""Residuals of log time beyond this count linearly, not squared."""
_LARGEST_SHIFT: Final = 3.0
"""Coefficients stay within so many prior standard deviations of the textbook."""


class CalibratedAnalytic:
    """Coefficients by robust least squares in log time, with textbook values as priors.

    Minimises ``sum_i w_i rho(r_i / s) + sum_k ((c_k - textbook_k) / sd_k)^2`` over log coefficients c, with r the
    residuals of log time, rho the smooth L1 loss, s its scale, and w = n^-0.5 for a source of n rows, so that large
    sweeps do not decide alone.
    """

    def fit(self, runs: pd.DataFrame) -> Self:
        """Calibrate `log_coefficients_` on measured runs."""
        terms = _terms(runs)
        log_time = np.log(numbers(runs, MEASURED))
        weight = runs.groupby("source")["source"].transform("size").to_numpy(dtype=np.float64) ** -0.5
        self.log_coefficients_ = LOG_TEXTBOOK.copy()
        for _ in range(_STEPS):
            step = self._step(terms, log_time, weight)
            moved = self.log_coefficients_ + _DAMPING * step
            reach = _LARGEST_SHIFT * LOG_SD
            self.log_coefficients_ = np.clip(moved, LOG_TEXTBOOK - reach, LOG_TEXTBOOK + reach)
        return self

    def predict_frame(self, runs: pd.DataFrame) -> pd.DataFrame:
        """Return step times at the calibrated coefficients."""
        return point_frame(runs, np.exp(log_step_time(_terms(runs), self.log_coefficients_)))

    def _step(self, terms: StepTerms, log_time: FloatArray, weight: FloatArray) -> FloatArray:
        """Return the Gauss-Newton step of the reweighted problem, shape (k,)."""
        residual = log_time - log_step_time(terms, self.log_coefficients_)
        jacobian = log_step_time_jacobian(terms, self.log_coefficients_)
        robust = weight / np.sqrt(1.0 + (residual / _RESIDUAL_SCALE) ** 2) / _RESIDUAL_SCALE**2
        precision = LOG_SD**-2.0
        hessian = (jacobian * robust[:, None]).T @ jacobian + np.diag(precision)
        gradient = jacobian.T @ (robust * residual) - precision * (self.log_coefficients_ - LOG_TEXTBOOK)
        return np.asarray(np.linalg.solve(hessian, gradient))


class TextbookAnalytic:
    """The analytic model at textbook coefficients."""

    def fit(self, runs: pd.DataFrame) -> Self:  # noqa: ARG002 - nothing is learnt
        """Learn nothing."""
        return self

    def predict_frame(self, runs: pd.DataFrame) -> pd.DataFrame:
        """Return step times at textbook coefficients."""
        return point_frame(runs, np.exp(log_step_time(_terms(runs), LOG_TEXTBOOK)))


def _terms(runs: pd.DataFrame) -> StepTerms:
    prepared = prepare_runs(runs)
    return step_terms(prepared.workload, prepared.software)
