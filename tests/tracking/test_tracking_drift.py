"""CUSUM by hand, and its two rates: false alarms and delay."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from surrogate.tracking.drift import THRESHOLD, detect_drift


def test_the_sums_by_hand():
    """Residuals 1, 2, -1 less an allowance of 0.5: 0.5, 2.0, 0.5 upwards; 0, 0, 0.5 downwards."""
    drift = detect_drift([1.0, 2.0, -1.0])
    assert (drift.slower_sum, drift.faster_sum, drift.alarm) == (0.5, 0.5, False)


def test_a_shift_is_dated_to_its_first_run():
    drift = detect_drift([0.0] * 6 + [2.0] * 6)
    assert drift.alarm
    assert drift.since == 6
    assert "slower than predicted since run 7" in drift.describe()


def test_faster_runs_are_called_faster():
    assert "faster" in detect_drift([-2.0] * 6).describe()


def test_no_runs_no_drift():
    assert not detect_drift([]).alarm
    assert detect_drift([]).describe() == "CUSUM 0.0 of 5"


@given(st.lists(st.floats(-3.0, 3.0), max_size=40))
def test_turning_all_signs_swaps_the_sums(residuals: list[float]):
    one, other = detect_drift(residuals), detect_drift([-value for value in residuals])
    assert one.slower_sum == pytest.approx(other.faster_sum)
    assert one.alarm == other.alarm == (max(one.slower_sum, one.faster_sum) > THRESHOLD)


def test_run_lengths_are_those_of_the_literature():
    """Average runs to an alarm: 465 without a shift (both sides), 10.4 with one standard deviation."""
    generator = np.random.default_rng(1)

    def run_length(shift: float) -> int:
        slower = faster = 0.0
        count = 0
        while max(slower, faster) <= THRESHOLD:
            residual = generator.normal() + shift
            slower, faster, count = max(0.0, slower + residual - 0.5), max(0.0, faster - residual - 0.5), count + 1
        return count

    assert np.mean([run_length(1.0) for _ in range(2000)]) == pytest.approx(10.4, rel=0.05)
    assert np.mean([run_length(0.0) for _ in range(300)]) == pytest.approx(465.0, rel=0.2)
