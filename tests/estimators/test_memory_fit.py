"""Derivatives, leaving out and the probit of the memory model's posterior, against brute force."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from surrogate.estimators.memory_model_fit import Evidence, fit_posterior, jacobian, leave_out, row_factors, row_terms
from surrogate.estimators.memory_model_items import ITEM_EFFECT, NUM_EFFECTS, NUM_ITEMS, effect_shares, seen_items
from surrogate.estimators.memory_model_posterior import log_peak
from surrogate.estimators.memory_model_training import LARGEST_STRANGER_RESIDUAL, SHIFT_PRIOR_SOURCES, stranger_shift
from surrogate.estimators.oom import fit_recalibration, oom_margin, oom_probability
from surrogate.estimators.oom_trees import FEATURES, OomTrees

NUM_SITES = (2, 2, 3)


def build_evidence(seed: int = 0, rows: int = 90) -> Evidence:
    random = np.random.default_rng(seed)
    items = random.gamma(1.0, 4.0, (rows, NUM_ITEMS))
    codes = np.column_stack([random.integers(0, count, rows) for count in NUM_SITES])
    truth = np.log(items.sum(axis=1)) + 0.2 * (codes[:, 2] == 1) + random.normal(0, 0.05, rows)
    is_peak = np.arange(rows) < 2 * rows // 3
    limit = np.log(items.sum(axis=1).mean())
    side = np.where(is_peak, 0.0, np.where(truth < limit, 1.0, -1.0))
    return Evidence(items=items, codes=codes, target=np.where(is_peak, truth, limit), side=side)


def test_slopes_are_the_derivative_of_the_loss() -> None:
    evidence = build_evidence()
    scale = np.full(len(evidence.side), 0.2)
    predicted = evidence.target + np.random.default_rng(1).normal(0, 0.1, len(evidence.side))
    step = 1e-6
    after, before = (row_terms(evidence, predicted + shift, 0.1, scale).loss for shift in (step, -step))
    np.testing.assert_allclose(
        row_terms(evidence, predicted, 0.1, scale).slope, (after - before) / (2 * step), rtol=1e-4
    )


def test_jacobian_is_the_derivative_of_the_log_peak() -> None:
    evidence = build_evidence(rows=12)
    theta = np.random.default_rng(2).normal(0, 0.2, NUM_ITEMS + NUM_EFFECTS * sum(NUM_SITES))

    def predict(candidate: np.ndarray) -> np.ndarray:
        return log_peak(evidence.items, row_factors(candidate, evidence.codes, NUM_SITES))[0]

    shares = log_peak(evidence.items, row_factors(theta, evidence.codes, NUM_SITES))[1]
    derivative = jacobian(shares, evidence.codes, NUM_SITES)
    step = 1e-6
    for column, direction in enumerate(np.eye(len(theta))):
        slope = (predict(theta + step * direction) - predict(theta - step * direction)) / (2 * step)
        np.testing.assert_allclose(derivative[:, column], slope, atol=1e-7)


def test_posterior_predicts_as_its_parameters_say() -> None:
    evidence = build_evidence()
    posterior = fit_posterior(evidence, NUM_SITES, 0.1)
    mean, variance = posterior.predict(evidence.items, evidence.codes)
    factors = row_factors(posterior.mean, evidence.codes, NUM_SITES)
    expected, shares = log_peak(evidence.items, factors)
    derivative = jacobian(shares, evidence.codes, NUM_SITES)
    np.testing.assert_allclose(mean, expected)
    np.testing.assert_allclose(variance, ((derivative @ posterior.covariance) * derivative).sum(axis=1))


def test_leaving_out_agrees_with_fitting_without() -> None:
    evidence = build_evidence()
    posterior = fit_posterior(evidence, NUM_SITES, 0.1)
    blocks = np.arange(len(evidence.side)) % 6
    mean, variance = leave_out(posterior, evidence, blocks)
    kept, dropped = blocks != 0, blocks == 0
    rest = Evidence(
        items=evidence.items[kept], codes=evidence.codes[kept], target=evidence.target[kept], side=evidence.side[kept]
    )
    refitted = fit_posterior(rest, NUM_SITES, 0.1)
    again, _ = refitted.predict(evidence.items[dropped], evidence.codes[dropped])
    in_sample, within = posterior.predict(evidence.items, evidence.codes)
    assert np.abs(mean[dropped] - again).max() < 0.04
    assert (variance >= within - 1e-12).all()
    assert np.corrcoef(mean[dropped] - in_sample[dropped], again - in_sample[dropped])[0, 1] > 0.9


def test_an_unknown_level_adds_its_prior_variance() -> None:
    evidence = build_evidence()
    posterior = fit_posterior(evidence, NUM_SITES, 0.1)
    known, stranger = evidence.codes[:1], np.array([[evidence.codes[0, 0], evidence.codes[0, 1], -1]])
    _, variance = posterior.predict(evidence.items[:1], stranger)
    shares = effect_shares(log_peak(evidence.items[:1], posterior.site_factors(stranger[0])[0])[1])[0]
    added = (shares**2 * posterior.variances[1 + 2 * NUM_EFFECTS :]).sum()
    assert variance[0] > added > 0
    assert posterior.predict(evidence.items[:1], known)[1][0] > 0


def test_item_effects_partition_the_items() -> None:
    shares = np.random.default_rng(0).dirichlet(np.ones(NUM_ITEMS), 5)
    np.testing.assert_allclose(effect_shares(shares).sum(axis=1), 1.0)
    assert set(ITEM_EFFECT.tolist()) == set(range(NUM_EFFECTS))


def test_each_kind_of_measurement_sees_its_items() -> None:
    seen = seen_items(np.array(["device", "reserved", "allocated"]))
    assert seen.sum(axis=1).tolist() == [NUM_ITEMS, NUM_ITEMS - 1, NUM_ITEMS - 2]


@given(shift=st.floats(-0.5, 0.5), slope=st.floats(0.7, 1.4))
def test_recalibration_finds_shift_and_slope(shift: float, slope: float) -> None:
    random = np.random.default_rng(0)
    margin = random.normal(0, 1.5, 3000)
    out_of_memory = random.normal(0, 1, 3000) < shift + slope * margin
    found_shift, found_log_slope = fit_recalibration(margin, out_of_memory)
    assert found_shift == pytest.approx(shift, abs=0.12)
    assert np.exp(found_log_slope) == pytest.approx(slope, rel=0.12)


def test_risk_at_the_limit_is_a_half_and_rises_with_the_peak() -> None:
    margin = oom_margin(np.log([40.0, 80.0, 160.0]), np.full(3, 0.1), np.full(3, 80.0))
    risk = oom_probability(margin)
    assert risk[1] == 0.5
    assert risk[0] < 1e-6
    assert risk[2] > 1 - 1e-6


def test_trees_mend_a_known_blind_spot_and_keep_the_order() -> None:
    random = np.random.default_rng(0)
    features = random.normal(0, 1, (600, len(FEATURES)))
    blind = FEATURES.index("flash_attention")
    features[:, blind] = random.integers(0, 2, 600)
    probability = oom_probability(features[:, 0])
    out_of_memory = random.random(600) < oom_probability(features[:, 0] + 1.5 * features[:, blind])
    trees = OomTrees.fit(features, probability, out_of_memory, random_state=0)
    corrected = trees.correct(features, probability)
    assert np.mean((corrected - out_of_memory) ** 2) < np.mean((probability - out_of_memory) ** 2)
    raised = features.copy()
    raised[:, FEATURES.index("log_micro_batch_size")] += 1.0
    assert (trees.correct(raised, probability) >= corrected - 1e-6).all()
    np.testing.assert_array_equal(OomTrees.from_bytes(trees.to_bytes()).correct(features, probability), corrected)


def test_a_source_that_no_other_explains_does_not_shift_all_strangers() -> None:
    weights = np.array([0.5, 0.5, 1.0, 0.0])
    usual, astray = (stranger_shift(np.array([0.2, 0.4, last, 9.0]), weights) for last in (0.3, 14.5))
    assert usual == pytest.approx((0.3 + 0.3) / (2 + SHIFT_PRIOR_SOURCES))
    assert astray == pytest.approx((0.3 + LARGEST_STRANGER_RESIDUAL) / (2 + SHIFT_PRIOR_SOURCES))
