"""The residual learns what is left where it was measured, and says nothing where it was not."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray

from surrogate.estimators.residual_model import LARGEST_RESIDUAL, ResidualModel, TreeSettings, similar_runs
from surrogate.estimators.training_rows import diverse_rows, left_over, noise_sd
from surrogate.features.levels import UNKNOWN, SiteLevels

QUICK = TreeSettings(num_trees=60, max_depth=4, learning_rate=0.1, column_share=1.0)


def levels_of(*families: str) -> SiteLevels:
    names = np.array(families, dtype=object)
    return SiteLevels(
        stack=names, accelerator_family=names, expert_shape=names, publisher_family=names, release=names,
        year=np.full(len(names), 2024.0),
    )  # fmt: skip


@pytest.fixture
def features() -> NDArray[np.float64]:
    return np.random.default_rng(0).normal(size=(200, 5))


def fitted(features, residual, **options: object) -> ResidualModel:
    model = ResidualModel(QUICK, num_threads=1, **options)
    return model.fit(features, residual, levels_of(*["alpha"] * len(residual)), features)


class TestTrees:
    def test_learn_what_is_left(self, features):
        residual = 0.3 * np.sign(features[:, 0])
        assert np.abs(fitted(features, residual).predict(features) - residual).mean() < 0.05

    def test_corrections_are_clipped(self, features):
        residual = 5.0 * np.sign(features[:, 0])
        corrections = fitted(features, residual).predict(features)
        assert np.abs(corrections).max() <= LARGEST_RESIDUAL
        assert np.abs(corrections).mean() > 0.9 * LARGEST_RESIDUAL

    def test_same_seed_same_trees(self, features):
        residual = np.random.default_rng(1).normal(size=200) * 0.1
        one, two = (fitted(features, residual, random_state=3).predict(features) for _ in range(2))
        np.testing.assert_array_equal(one, two)
        assert not np.array_equal(one, fitted(features, residual, random_state=4).predict(features))

    def test_out_of_fold_corrections_do_not_know_their_row(self, features):
        # pure noise cannot be predicted from other folds, whatever the trees memorise of their own
        noise = np.random.default_rng(2).normal(size=200) * 0.2
        folds = np.arange(200) % 5
        held_out = ResidualModel(QUICK, num_threads=1).out_of_fold(features, noise, folds)
        memorised = fitted(features, noise).predict(features)
        assert abs(np.corrcoef(held_out, noise)[0, 1]) < 0.25
        assert np.corrcoef(memorised, noise)[0, 1] > 0.7

    def test_one_fold_of_everything_corrects_nothing(self, features):
        corrections = ResidualModel(QUICK, num_threads=1).out_of_fold(
            features, features[:, 0], np.zeros(200, dtype=int)
        )
        assert not corrections.any()


class TestGate:
    def test_is_shut_for_publishers_nobody_measured(self, features):
        model = fitted(features, features[:, 0])
        assert not model.gate(levels_of("beta", UNKNOWN), features[:2]).any()

    def test_counts_similar_runs(self):
        # three runs at the point itself, one at distance 1.5: 3 + exp(-1/2)
        knobs = np.array([[0.0], [0.0], [0.0], [1.5]])
        model = ResidualModel(QUICK, num_threads=1).fit(knobs, np.zeros(4), levels_of(*["alpha"] * 4), knobs)
        similar = 3.0 + np.exp(-0.5)
        gate = model.gate(levels_of("alpha"), np.zeros((1, 1)))
        assert gate[0] == pytest.approx(similar / (similar + 3.0))

    def test_leaves_out_the_row_itself(self):
        knobs = np.array([[0.0], [100.0]])
        model = ResidualModel(QUICK, num_threads=1).fit(knobs, np.zeros(2), levels_of("alpha", "alpha"), knobs)
        assert model.gate(levels_of("alpha", "alpha"), knobs, without_itself=True) == pytest.approx(
            [0.0, 0.0], abs=1e-9
        )

    def test_closes_with_distance(self, features):
        model = fitted(features, features[:, 0])
        levels = levels_of(*["alpha"] * 3)
        gates = model.gate(levels, features[:1] + np.array([[0.0], [3.0], [30.0]]))
        assert 0.5 < gates[0] < 1.0
        assert gates[0] > gates[1] > gates[2]
        assert gates[2] < 1e-6

    def test_other_publishers_do_not_count(self):
        evidence = np.array(["alpha", "beta"], dtype=object)
        similar = similar_runs(levels_of("alpha", UNKNOWN), np.zeros((2, 3)), evidence, np.zeros((2, 3)))
        assert similar == pytest.approx([1.0, 0.0])


class TestTrainingRows:
    def test_noise_by_grade_audit_and_own_spread(self):
        runs = pd.DataFrame(
            {
                "quality": ["a", "c", "a", None],
                "audit": [None, None, "low-weight", None],
                "step_time_cv": [None, None, None, 0.4],
                "n_steps": [None, None, None, 100.0],
            }
        )
        assert noise_sd(runs) == pytest.approx([0.03, 0.10, 0.06, np.hypot(0.05, 0.04)])

    def test_noise_of_a_table_that_says_nothing(self):
        assert noise_sd(pd.DataFrame(index=range(3))) == pytest.approx([0.05] * 3)

    def test_diverse_rows_cap_a_source_and_keep_small_ones(self):
        random = np.random.default_rng(0)
        runs = pd.DataFrame({"source": ["large"] * 50 + ["small"] * 4})
        rows = diverse_rows(runs, random.normal(size=(54, 3)), 10)
        assert len(rows) == 14
        assert list(rows) == sorted(set(rows))
        assert {50, 51, 52, 53} <= set(rows)

    def test_diverse_rows_are_far_apart(self):
        # a cluster of 40 repeats and ten distinct points: the ten come first
        knobs = np.concatenate([np.zeros((40, 1)), np.arange(1.0, 11.0)[:, None]])
        rows = diverse_rows(pd.DataFrame({"source": ["one"] * 50}), knobs, 11)
        assert set(range(40, 50)) <= set(rows)

    def test_left_over_of_calibration_rows_is_without_their_group(self, effects, site_rows):
        rows = np.arange(len(site_rows))
        groups = pd.factorize(site_rows.levels.release)[0]
        np.testing.assert_allclose(left_over(effects, site_rows, rows, groups), effects.left_out(groups))
        some = np.arange(0, len(site_rows), 2)
        kept = effects.restricted(some)
        remainder = left_over(kept, site_rows, some, groups)
        predicted = kept.predict(site_rows.terms, site_rows.levels, site_rows.knobs, with_spread=False).log_time
        np.testing.assert_allclose(remainder[1::2], (site_rows.log_time - predicted)[1::2])
