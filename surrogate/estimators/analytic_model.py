"""The analytic model as an estimator: textbook coefficients, or the population's calibration."""

from __future__ import annotations

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils.validation import check_is_fitted

from surrogate.analytic.coefficients import LOG_TEXTBOOK
from surrogate.analytic.step_time import log_step_time
from surrogate.analytic.workload import FloatArray
from surrogate.errors import InputError
from surrogate.estimators.hybrid import prepare_table, site_data
from surrogate.estimators.site_effects import SiteEffects
from surrogate.estimators.training_rows import TARGET, diverse_rows, measured_seconds, noise_sd


class AnalyticModel(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """Step time from physics alone.

    Parameters
    ----------
    calibrate : bool
        Whether coefficients are fitted; site effects take part in the fit and not in the prediction, so that the
        coefficients are the population's and not the largest sweep's.
    rows_per_source : int
        Rows of one source that enter the calibration.

    Attributes
    ----------
    log_coefficients_ : ndarray, shape (k,)
    """

    def __init__(self, *, calibrate: bool = True, rows_per_source: int = 60) -> None:
        self.calibrate = calibrate
        self.rows_per_source = rows_per_source

    def fit(self, X: pd.DataFrame, y: FloatArray | None = None) -> AnalyticModel:
        """Calibrate on the rows of `X` with a measured time.

        Parameters
        ----------
        X : DataFrame of shape (n, columns)
            A derived runs table; rows without a measured time are left out.
        y : ndarray of shape (n,), optional
            Seconds per step; the column `measured_step_time_s` when not given.

        Raises
        ------
        InputError
            If it is to be calibrated and no row has a time, or `y` has another length than `X`.
        """
        self.n_features_in_ = X.shape[1]
        self.feature_names_in_ = np.asarray(X.columns, dtype=object)
        self.log_coefficients_ = LOG_TEXTBOOK.copy()
        if not self.calibrate:
            return self
        seconds, timed = measured_seconds(X, y)
        if not timed.any():
            raise InputError(TARGET, "must hold at least one measured step time", "none", "train on measured runs")
        table = prepare_table(X[timed].reset_index(drop=True))
        rows = diverse_rows(table.runs, table.knobs, self.rows_per_source)
        data = site_data(table, np.log(seconds[timed]), noise_sd(table.runs)).take(rows)
        self.log_coefficients_ = SiteEffects().fit(data).points_.population
        return self

    def predict(self, X: pd.DataFrame) -> FloatArray:
        """Return the step time in seconds, shape (n,), never below the roofline."""
        check_is_fitted(self, "log_coefficients_")
        terms = prepare_table(X).terms
        return np.maximum(np.exp(log_step_time(terms, self.log_coefficients_)), terms.roofline_s)
