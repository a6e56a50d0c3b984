"""Stacks, site levels, knobs and ratios of a table."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from surrogate.analytic.coefficients import LOG_TEXTBOOK
from surrogate.analytic.step_terms import step_terms
from surrogate.analytic.step_time import step_time
from surrogate.features import KNOBS, knob_matrix, prepare_runs, site_levels
from surrogate.features.levels import UNKNOWN
from surrogate.features.ratios import FEATURES, RATIOS, SHARES, ratio_matrix
from surrogate.features.stacks import stack_of, stack_traits


@pytest.mark.parametrize(
    ("framework", "stack"),
    [
        ("", ""),
        ("megatron-lm", "megatron-core"),
        ("NeMo-AutoModel", "nemo-automodel"),
        ("nemo", "megatron-core"),
        ("megatron-deepspeed", "megatron-deepspeed"),
        ("gpt-neox", "megatron-deepspeed"),
        ("deepspeed", "deepspeed-zero"),
        ("torchtitan", "torchtitan"),
        ("pytorch-fsdp", "torchtitan"),
        ("llm-foundry", "composer-fsdp-torch2"),
        ("MaxText", "maxtext"),
        ("my-own-trainer", "my-own-trainer"),
    ],
)
def test_stack_of_a_framework(framework, stack):
    assert stack_of(framework) == stack


def test_a_named_stack_wins_over_the_framework(make_runs):
    runs = make_runs({"framework": "megatron-lm", "stack": "paxml"}, {"framework": "megatron-lm"}, {})
    traits = stack_traits(runs)
    assert list(traits.stack) == ["paxml", "megatron-core", "megatron-core"]
    assert list(traits.is_xla) == [True, False, False]
    assert list(traits.named("megatron-core")) == [False, True, True]


class TestLevels:
    @pytest.fixture
    def levels(self, make_runs):
        runs = make_runs(
            {"source": "release-1", "publisher_family": "alpha", "date": "2024-05"},
            {"source": "release-2", "publisher_family": "alpha", "date": "2024-08"},
            {"source": "release-1", "publisher_family": "beta", "accelerator": "A100-80GB"},
            {"source": "mine"},
            {"publisher_family": "alpha"},
            {},
        )
        return site_levels(runs, prepare_runs(runs))

    def test_names(self, levels):
        assert list(levels.publisher_family) == ["alpha", "alpha", "beta", "mine", "alpha", UNKNOWN]
        assert list(levels.accelerator_family) == ["H100", "H100", "A100", "H100", "H100", "H100"]
        assert set(levels.stack) == {"megatron-core"}

    def test_a_release_is_a_source_within_its_family(self, levels):
        assert levels.release[0] != levels.release[2]
        assert len(set(levels.release[:4])) == 4
        assert levels.release[4] == levels.release[5] == UNKNOWN

    def test_mixtures_share_the_shape_of_their_experts_whatever_their_depth(self, make_runs):
        mixture = {"num_experts": 64, "moe_top_k": 8, "moe_ffn_hidden_size": 1024}
        runs = make_runs({}, mixture, mixture | {"num_layers": 8}, mixture | {"moe_top_k": 4})
        shape = site_levels(runs, prepare_runs(runs)).expert_shape
        assert shape[0] == UNKNOWN
        assert shape[1] == shape[2] == "4096 x 1024, 8 of 64"
        assert shape[3] == "4096 x 1024, 4 of 64"

    def test_years_step_by_half(self, levels):
        assert levels.year[0] == levels.year[1] == 2024.5
        assert np.all(levels.year * 2 == np.round(levels.year * 2))

    def test_rows_can_be_taken(self, levels):
        taken = levels.take(np.array([2, 0]))
        assert len(taken) == 2
        assert list(taken.publisher_family) == ["beta", "alpha"]

    def test_a_table_without_site_columns(self, make_runs):
        runs = make_runs({}, {})
        levels = site_levels(runs, prepare_runs(runs))
        assert list(levels.publisher_family) == list(levels.release) == [UNKNOWN, UNKNOWN]


class TestKnobs:
    def test_shape_and_order(self, make_runs):
        knobs = knob_matrix(prepare_runs(make_runs({}, {"tp": 8}, {"precision": "fp8"})))
        assert knobs.shape == (3, len(KNOBS))
        assert np.isfinite(knobs).all()
        assert knobs[:, KNOBS.index("tp")] == pytest.approx(np.log([4.0, 8.0, 4.0]))
        assert list(knobs[:, KNOBS.index("fp8")]) == [0.0, 0.0, 1.0]

    def test_a_factor_of_e_in_one_size_is_a_distance_of_1(self, make_runs):
        knobs = knob_matrix(prepare_runs(make_runs({}, {"seq_len": 8192 * np.e})))
        assert np.linalg.norm(knobs[1] - knobs[0]) == pytest.approx(1.0)

    def test_the_same_configuration_is_the_same_point(self, make_runs):
        knobs = knob_matrix(prepare_runs(make_runs({}, {"source": "elsewhere"})))
        np.testing.assert_array_equal(knobs[0], knobs[1])

    def test_full_recomputation_counts_twice_a_selective_one(self, make_runs):
        knobs = knob_matrix(prepare_runs(make_runs(*({"recompute": kind} for kind in ("none", "selective", "full")))))
        assert np.linalg.norm(knobs[1] - knobs[0]) == pytest.approx(1.0)
        assert np.linalg.norm(knobs[2] - knobs[0]) == pytest.approx(2.0)


class TestRatios:
    @pytest.fixture
    def features(self, make_runs):
        prepared = prepare_runs(make_runs({}, {"pp": 1}, {"num_experts": 8, "moe_ffn_hidden_size": 2048}))
        terms = step_terms(prepared.workload, prepared.software)
        matrix = ratio_matrix(prepared, terms, step_time(terms, LOG_TEXTBOOK), knob_matrix(prepared))
        return pd.DataFrame(matrix, columns=list(FEATURES))

    def test_every_feature_is_named_once_and_finite(self, features):
        assert features.columns.is_unique
        assert np.isfinite(features.to_numpy()).all()

    def test_shares_are_of_the_whole_step(self, features):
        assert features[list(SHARES)].sum(axis=1).to_numpy() == pytest.approx(1.0)
        assert features["bubble_share"][1] == 0.0
        assert features["ep_share"][0] == 0.0 < features["ep_share"][2]

    def test_no_ratio_beats_the_roofline(self, features):
        assert (features["log_roofline_ratio"] <= 0.0).all()
        assert len(RATIOS) + len(SHARES) + len(KNOBS) == len(FEATURES)


def test_one_row_is_a_row_of_the_table(make_runs):
    runs = make_runs({}, {"accelerator": "TPUv5p", "stack": "maxtext"}, {"num_experts": 8}, {"date": "2021-01"})
    whole, alone = prepare_runs(runs), [prepare_runs(runs.iloc[[row]]) for row in range(4)]
    np.testing.assert_allclose(knob_matrix(whole), np.vstack([knob_matrix(one) for one in alone]), rtol=1e-14)
    terms = step_terms(whole.workload, whole.software)
    singles = [step_terms(one.workload, one.software) for one in alone]
    np.testing.assert_allclose(terms.roofline_s, [one.roofline_s[0] for one in singles], rtol=1e-14)
    np.testing.assert_allclose(terms.reduce_s, [one.reduce_s[0] for one in singles], rtol=1e-14)
