"""Site effects are one Gaussian: everything they say must equal conditioning it the long way."""

from __future__ import annotations

from copy import copy
from dataclasses import fields, replace

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray
from scipy.spatial.distance import cdist

from surrogate.analytic.coefficients import INDEX, LOG_SD, LOG_TEXTBOOK
from surrogate.analytic.step_time import log_step_time
from surrogate.estimators import prior_covariance
from surrogate.estimators.kernels import similarity_blocks, squared_distances
from surrogate.estimators.site_data import SharedPoints, SiteData
from surrogate.estimators.site_effects import SiteEffects
from surrogate.estimators.sites import LEVELS, distinct_sites
from surrogate.features.knobs import KNOBS
from surrogate.features.levels import UNKNOWN, SiteLevels


def anonymous(levels: SiteLevels) -> SiteLevels:
    """Return the levels of rows nobody knows anything about."""
    nobody = np.full(len(levels), UNKNOWN, dtype=object)
    return SiteLevels(
        stack=nobody, accelerator_family=nobody, expert_shape=nobody, publisher_family=nobody, release=nobody,
        year=levels.year,
    )  # fmt: skip


def of_site(levels: SiteLevels, name: str) -> SiteLevels:
    """Return the same stacks and devices measured by one publisher."""
    named = np.full(len(levels), name, dtype=object)
    return replace(levels, publisher_family=named, release=named)


def noise_variance(effects: SiteEffects) -> NDArray[np.float64]:
    return (effects.scales.noise_factor * effects.noise_sd_) ** 2


def full_covariance(effects: SiteEffects) -> NDArray[np.float64]:
    """Return A, term by term and in double loops of names, noise included."""
    s, j, levels = effects.scales, effects.jacobian_, effects.levels_
    shared = j @ np.diag(LOG_SD**2) @ j.T
    total = s.coefficients["global"] ** 2 * shared + s.offsets["global"] ** 2
    for level in LEVELS:
        names = getattr(levels, level)
        same = np.array([[float(a == b and a != UNKNOWN) for b in names] for a in names])
        if level == "stack":
            same *= np.exp(-np.abs(levels.year[:, None] - levels.year) / s.stack_memory_years)
        wide = s.widths(levels.publisher_family)[:, None] if level in ("publisher_family", "release") else 1.0
        total += wide * same * (s.coefficients[level] ** 2 * shared + s.offsets[level] ** 2)
        if level == "publisher_family":
            near = cdist(effects.knobs_, effects.knobs_, "sqeuclidean")
            total += same * s.site_smooth**2 * np.exp(-0.5 * near / s.site_smooth_length**2)
            near = cdist(effects.knobs_ * s.knob_factors, effects.knobs_ * s.knob_factors, "sqeuclidean")
            total += s.smooth**2 * np.exp(-0.5 * near / s.smooth_length**2)
    return total + np.diag(noise_variance(effects))


@pytest.fixture(scope="module")
def few(site_rows) -> SiteEffects:
    """Return effects that know 80 rows, with their rows in `levels_`."""
    return SiteEffects(relinearisations=1).fit(site_rows.take(np.arange(0, len(site_rows), len(site_rows) // 80)))


class TestConditioning:
    def test_covariance_is_the_declared_sum(self, few):
        long_way = full_covariance(few)
        short = few.covariance(few.rows, few.rows) + np.diag(noise_variance(few))
        np.testing.assert_allclose(short, long_way, rtol=1e-9, atol=1e-12)

    def test_covariance_made_in_tiles_is_the_same(self, few, monkeypatch):
        monkeypatch.setattr(prior_covariance, "_TILE_ROWS", 33)
        tiled = prior_covariance.symmetric_covariance(few.scales, few.rows)
        np.testing.assert_allclose(tiled, few.covariance(few.rows, few.rows), rtol=1e-12, atol=1e-15)

    def test_covariance_with_no_rows_is_empty(self, few):
        assert few.covariance(few.rows.take(0, 0), few.rows).shape == (0, len(few.levels_))
        assert few.covariance(few.rows, few.rows.take(0, 0)).shape == (len(few.levels_), 0)

    def test_alpha_solves_the_system(self, few):
        np.testing.assert_allclose(full_covariance(few) @ few.alpha_, few.residual_, atol=1e-8)

    def test_left_out_equals_an_explicit_refit(self, few):
        families = pd.factorize(few.levels_.publisher_family)[0]
        covariance, closed_form = full_covariance(few), few.left_out(families)
        assert len(np.unique(families)) > 10
        for family in np.unique(families):
            held = families == family
            alpha = np.linalg.solve(covariance[np.ix_(~held, ~held)], few.residual_[~held])
            refitted = few.residual_[held] - covariance[np.ix_(held, ~held)] @ alpha
            np.testing.assert_allclose(closed_form[held], refitted, atol=1e-8)

    def test_restricted_conditions_on_its_rows_alone(self, few):
        kept = np.arange(len(few.residual_)) % 3 > 0
        alpha = np.linalg.solve(full_covariance(few)[np.ix_(kept, kept)], few.residual_[kept])
        np.testing.assert_allclose(few.restricted(kept).alpha_, alpha, atol=1e-8)

    def test_extended_equals_joint_conditioning(self, few, site_rows):
        more = site_rows.take(np.arange(5, 25))
        known = few.predict(more.terms, more.levels, more.knobs)
        more = replace(more, log_time=known.log_time + 0.01)
        added = few.extended(more)
        np.testing.assert_allclose(full_covariance(added) @ added.alpha_, added.residual_, atol=1e-8)
        np.testing.assert_allclose(added.restricted(np.arange(len(few.residual_))).alpha_, few.alpha_, atol=1e-8)

    def test_extending_leaves_the_original_alone(self, few, site_rows):
        before = few.alpha_.copy()
        few.extended(site_rows.take(np.arange(5)))
        few.restricted(np.arange(10))
        np.testing.assert_array_equal(few.alpha_, before)

    def test_predictions_of_known_rows_are_the_posterior_mean(self, effects, site_rows):
        # K alpha = r - noise alpha; the step to a site's coefficients is linearised, which costs a little
        mean = effects.predict(site_rows.terms, site_rows.levels, site_rows.knobs, with_spread=False).log_time
        posterior = site_rows.log_time - noise_variance(effects) * effects.alpha_
        assert np.median(np.abs(mean - posterior)) < 0.01
        assert np.quantile(np.abs(mean - posterior), 0.95) < 0.05

    def test_order_of_rows_does_not_matter(self, few, site_rows):
        rows = np.arange(0, len(site_rows), len(site_rows) // 80)
        shuffled = SiteEffects(relinearisations=1).fit(site_rows.take(np.random.default_rng(0).permutation(rows)))
        some = site_rows.take(np.arange(0, 60, 7))
        one, other = (e.predict(some.terms, some.levels, some.knobs) for e in (few, shuffled))
        np.testing.assert_allclose(one.log_time, other.log_time, atol=1e-6)
        np.testing.assert_allclose(one.log_sd, other.log_sd, atol=1e-6)

    def test_one_row_is_a_row_of_many(self, effects, site_rows):
        some = site_rows.take(np.arange(0, len(site_rows), 23))
        many = effects.predict(some.terms, some.levels, some.knobs)
        for row in range(0, len(some), 5):
            one = some.take(np.array([row]))
            alone = effects.predict(one.terms, one.levels, one.knobs)
            assert alone.log_time[0] == pytest.approx(many.log_time[row], abs=1e-5)
            assert alone.log_sd[0] == pytest.approx(many.log_sd[row], abs=1e-5)


class TestSpread:
    def test_grows_as_less_is_known(self, effects, site_rows):
        some = site_rows.take(np.arange(0, len(site_rows), 9))
        known = effects.predict(some.terms, some.levels, some.knobs).log_sd
        stranger = effects.predict(some.terms, of_site(some.levels, "a new publisher"), some.knobs).log_sd
        assert (stranger > known).mean() > 0.95
        assert np.median(stranger) > 1.2 * np.median(known)

    def test_grows_with_distance(self, effects, site_rows):
        some = site_rows.take(np.arange(20))
        levels = anonymous(some.levels)
        near, far = (effects.predict(some.terms, levels, some.knobs + shift) for shift in (0.0, 4.0))
        assert (far.similarity < near.similarity).all()
        assert (far.log_sd > near.log_sd).all()

    def test_posterior_of_a_site_is_a_covariance_within_its_prior(self, effects):
        site = effects.levels_.take(np.array([0]))
        covariance = effects.site_covariance(site)
        s = effects.scales
        prior = np.append(
            LOG_SD**2 * sum(value**2 for value in s.coefficients.values()), sum(v**2 for v in s.offsets.values())
        )
        np.testing.assert_allclose(covariance, covariance.T, atol=1e-9)
        assert np.linalg.eigvalsh(covariance).min() > -1e-9
        assert (np.diag(covariance) <= prior + 1e-12).all()

    def test_is_zero_when_not_asked_for_at_known_rows(self, effects, site_rows):
        some = site_rows.take(np.arange(10))
        estimate = effects.predict(some.terms, some.levels, some.knobs, with_spread=False)
        assert (estimate.log_sd < 0.02).all()


class TestSharing:
    def test_unknown_names_share_nothing(self, effects):
        nobody = anonymous(effects.levels_.take(np.arange(3)))
        for level in LEVELS:
            assert not effects.match(level, nobody, nobody).any()
            assert not effects.match(level, nobody, effects.levels_).any()
        weighted = effects.jacobian_.T @ effects.alpha_
        shared = LOG_TEXTBOOK + LOG_SD**2 * effects.scales.coefficients["global"] ** 2 * weighted
        np.testing.assert_allclose(effects.coefficients(nobody), np.tile(shared, (3, 1)), atol=1e-9)

    def test_rows_of_unknown_sites_teach_the_population_only(self, few, site_rows):
        more = site_rows.take(np.arange(6))
        taught = few.extended(replace(more, levels=anonymous(more.levels)))
        assert not taught.match("release", taught.levels_, taught.levels_)[-6:, -6:].any()

    def test_stacks_are_forgotten_with_age(self, effects):
        levels = effects.levels_.take(np.array([0, 0, 0]))
        aged = replace(levels, year=levels.year + np.array([0.0, 3.0, -3.0]))
        weights = effects.match("stack", levels, aged)[0]
        assert weights == pytest.approx([1.0, np.exp(-3 / effects.scales.stack_memory_years)] * 1 + [weights[1]])
        assert (effects.match("publisher_family", levels, aged) == 1.0).all()

    def test_strangers_share_more_across_batches_than_across_generations_of_accelerators(self, effects):
        row = effects.rows.take(0, 1)._replace(levels=anonymous(effects.levels_.take(np.array([0]))))

        def shared_after(knob: str) -> float:
            moved = row.knobs.copy()
            moved[0, KNOBS.index(knob)] += 1.0
            return float(effects.covariance(row, row._replace(knobs=moved))[0, 0])

        device, other, batch, precision = map(shared_after, ("peak_flops_per_s", "tp", "num_microbatches", "fp8"))
        assert device < other < batch < precision
        assert precision == pytest.approx(float(effects.covariance(row, row)[0, 0]))

    def test_knowledge(self, effects):
        known = effects.levels_.take(np.array([0]))
        sister = replace(known, release=np.array(["another release"], dtype=object))
        stranger = of_site(known, "a new publisher")
        levels = [known, sister, stranger, anonymous(known)]
        assert [effects.knowledge(level)[0] for level in levels] == ["release", "family", "population", "population"]


@pytest.fixture(scope="module")
def newcomers(site_rows) -> tuple[SiteEffects, list[SiteData]]:
    """Return effects without a dozen publishers, and the rows of each."""
    family = pd.Series(site_rows.levels.publisher_family)
    sizes = family.value_counts()
    names = [name for name in sizes.index if 6 <= sizes[name] <= 16][:10]
    assert len(names) >= 6, sizes
    effects = SiteEffects().fit(site_rows.take((~family.isin(names)).to_numpy()))
    return effects, [site_rows.take(np.flatnonzero(family == name)) for name in names]


class TestRobustness:
    @staticmethod
    def error(effects: SiteEffects, rows: SiteData) -> NDArray[np.float64]:
        predicted = effects.predict(rows.terms, rows.levels, rows.knobs, with_spread=False).log_time
        return np.abs(predicted - rows.log_time)

    def test_one_row_of_a_site_helps_its_other_rows(self, newcomers):
        effects, sites = newcomers
        before, after = [], []
        for rows in sites:
            first, others = rows.take(np.array([0])), rows.take(np.arange(1, len(rows)))
            before.append(self.error(effects, others).mean())
            after.append(self.error(effects.extended(first), others).mean())
        assert np.mean(after) < np.mean(before)
        assert np.max(np.array(after) - np.array(before)) < 0.12

    def test_a_contradictory_row_leaves_other_sites_alone(self, newcomers):
        # one row four times too slow: sites of the same stack, of which nothing else is known, may follow a little
        effects, sites = newcomers
        before = [self.error(effects, rows).mean() for rows in sites]
        for mad_site in sites:
            mad = mad_site.take(np.array([0]))
            taught = effects.extended(replace(mad, log_time=mad.log_time + np.log(4.0)))
            for rows, error in zip(sites, before, strict=True):
                if rows is not mad_site:
                    shared = set(mad.levels.stack) & set(rows.levels.stack)
                    assert self.error(taught, rows).mean() - error < (0.2 if shared else 0.02)

    def test_a_contradictory_row_does_not_undo_five_others(self, newcomers):
        effects, sites = newcomers
        for rows in sites[:6]:
            known = effects.extended(rows.take(np.arange(1, 5)))
            mad = rows.take(np.array([0]))
            taught = known.extended(replace(mad, log_time=mad.log_time + np.log(4.0)))
            others = rows.take(np.arange(1, len(rows)))
            assert self.error(taught, others).mean() < self.error(known, others).mean() + 0.10


@pytest.fixture(scope="module")
def slow_publisher(site_rows) -> tuple[SiteData, NDArray[np.bool_]]:
    """Return all rows with one publisher's three times slower, and which are its own."""
    names = pd.Series(site_rows.levels.publisher_family)
    slow = (names == names.value_counts().index[1]).to_numpy()
    return replace(site_rows, log_time=site_rows.log_time + np.where(slow, np.log(3.0), 0.0)), slow


class TestOutlyingPublishers:
    def test_gets_a_width_and_keeps_its_rows(self, slow_publisher):
        rows, slow = slow_publisher
        effects = SiteEffects().fit(rows)
        name = rows.levels.publisher_family[slow][0]
        assert effects.scales.publisher_width[name] > 4.0
        own = rows.take(slow)
        predicted = effects.predict(own.terms, own.levels, own.knobs, with_spread=False).log_time
        assert np.abs(predicted - own.log_time).mean() < 0.25

    def test_moves_strangers_less_than_without_widths(self, slow_publisher, effects):
        rows, _ = slow_publisher
        wide = SiteEffects().fit(rows)
        narrow = copy(wide)
        narrow.scales = replace(wide.scales, publisher_width={})
        narrow.condition()
        strangers = rows.take(np.arange(0, len(rows), 5))
        nobody = anonymous(strangers.levels)

        def times(model: SiteEffects) -> NDArray[np.float64]:
            return model.predict(strangers.terms, nobody, strangers.knobs, with_spread=False).log_time

        as_measured = times(effects)
        assert np.abs(times(wide) - as_measured).mean() < np.abs(times(narrow) - as_measured).mean()

    def test_widths_are_learnt_anew(self, site_rows):
        some = site_rows.take(np.arange(0, len(site_rows), 4))
        fresh = SiteEffects(relinearisations=1).fit(some)
        again = SiteEffects(replace(fresh.scales, publisher_width={"somebody": 9.0}), relinearisations=1).fit(some)
        assert again.scales == fresh.scales


class TestRecovery:
    def test_a_site_with_slow_products(self, few, site_rows):
        # made-up site: products 12 % slower than what is believed of strangers, known by 12 of its rows
        rows = site_rows.take(np.arange(0, len(site_rows), 11))
        levels = of_site(rows.levels, "a slow site")
        usual = few.linearisation_points(levels)
        slow = usual.copy()
        slow[:, INDEX["matmul"]] += 0.12
        slower = log_step_time(rows.terms, slow) - log_step_time(rows.terms, usual)
        noise = 0.01 * np.random.default_rng(0).normal(size=len(rows))
        log_time = few.predict(rows.terms, levels, rows.knobs).log_time + slower + noise
        made_up = replace(rows, levels=levels, log_time=log_time, noise_sd=np.full(len(rows), 0.01))
        known, new = made_up.take(np.arange(12)), made_up.take(np.arange(12, len(rows)))
        before = few.predict(new.terms, new.levels, new.knobs).log_time - new.log_time
        after = few.extended(known).predict(new.terms, new.levels, new.knobs).log_time - new.log_time
        assert before.mean() < -0.04
        assert np.abs(after).mean() < 0.5 * np.abs(before).mean()


class TestPoints:
    def test_towards_goes_a_share_of_the_way(self):
        start = SharedPoints.textbook()
        target = SharedPoints(population=LOG_TEXTBOOK + 0.1, by_stack={"a": LOG_SD}, by_family={})
        half = start.towards(target, 0.5)
        assert half.population == pytest.approx(LOG_TEXTBOOK + 0.05)
        assert half.by_stack["a"] == pytest.approx(0.5 * LOG_SD)

    def test_rows_take_the_shifts_of_their_stack_and_device(self):
        def names(*values: str) -> NDArray[np.object_]:
            return np.array(values, dtype=object)

        levels = SiteLevels(
            stack=names("a", "b", "a"), accelerator_family=names("x", "x", "y"), expert_shape=names("", "", ""),
            publisher_family=names("", "", ""), release=names("", "", ""), year=np.full(3, 2024.0),
        )  # fmt: skip
        points = SharedPoints(population=LOG_TEXTBOOK, by_stack={"a": LOG_SD}, by_family={"x": 0.5 * LOG_SD})
        shift = (points.at(levels) - LOG_TEXTBOOK) / LOG_SD
        np.testing.assert_allclose(shift, np.outer([1.5, 0.5, 1.0], np.ones(len(LOG_SD))))

    def test_points_stay_within_three_prior_deviations(self, effects):
        far = SharedPoints(population=LOG_TEXTBOOK + 9.0 * LOG_SD, by_stack={}, by_family={})
        shift = (far.at(effects.levels_) - LOG_TEXTBOOK) / LOG_SD
        np.testing.assert_allclose(shift, 3.0)


def test_squared_distances():
    one, other = np.random.default_rng(0).normal(size=(5, 4)), np.random.default_rng(1).normal(size=(7, 4))
    np.testing.assert_allclose(squared_distances(one, other), cdist(one, other, "sqeuclidean"), atol=1e-12)
    assert squared_distances(one, one).min() >= 0.0


def test_distinct_sites_hold_every_row_once(effects):
    sites = distinct_sites(effects.levels_)
    rows = np.concatenate([rows for rows, _ in sites])
    assert sorted(rows) == list(range(len(effects.levels_)))
    for rows, site in sites:
        of_rows = effects.levels_.take(rows)
        for field in fields(SiteLevels):
            assert (getattr(of_rows, field.name) == getattr(site, field.name)[0]).all()


def test_similarity_in_blocks_is_the_gaussian_of_the_distance():
    random = np.random.default_rng(0)
    points, known = 5.0 + 3.0 * random.normal(size=(700, 25)), 5.0 + 3.0 * random.normal(size=(40, 25))
    blocks = [(rows, similarity.copy()) for rows, similarity in similarity_blocks(points, known, 5.0)]
    assert len(blocks) > 1
    exact = np.exp(-0.5 * cdist(points, known, "sqeuclidean") / 25.0)
    for rows, similarity in blocks:
        np.testing.assert_allclose(similarity, exact[rows], atol=1e-6)
    assert sum(len(similarity) for _, similarity in blocks) == len(points)


def test_similarity_to_itself_is_1_and_never_more():
    points = 1e3 + np.random.default_rng(0).normal(size=(50, 25))
    for rows, similarity in similarity_blocks(points, points, 2.0):
        assert similarity.max() <= 1.0
        assert np.diag(similarity[:, rows]) == pytest.approx(1.0, abs=1e-5)
