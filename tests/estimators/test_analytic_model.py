"""The analytic model as an estimator: textbook without data, the population's habits with it."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from surrogate.analytic.coefficients import LOG_SD, LOG_TEXTBOOK
from surrogate.analytic.step_time import log_step_time
from surrogate.errors import InputError
from surrogate.estimators import AnalyticModel
from surrogate.estimators.hybrid import prepare_table


@pytest.fixture(scope="module")
def calibrated(measured_runs) -> AnalyticModel:
    return AnalyticModel().fit(measured_runs)


def mean_error(model: AnalyticModel, runs: pd.DataFrame) -> float:
    """Return mean |log error| with equal weight per source."""
    error = np.abs(np.log(model.predict(runs) / runs.measured_step_time_s.to_numpy(dtype=np.float64)))
    return float(pd.Series(error).groupby(runs.source.to_numpy()).mean().mean())


def test_textbook_needs_no_times(measured_runs):
    model = AnalyticModel(calibrate=False).fit(measured_runs.drop(columns="measured_step_time_s"))
    np.testing.assert_array_equal(model.log_coefficients_, LOG_TEXTBOOK)
    table = prepare_table(measured_runs)
    expected = np.maximum(np.exp(log_step_time(table.terms, LOG_TEXTBOOK)), table.terms.roofline_s)
    np.testing.assert_allclose(model.predict(measured_runs), expected)


def test_calibration_lowers_the_error(calibrated, measured_runs):
    textbook = AnalyticModel(calibrate=False).fit(measured_runs)
    assert mean_error(calibrated, measured_runs) < 0.97 * mean_error(textbook, measured_runs)


def test_calibration_stays_near_the_textbook(calibrated):
    moved = np.abs(calibrated.log_coefficients_ - LOG_TEXTBOOK) / LOG_SD
    assert 0.1 < moved.max() < 4.0


def test_a_large_sweep_does_not_take_over(measured_runs, calibrated):
    # one source forty times over, 30 % slower: capped and a site of its own, it hardly moves the others
    rows = measured_runs[measured_runs.source == "aleph-alpha-want-2023"]
    slower = rows.assign(measured_step_time_s=1.3 * rows.measured_step_time_s.astype(np.float64))
    swollen = pd.concat([measured_runs, *[slower] * 40], ignore_index=True)
    others = measured_runs[measured_runs.source != "aleph-alpha-want-2023"]
    shifted = AnalyticModel(rows_per_source=30).fit(swollen).predict(others)
    assert np.abs(np.log(shifted / calibrated.predict(others))).mean() < 0.10


def test_nothing_beats_the_roofline(calibrated, plans):
    assert (calibrated.predict(plans) >= prepare_table(plans).terms.roofline_s * (1 - 1e-12)).all()


def test_times_given_apart_replace_the_column(measured_runs):
    few = measured_runs.iloc[::5]
    seconds = few.measured_step_time_s.to_numpy(dtype=np.float64)
    usual, slow = (AnalyticModel().fit(few, factor * seconds).predict(few) for factor in (1.0, 1.5))
    assert 1.05 < np.median(slow / usual) < 1.5


def test_nothing_to_learn_from(measured_runs):
    with pytest.raises(InputError, match="measured_step_time_s"):
        AnalyticModel().fit(measured_runs.assign(measured_step_time_s=np.nan))
