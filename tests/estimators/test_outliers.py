"""Surprise in standard deviations, by hand and against refits without the group."""

from __future__ import annotations

import numpy as np
import pytest

from surrogate.estimators.outliers import (
    group_surprises,
    left_out_surprise,
    noise_of_outliers,
    outlier_factor,
    widened,
)


@pytest.fixture(scope="module")
def gaussian() -> tuple[np.ndarray, np.ndarray]:
    """Return a covariance of six rows and their deviations."""
    generator = np.random.default_rng(0)
    root = generator.normal(size=(6, 6))
    return root @ root.T + np.eye(6), generator.normal(size=6)


def test_rows_are_distrusted_beyond_two_deviations():
    assert outlier_factor(np.array([0.0, 1.9, 2.0, 4.0, 6.0])) == pytest.approx([1.0, 1.0, 1.0, 4.0, 9.0])


def test_of_independent_rows_is_their_deviation():
    assert left_out_surprise(np.diag([1.0, 4.0]), np.array([3.0, -3.0])) == pytest.approx([3.0, 1.5])


def test_of_a_row_is_what_the_others_leave(gaussian):
    covariance, deviation = gaussian
    rest = np.arange(1, 6)
    weights = np.linalg.solve(covariance[np.ix_(rest, rest)], covariance[rest, 0])
    sd = np.sqrt(covariance[0, 0] - weights @ covariance[rest, 0])
    expected = abs(deviation[0] - weights @ deviation[rest]) / sd
    assert left_out_surprise(covariance, deviation)[0] == pytest.approx(expected)


def test_of_a_group_is_that_of_its_mean(gaussian):
    covariance, deviation = gaussian
    names = np.array(["a", "a", "b", "b", "", ""], dtype=object)
    inverse = np.linalg.inv(covariance)
    surprises = group_surprises(inverse, inverse @ deviation, names)
    own, rest = np.arange(2), np.arange(2, 6)
    weights = np.linalg.solve(covariance[np.ix_(rest, rest)], covariance[np.ix_(rest, own)])
    left = covariance[np.ix_(own, own)] - weights.T @ covariance[np.ix_(rest, own)]
    expected = abs((deviation[own] - weights.T @ deviation[rest]).sum()) / np.sqrt(left.sum())
    assert set(surprises) == {"a", "b"}
    assert surprises["a"] == pytest.approx(expected)


def test_widths_grow_by_the_square_beyond_one_deviation_up_to_the_largest():
    assert widened({"a": 2.0, "b": 4.0}, {"a": 1.5, "b": 3.0, "c": 0.9}, largest=9.0) == {"a": 4.5, "b": 9.0}


def test_what_a_row_errs_beyond_expectation_is_its_noise():
    noise = noise_of_outliers(np.full(3, 0.03), np.array([0.1, -0.15, -0.55]), np.full(3, 0.1))
    assert noise == pytest.approx([0.03, 0.03, np.hypot(0.03, 0.4)])
