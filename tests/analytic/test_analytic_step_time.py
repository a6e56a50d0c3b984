"""Properties that hold for every configuration, checked on random layouts of dense, expert and MLA models."""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from surrogate.analytic.coefficients import COEFFICIENTS, INDEX, LOG_SD, LOG_TEXTBOOK, NAMES, Group
from surrogate.analytic.software import AttentionKernel, SoftwareTraits
from surrogate.analytic.step_terms import StepTerms, step_terms
from surrogate.analytic.step_time import StepTimeBreakdown, log_step_time, log_step_time_jacobian, step_time
from surrogate.analytic.workload import Workload

ROWS = 64
PARTS = [field.name for field in fields(StepTimeBreakdown)]
BANDWIDTHS = ("hbm_bytes_per_s", "fast_link_bytes_per_s", "network_bytes_per_s", "host_link_bytes_per_s")
seeds = st.integers(0, 10_000)
few = settings(max_examples=25, deadline=None)


def random_software(seed: int, rows: int) -> SoftwareTraits:
    random = np.random.default_rng(seed)
    return SoftwareTraits(
        attention_kernel=random.integers(0, len(AttentionKernel), rows),
        whole_program=random.random(rows) < 0.2,
        compiled=random.random(rows) < 0.3,
        fused_norm=random.choice([0.0, 0.5, 1.0], rows),
        deepspeed_zero3=random.random(rows) < 0.2,
        routing_balanced=random.random(rows) < 0.5,
        years_of_software=random.uniform(-3.0, 3.0, rows),
    )


def random_coefficients(seed: int) -> np.ndarray:
    """Return coefficients within two prior standard deviations that slow every product against its peak."""
    log_values = LOG_TEXTBOOK + np.clip(np.random.default_rng(seed).normal(size=len(NAMES)), -2, 2) * LOG_SD
    for name in NAMES:
        if name.startswith(("matmul", "experts", "attention", "imbalance")) and name != "matmul_traffic":
            log_values[INDEX[name]] = max(log_values[INDEX[name]], 0.0)
    return log_values


@pytest.fixture
def make_case(make_random_workload):
    """Return workload, software and textbook coefficients of a seed."""

    def make(seed: int, rows: int = ROWS) -> tuple[Workload, SoftwareTraits]:
        return make_random_workload(seed, rows), random_software(seed, rows)

    return make


@pytest.fixture(scope="module")
def some_terms(make_random_workload) -> StepTerms:
    return step_terms(make_random_workload(7, ROWS), random_software(7, ROWS))


def check(make_random_workload, seed: int) -> StepTerms:
    return step_terms(make_random_workload(seed, ROWS), random_software(seed, ROWS))


class TestRandomLayouts:
    @few
    @given(seed=seeds)
    def test_parts_are_finite_not_negative_and_within_the_total(self, make_random_workload, seed):
        parts = step_time(check(make_random_workload, seed), random_coefficients(seed))
        table = np.array([getattr(parts, name) for name in PARTS])
        assert np.isfinite(table).all()
        assert (table >= 0.0).all()
        assert (parts.total_s >= table.max(axis=0)).all()
        assert parts.total_s == pytest.approx(table.sum(axis=0), rel=1e-12)

    @few
    @given(seed=seeds)
    def test_no_step_beats_the_roofline(self, make_random_workload, seed):
        terms = check(make_random_workload, seed)
        assert (step_time(terms, LOG_TEXTBOOK).total_s >= terms.roofline_s).all()

    @few
    @given(seed=seeds, factor=st.floats(1.05, 4.0), name=st.sampled_from(BANDWIDTHS))
    def test_more_bandwidth_is_never_slower(self, make_random_workload, seed, factor, name):
        w, software = make_random_workload(seed, ROWS), random_software(seed, ROWS)
        faster = replace(w, **{name: factor * getattr(w, name)})
        before = log_step_time(step_terms(w, software), LOG_TEXTBOOK)
        after = log_step_time(step_terms(faster, software), LOG_TEXTBOOK)
        assert (after <= before + 1e-12).all()

    @few
    @given(seed=seeds, factor=st.floats(1.05, 4.0))
    def test_more_peak_is_never_slower(self, make_random_workload, seed, factor):
        w, software = make_random_workload(seed, ROWS), random_software(seed, ROWS)
        peaks = ("peak_flops_per_s", "peak_16bit_flops_per_s")
        faster = replace(w, **{name: factor * getattr(w, name) for name in peaks})
        before = log_step_time(step_terms(w, software), LOG_TEXTBOOK)
        after = log_step_time(step_terms(faster, software), LOG_TEXTBOOK)
        assert (after < before).all()

    @few
    @given(seed=seeds)
    def test_one_row_is_a_row_of_the_column(self, make_random_workload, seed):
        w, software = make_random_workload(seed, ROWS), random_software(seed, ROWS)
        column = log_step_time(step_terms(w, software), LOG_TEXTBOOK)
        row = slice(seed % ROWS, seed % ROWS + 1)
        alone = log_step_time(step_terms(w.take(row), software.take(row)), LOG_TEXTBOOK)
        assert alone[0] == pytest.approx(column[row][0], abs=1e-13)

    @few
    @given(seed=seeds)
    def test_rows_in_any_order(self, make_random_workload, seed):
        terms = check(make_random_workload, seed)
        order = np.random.default_rng(seed).permutation(ROWS)
        assert log_step_time(terms.take(order), LOG_TEXTBOOK) == pytest.approx(
            log_step_time(terms, LOG_TEXTBOOK)[order], abs=1e-13
        )


def test_time_scales_with_its_units(make_case):
    # half of every rate and twice every fixed cost is the same step in units half as long
    w, software = make_case(3)
    rates = [name for name in (field.name for field in fields(Workload)) if name.endswith("_per_s")]
    slower = replace(w, **{name: getattr(w, name) / 2.0 for name in rates})
    doubled = LOG_TEXTBOOK.copy()
    for name in NAMES:
        if name.endswith("_s"):
            doubled[INDEX[name]] += np.log(2.0)
    before, after = step_time(step_terms(w, software), LOG_TEXTBOOK), step_time(step_terms(slower, software), doubled)
    assert after.total_s == pytest.approx(2.0 * before.total_s, rel=1e-6)


def test_no_bubble_without_stages(some_terms):
    parts = step_time(some_terms, LOG_TEXTBOOK)
    alone = some_terms.pp == 1.0
    assert alone.any()
    assert (parts.bubble_s[alone] == 0.0).all()
    assert (parts.pp_s[alone] == 0.0).all()
    assert (parts.bubble_s[~alone] > 0.0).all()


def test_coefficients_per_row_equal_a_common_vector(some_terms):
    tiled = np.tile(LOG_TEXTBOOK, (ROWS, 1))
    assert log_step_time(some_terms, tiled) == pytest.approx(log_step_time(some_terms, LOG_TEXTBOOK), abs=1e-13)


def test_every_row_takes_its_own_coefficients(some_terms):
    tiled = np.tile(LOG_TEXTBOOK, (ROWS, 1))
    tiled[0, INDEX["matmul"]] += 0.5
    moved = log_step_time(some_terms, tiled) - log_step_time(some_terms, LOG_TEXTBOOK)
    assert moved[0] > 0.01
    assert moved[1:] == pytest.approx(0.0, abs=1e-13)


def test_jacobian_is_the_slope_of_log_time(some_terms):
    slope = log_step_time_jacobian(some_terms, LOG_TEXTBOOK)
    direction = np.random.default_rng(1).normal(size=len(NAMES))
    step = 1e-4
    ahead, behind = (log_step_time(some_terms, LOG_TEXTBOOK + sign * step * direction) for sign in (1, -1))
    assert slope.shape == (ROWS, len(NAMES))
    assert slope @ direction == pytest.approx((ahead - behind) / (2 * step), abs=2e-3)


def test_jacobian_per_row_equals_the_common_one(some_terms):
    tiled = np.tile(LOG_TEXTBOOK, (ROWS, 1))
    assert log_step_time_jacobian(some_terms, tiled) == pytest.approx(
        log_step_time_jacobian(some_terms, LOG_TEXTBOOK), abs=1e-12
    )


def test_costs_have_elasticities_between_0_and_1(some_terms):
    # a coefficient that multiplies a cost cannot move log time by more than its own logarithm
    slope = log_step_time_jacobian(some_terms, LOG_TEXTBOOK)
    helpful = [name for name in NAMES if name.endswith(("_window", "_power", "_progress"))]
    costs = [INDEX[name] for name in NAMES if name not in helpful]
    assert (slope[:, costs] >= -1e-9).all()
    assert (slope[:, costs] <= 1.0 + 1e-9).all()
    assert (slope[:, [INDEX["dp_window"], INDEX["zero3_window"]]] <= 1e-9).all()


def test_coefficients_that_do_not_apply_do_not_matter(some_terms):
    slope = log_step_time_jacobian(some_terms, LOG_TEXTBOOK)
    dense = some_terms.moe_share == 0.0
    assert dense.any()
    moe = [INDEX[coefficient.name] for coefficient in COEFFICIENTS if coefficient.group is Group.MOE]
    assert slope[np.ix_(dense, moe)] == pytest.approx(0.0, abs=1e-12)
    assert slope[:, INDEX["matmul_fp8"]] == pytest.approx(0.0, abs=1e-12)


def test_coefficients_are_declared_once_with_prior_and_source():
    assert len(set(NAMES)) == len(NAMES) == len(LOG_TEXTBOOK) == len(LOG_SD)
    assert np.exp(LOG_TEXTBOOK[INDEX["backward"]]) == pytest.approx(2.0)
    for coefficient in COEFFICIENTS:
        assert coefficient.value > 0.0, coefficient.name
        assert 0.05 <= coefficient.log_sd <= 1.0, coefficient.name
        assert coefficient.meaning, coefficient.name
        assert coefficient.source, coefficient.name
