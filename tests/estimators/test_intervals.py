"""Intervals: conformal quantiles by hand, and their coverage where the truth is known."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from surrogate.estimators.conformalization import (
    HeldOutCorrection,
    ResidualSpread,
    conformalize,
    fold_of_groups,
    residual_spread,
    strata,
)
from surrogate.estimators.intervals import (
    BETWEEN_SITES_SD,
    KNOWLEDGE,
    ConformalIntervals,
    ConformalScores,
    with_floor,
)
from surrogate.estimators.site_data import SiteData
from surrogate.estimators.site_effects import SiteEffects
from surrogate.features.knobs import KNOBS


def scores_of(values: list[float], families: list[str] | None = None) -> ConformalScores:
    names = families or [f"family-{place}" for place in range(len(values))]
    return ConformalScores(score=np.array(values), stratum=np.array(names, dtype=object))


@pytest.fixture(scope="module")
def third(site_rows: SiteData) -> SiteData:
    """Return every third measured row."""
    return site_rows.take(np.arange(0, len(site_rows), 3))


@pytest.fixture(scope="module")
def conformal(third: SiteData) -> ConformalIntervals:
    """Return intervals of effects without trees."""
    nothing = np.zeros(len(third))
    return conformalize(
        SiteEffects(relinearisations=1).fit(third),
        third,
        HeldOutCorrection(gate=nothing, correction=nothing),
        ResidualSpread(overall=0.05, by_stratum={}),
        groups=np.arange(len(third)),
        levels=KNOWLEDGE,
    )


class TestQuantile:
    def test_equal_families_give_the_split_conformal_rank(self):
        # nine families of one row: 0.9 x (1 + 1/9) = 1.0 asks for the largest; 0.5 x 10/9 for the fifth
        scores = scores_of([3.0, 1.0, 2.0, 5.0, 4.0, 9.0, 8.0, 7.0, 6.0])
        assert scores.quantile(0.9) == 9.0
        assert scores.quantile(0.5) == 5.0

    def test_a_large_family_weighs_as_much_as_a_small_one(self):
        # 99 easy rows of one family against one hard row of another: each family is half of the weight
        scores = scores_of([0.1] * 99 + [3.0], ["large"] * 99 + ["small"])
        assert scores.quantile(0.4) == pytest.approx(3.0)
        assert scores_of([0.1] * 99 + [3.0]).quantile(0.4) == pytest.approx(0.1)

    def test_a_coverage_that_cannot_be_reached_takes_the_largest(self):
        assert scores_of([1.0, 2.0]).quantile(0.99) == 2.0

    @settings(max_examples=50, deadline=None)
    @given(
        values=st.lists(st.floats(0.0, 10.0), min_size=1, max_size=40),
        low=st.floats(0.05, 0.95),
        high=st.floats(0.05, 0.95),
    )
    def test_grows_with_coverage_and_is_one_of_the_scores(self, values, low, high):
        scores = scores_of(values, [f"family-{place % 3}" for place in range(len(values))])
        smaller, larger = scores.quantile(min(low, high)), scores.quantile(max(low, high))
        assert smaller <= larger
        assert {smaller, larger} <= set(scores.score)

    def test_covers_the_next_family_of_exchangeable_ones(self):
        # 30 families with a scale each: the next family's rows lie within the 80 % quantile in 80 % of the draws
        random = np.random.default_rng(0)
        covered = []
        for _ in range(300):
            scale = np.exp(0.3 * random.normal(size=31))
            table = np.abs(random.normal(size=(31, 8))) * scale[:, None]
            names = [f"family-{place}" for place in np.repeat(np.arange(30), 8)]
            width = scores_of(list(table[:30].ravel()), names).quantile(0.8)
            covered.append(np.mean(table[30] <= width))
        assert np.mean(covered) == pytest.approx(0.8, abs=0.04)


class TestHalfWidth:
    def test_is_sigma_times_the_quantile_of_the_level(self):
        intervals = ConformalIntervals(
            scores={level: scores_of([width] * 20) for level, width in zip(KNOWLEDGE, (3.0, 2.0, 1.0), strict=True)}
        )
        knowledge = np.array(["release", "family", "population"], dtype=object)
        assert intervals.half_width(knowledge, np.array([0.1, 0.1, 0.2]), 0.9) == pytest.approx([0.1, 0.2, 0.6])

    def test_levels_without_scores_fall_back_to_knowing_less(self):
        intervals = ConformalIntervals(scores={"population": scores_of([3.0] * 20), "release": scores_of([1.0] * 20)})
        knowledge = np.array(["family", "release"], dtype=object)
        assert intervals.half_width(knowledge, np.ones(2), 0.9) == pytest.approx([3.0, 1.0])

    def test_the_least_known_level_falls_back_to_what_there_is(self):
        intervals = ConformalIntervals(scores={"release": scores_of([1.5] * 20)})
        assert intervals.half_width(np.array(["population"], dtype=object), np.ones(1), 0.9) == pytest.approx([1.5])

    def test_floor_adds_in_quadrature_by_knowledge(self):
        names = np.array(KNOWLEDGE, dtype=object)
        floors = np.array([BETWEEN_SITES_SD[name] for name in KNOWLEDGE])
        assert with_floor(np.full(3, 0.3), names) == pytest.approx(np.sqrt(0.09 + floors**2))
        assert with_floor(np.array([0.0]), "family") == pytest.approx([BETWEEN_SITES_SD["family"]])
        assert list(floors) == sorted(floors, reverse=True)


class TestFamilies:
    """Errors of the own publisher family count more than others', where the site is known."""

    @pytest.fixture
    def calm_and_wild(self) -> ConformalIntervals:
        scores = ConformalScores(
            score=np.concatenate([np.full(200, 0.5), np.full(200, 4.0)]),
            stratum=np.array(["calm"] * 200 + ["wild"] * 200, dtype=object),
        )
        return ConformalIntervals(scores={"population": scores, "release": scores})

    def test_a_known_family_gets_its_own_width(self, calm_and_wild):
        known = np.array(["release"] * 3, dtype=object)
        families = np.array(["calm", "wild", "nobody"], dtype=object)
        assert list(calm_and_wild.half_width(known, np.ones(3), 0.9, families)) == [0.5, 4.0, 4.0]

    def test_an_unknown_site_gets_everyones_width(self, calm_and_wild):
        unknown = np.array(["population"], dtype=object)
        assert calm_and_wild.half_width(unknown, np.ones(1), 0.9, np.array(["calm"], dtype=object)) == [4.0]

    def test_few_own_rows_say_little(self):
        scores = ConformalScores(
            score=np.array([0.5] + [4.0] * 50), stratum=np.array(["one"] + ["many"] * 50, dtype=object)
        )
        assert scores.quantile(0.9, "one") == 4.0


class TestSpread:
    def test_families_with_few_rows_are_drawn_to_all(self):
        corrected = np.concatenate([np.full(100, 0.1), np.full(1, 0.4)])
        spread = residual_spread(corrected, np.array(["many"] * 100 + ["one"], dtype=object))
        assert spread.overall == pytest.approx(np.sqrt((0.01 + 0.16) / 2))
        assert spread.by_stratum["many"] == pytest.approx(np.sqrt((1.0 + 10 * 0.085) / 110))
        assert spread.overall < spread.by_stratum["one"] < 0.4

    def test_experts_have_a_spread_of_their_own(self, site_rows):
        names = strata(site_rows.levels, site_rows.knobs)
        has_experts = site_rows.knobs[:, KNOBS.index("num_experts")] > 0.0
        assert has_experts.any()
        assert [name.endswith(" (MoE)") for name in names] == list(has_experts)
        assert [name.removesuffix(" (MoE)") for name in names] == list(site_rows.levels.publisher_family)

    def test_an_outlier_counts_at_most_half_a_factor_of_e(self):
        spread = residual_spread(np.array([9.0] * 5), np.array(["mad"] * 5, dtype=object))
        assert spread.overall == pytest.approx(0.5)

    def test_shut_gate_leaves_the_spread_of_the_effects(self, site_rows):
        names = strata(site_rows.levels, site_rows.knobs)[:4]
        spread = ResidualSpread(overall=0.07, by_stratum={})
        log_sd = np.array([0.05, 0.1, 0.2, 0.4])
        assert spread.combined(log_sd, np.zeros(4), names) == pytest.approx(log_sd)
        opened = spread.combined(log_sd, np.full(4, 1.0), names)
        assert (opened <= 0.07 + 1e-12).all()


class TestConformalization:
    def test_folds_keep_groups_whole_and_use_every_fold(self):
        groups = np.repeat(np.arange(40), 3)
        folds = fold_of_groups(groups, 5)
        assert set(folds) == set(range(5))
        assert len(set(zip(groups, folds, strict=True))) == 40

    def test_every_level_has_scores_of_its_rows(self, conformal, third):
        families = pd.Series(third.levels.publisher_family)
        sisters = pd.Series(third.levels.release).groupby(families).transform("nunique") > 1
        assert set(conformal.scores) == set(KNOWLEDGE)
        assert len(conformal.scores["population"].score) == len(third)
        assert len(conformal.scores["family"].score) == sisters.sum()
        assert all(np.isfinite(scores.score).all() for scores in conformal.scores.values())

    def test_made_up_sites_are_covered(self, conformal, effects, site_rows):
        # log times drawn from the model's own belief about strangers: 90 % intervals hold at least 90 % of them
        random = np.random.default_rng(0)
        nobody = np.full(len(site_rows), "", dtype=object)
        levels = replace(site_rows.levels, publisher_family=nobody, release=nobody)
        estimate = effects.predict(site_rows.terms, levels, site_rows.knobs)
        sigma = with_floor(estimate.log_sd, "population")
        error = np.abs(sigma * random.normal(size=len(sigma)))
        half = conformal.half_width(np.full(len(sigma), "population", dtype=object), sigma, 0.9)
        assert 0.85 < np.mean(error <= half) <= 1.0
        assert np.median(half) < 1.0
