"""Metrics against numbers one can check on paper."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from surrogate.evaluation.scores import interval_scores, score


def table(measured, predicted, source, half=None):
    measured, predicted = np.asarray(measured, float), np.asarray(predicted, float)
    width = np.nan if half is None else half
    return pd.DataFrame(
        {
            "source": source,
            "measured_step_time_s": measured,
            "step_time_s": predicted,
            "step_time_lower_s": predicted / width,
            "step_time_upper_s": predicted * width,
        }
    )


def test_errors_over_rows_and_per_source_differ_as_computed_by_hand():
    scores = score(table([1, 1, 1, 2], [1.1, 1.1, 0.9, 3.0], ["a", "a", "a", "b"]))
    assert scores.mape == pytest.approx((0.1 * 3 + 0.5) / 4)
    assert scores.source_mape == pytest.approx((0.1 + 0.5) / 2)
    assert scores.source_mape_se == pytest.approx(np.std([0.1, 0.5], ddof=1) / np.sqrt(2))
    assert scores.median_ape == pytest.approx(0.1)
    assert scores.p90_ape == pytest.approx(0.1 + 0.7 * 0.4)
    assert scores.mean_log_error == pytest.approx((2 * np.log(1.1) + np.log(0.9) + np.log(1.5)) / 4)
    assert scores.source_mean_abs_log_error == pytest.approx(((2 * np.log(1.1) - np.log(0.9)) / 3 + np.log(1.5)) / 2)
    assert (scores.rows, scores.sources) == (4, 2)
    assert np.isnan(scores.coverage) and np.isnan(scores.interval_score)


def test_interval_figures_by_hand():
    scores = score(table([1.0, 1.0, 1.0], [1.0, 1.1, 2.0], ["a", "a", "b"], half=1.25))
    assert scores.coverage == pytest.approx(2 / 3)
    assert scores.source_coverage == pytest.approx(0.5)
    assert scores.mean_log_width == pytest.approx(2 * np.log(1.25))
    missed_by = np.log(2.0 / 1.25)
    assert scores.interval_score == pytest.approx(2 * np.log(1.25) + 20 * missed_by / 3)


def test_rows_without_a_prediction_are_left_out():
    scores = score(table([1, 1], [2, np.nan], ["a", "b"]))
    assert (scores.rows, scores.sources, scores.mape) == (1, 1, 1.0)


def test_nothing_predicted_gives_no_figures():
    scores = score(table([1], [np.nan], ["a"]))
    assert scores.rows == 0 and np.isnan(scores.mape) and np.isnan(scores.source_mape)


def test_optimism_shows_in_the_bias_not_in_mape():
    """Errors of a factor 2 either way: scaling down lowers MAPE and bares itself as bias."""
    honest = score(table([1, 1], [2, 0.5], ["a", "a"]))
    optimist = score(table([1, 1], [1.6, 0.4], ["a", "a"]))
    assert optimist.mape < honest.mape
    assert abs(honest.mean_log_error) < 1e-12 < -optimist.mean_log_error


@given(st.floats(0.1, 10), st.floats(0.01, 2), st.floats(0.5, 0.99))
def test_interval_score_is_the_width_inside_and_grows_outside(time, half, coverage):
    bounds = np.array([time * np.exp(-half)]), np.array([time * np.exp(half)])
    inside = interval_scores(np.array([time]), *bounds, coverage=coverage)
    outside = interval_scores(np.array([time * np.exp(half + 0.1)]), *bounds, coverage=coverage)
    assert inside[0] == pytest.approx(2 * half)
    assert outside[0] == pytest.approx(2 * half + 0.2 / (1 - coverage))


@given(st.lists(st.floats(0.5, 2), min_size=3, max_size=8), st.floats(0.01, 100))
def test_scores_do_not_depend_on_the_unit_of_time(ratios, unit):
    source = [str(n % 2) for n in range(len(ratios))]
    one = score(table(np.ones(len(ratios)), ratios, source, half=1.3))
    other = score(table(unit * np.ones(len(ratios)), unit * np.array(ratios), source, half=1.3))
    assert one.to_dict() == pytest.approx(other.to_dict(), rel=1e-6, abs=1e-9)
