"""The steady-state rule on series one can check by hand."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from surrogate.ingest.regimes import split_regimes
from surrogate.ingest.steady import SteadyState, estimate_steady, warm_up_length


def steady(
    values: list[float], *, cold: bool = True, disturbed: tuple[int, ...] = (), skipped: tuple[int, ...] = ()
) -> SteadyState:
    series = np.array(values)
    index = np.arange(series.size)
    return estimate_steady(
        series, segments=[0], cold=[cold], disturbed=np.isin(index, disturbed), skipped=np.isin(index, skipped)
    )


def test_compile_step_and_asynchronous_step_are_warm_up() -> None:
    assert steady([44.9, 0.32, 5.66, 5.40, 5.67, 5.67]).num_warm_up == 2


def test_first_step_is_dropped_even_when_it_looks_normal() -> None:
    assert steady([1.0, 1.0, 1.0, 1.0]).num_warm_up == 1


def test_a_log_that_starts_in_the_middle_loses_nothing() -> None:
    assert steady([22.31, 22.34, 22.33, 22.15, 22.18], cold=False).num_warm_up == 0


def test_two_records_are_kept() -> None:
    assert steady([3.0, 1.0]).num_warm_up == 0


def test_at_most_half_is_warm_up() -> None:
    assert warm_up_length(np.array([9.0, 8.0, 7.0, 6.0, 5.0, 1.0, 1.0]), starts_cold=True) <= 3


def test_evaluation_is_left_out_only_when_slow() -> None:
    result = steady([1.0, 1.0, 1.0, 2.0, 1.0, 1.01], cold=False, disturbed=(3, 5))
    assert result.num_disturbed == 1
    assert not result.used[3] and result.used[5]


def test_skipped_steps_count_only_when_nothing_else_is_there() -> None:
    assert steady([1.0, 0.9, 1.0, 1.0], cold=False, skipped=(1,)).num_disturbed == 1
    assert steady([1.0, 0.9, 1.0], cold=False, skipped=(1,)).num_disturbed == 0


def test_median_p95_and_cv() -> None:
    result = steady([1.0, 2.0, 3.0, 4.0, 5.0], cold=False)
    assert result.median == 3.0
    assert result.p95 == pytest.approx(4.8)
    assert result.cv == pytest.approx(np.sqrt(2.0) / 3.0)


def test_longer_regime_is_reported() -> None:
    result = steady([3.4] * 20 + [5.1] * 12, cold=False)
    assert result.median == 3.4
    assert [regime.median for regime in result.regimes] == [3.4, 5.1]


def test_an_interlude_does_not_cut_the_main_level_in_two() -> None:
    result = steady([3.4] * 20 + [5.1] * 12 + [3.4] * 15, cold=False)
    assert result.used.sum() == 35


def test_noise_and_single_outliers_are_no_regimes() -> None:
    rng = np.random.default_rng(1)
    series = np.log(np.exp(rng.normal(0.0, 0.02, 500)))
    series[[50, 300]] += 1.0
    assert split_regimes(series) == [0, 500]


def test_small_lasting_change_is_no_regime() -> None:
    assert split_regimes(np.log(np.r_[np.full(40, 1.0), np.full(40, 1.03)])) == [0, 80]


def test_three_levels() -> None:
    assert split_regimes(np.log(np.r_[np.full(30, 1.0), np.full(30, 1.5), np.full(30, 1.0)])) == [0, 30, 60, 90]


POSITIVE = hnp.arrays(np.float64, st.integers(1, 80), elements=st.floats(1e-3, 1e4))


@given(values=POSITIVE, cold=st.booleans())
def test_estimate_lies_within_what_was_measured(values: np.ndarray, cold: bool) -> None:
    result = steady(list(values), cold=cold)
    assert values.min() <= result.median <= values.max()
    assert result.used.sum() >= 1
    assert result.p95 >= result.median


@given(values=POSITIVE, factor=st.floats(1e-2, 1e2))
def test_units_do_not_matter(values: np.ndarray, factor: float) -> None:
    rounded = np.round(values, 3)
    one, other = steady(list(rounded)), steady(list(rounded * factor))
    if np.array_equal(one.used, other.used):
        assert other.median == pytest.approx(one.median * factor, rel=1e-9)
