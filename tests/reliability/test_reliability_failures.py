"""Failure rates: hardware counts, priors, updates, predictive counts."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from surrogate.errors import InputError, UnknownNameError
from surrogate.reliability.failures import (
    ComponentRates,
    count_interval,
    expected_failures_per_day,
    job_rate_gamma,
    negative_binomial_size,
    probability_of_failure,
    rates_from_dict,
)
from surrogate.reliability.hardware import COMPONENTS, hardware_counts
from surrogate.reliability.priors import (
    accelerator_family,
    between_cluster_rate,
    component_shares,
    prior_failures_per_day,
    published_prior,
    published_rates,
    reference_units_per_node,
)
from surrogate.reliability.recovery import published_restart_s

LLAMA3 = hardware_counts(num_gpus=16384, gpus_per_node=8)


@pytest.mark.parametrize(
    ("gpus", "switches"), [(8, 0.0), (64, 1.0), (128, 6.0), (2048, 96.0), (16384, 1280.0), (65536, 5120.0)]
)
def test_switches_of_a_fat_tree(gpus: int, switches: float) -> None:
    assert hardware_counts(num_gpus=gpus, gpus_per_node=8).switch.tolist() == [switches]


def test_a_part_of_a_node_is_a_node_without_a_network() -> None:
    counts = hardware_counts(num_gpus=4, gpus_per_node=8)
    assert (counts.gpu[0], counts.node[0], counts.nic[0]) == (4, 1, 0)
    assert hardware_counts(num_gpus=16, gpus_per_node=8, nics_per_node=2).nic.tolist() == [4]


def test_the_published_tables_are_cited_and_their_parts_sum_to_their_totals() -> None:
    rows = published_rates()
    assert all(row.citation and row.provenance for row in rows)
    for cluster in ("llama3-405b", "infinitehbd-400", "glm-130b", "bloom-176b"):
        total = sum(row.events for row in rows if row.cluster == cluster and row.level == "total" and not row.component)
        parts = sum(row.events for row in rows if row.cluster == cluster and row.level == "component")
        assert parts == total


def test_tuned_clusters_fail_about_three_times_in_a_thousand_node_days_and_young_ones_far_more() -> None:
    tuned, young = between_cluster_rate("tuned"), between_cluster_rate("young")
    assert 2e-3 < tuned.mean_per_node_day < 7e-3
    assert 10e-3 < young.mean_per_node_day < 25e-3
    assert tuned.num_clusters == 8


def test_the_between_cluster_fit_is_a_maximum() -> None:
    rows = [
        row for row in published_rates() if row.role == "prior" and row.level == "total" and row.maturity == "tuned"
    ]

    def log_likelihood(shape: float, mean: float) -> float:
        means = [mean * row.node_days for row in rows]
        counts = [round(row.events) for row in rows]
        return float(
            sum(stats.nbinom.logpmf(n, shape, shape / (shape + m)) for n, m in zip(counts, means, strict=True))
        )

    fit = between_cluster_rate("tuned")
    best = log_likelihood(fit.shape, fit.mean_per_node_day)
    for shape_factor, mean_factor in ((1.1, 1), (0.9, 1), (1, 1.05), (1, 0.95)):
        assert log_likelihood(fit.shape * shape_factor, fit.mean_per_node_day * mean_factor) < best


def test_leaving_a_cluster_out_changes_the_prior_and_an_unknown_one_is_named() -> None:
    assert between_cluster_rate("tuned", ("rsc-1",)).mean_per_node_day < between_cluster_rate("tuned").mean_per_node_day
    with pytest.raises(UnknownNameError, match="rsc-9"):
        between_cluster_rate("tuned", ("rsc-9",))


def test_shares_sum_to_one_and_most_failures_are_of_accelerators_and_the_unknown() -> None:
    shares = dict(zip(COMPONENTS, component_shares(), strict=True))
    assert sum(shares.values()) == pytest.approx(1.0)
    assert shares["gpu"] == max(shares.values())


def test_the_pooled_prior_spreads_as_clusters_do() -> None:
    spread = between_cluster_rate("tuned")
    shape, exposure = job_rate_gamma(rates=published_prior("other"), counts=LLAMA3)
    assert shape[0] == pytest.approx(spread.shape)
    assert shape[0] / exposure[0] == pytest.approx(2048 * spread.mean_per_node_day)


@pytest.mark.parametrize("name", ["H100-80GB", "A100-80GB", "GB200", "MI300X"])
def test_families_differ_but_not_wildly(name: str) -> None:
    own = prior_failures_per_day(num_gpus=16384, gpus_per_node=8, accelerator=name)
    pooled = prior_failures_per_day(num_gpus=16384, gpus_per_node=8, accelerator="unheard of")
    assert 0.8 < own[0] / pooled[0] < 1.5


@pytest.mark.parametrize(
    ("name", "family"),
    [("H20", "hopper"), ("GH200-96GB", "hopper"), ("h800", "hopper"), ("B300", "blackwell"), ("TPUv5p", "other")],
)
def test_families_by_name(name: str, family: str) -> None:
    assert accelerator_family(name) == family


@given(gpus=st.integers(1, 30_000), more=st.integers(1, 4000))
def test_expected_failures_grow_with_the_hardware(gpus: int, more: int) -> None:
    fewer, larger = prior_failures_per_day(num_gpus=[gpus, gpus + more], gpus_per_node=8, accelerator="H100-80GB")
    assert 0 < fewer < larger


def test_a_column_of_accelerators_equals_each_alone() -> None:
    names, gpus = ["H100-80GB", "A100-40GB", "H100-80GB", "TPUv4"], [64, 128, 512, 256]
    together = prior_failures_per_day(num_gpus=gpus, gpus_per_node=8, accelerator=names)
    alone = [
        prior_failures_per_day(num_gpus=n, gpus_per_node=8, accelerator=name)[0]
        for n, name in zip(gpus, names, strict=True)
    ]
    assert together.tolist() == pytest.approx(alone)


def test_the_update_is_conjugate_and_own_data_win() -> None:
    prior = published_prior("hopper")
    counts = hardware_counts(num_gpus=1024, gpus_per_node=8)
    updated = prior.updated(events={"gpu": 40}, counts=counts, days=100.0)
    gpu = COMPONENTS.index("gpu")
    assert updated.shape[gpu] == pytest.approx(prior.shape[gpu] + 40)
    assert updated.exposure_unit_days[gpu] == pytest.approx(prior.exposure_unit_days[gpu] + 102_400)
    low, high = updated.interval_per_unit_day()
    assert low[gpu] < 40 / 102_400 < high[gpu]
    assert updated.mean_per_unit_day[gpu] == pytest.approx(40 / 102_400, rel=0.15)
    assert (updated.mean_per_unit_day < prior.mean_per_unit_day)[COMPONENTS.index("host")]


def test_clustered_evidence_weighs_less() -> None:
    prior, counts = published_prior(), hardware_counts(num_gpus=1024, gpus_per_node=8)
    plain = prior.updated(events={"gpu": 40}, counts=counts, days=100.0)
    clustered = prior.updated(events={"gpu": 40}, counts=counts, days=100.0, dispersion=10.0)
    width = [np.subtract(*rates.interval_per_unit_day()[::-1])[0] for rates in (plain, clustered)]
    assert width[1] > 1.6 * width[0]
    assert clustered.dispersion == 10.0


@pytest.mark.parametrize(
    ("events", "low", "high"), [(3, 0.21, 2.92), (10, 0.48, 1.84), (30, 0.67, 1.43), (419, 0.91, 1.10)]
)
def test_reference_limits_of_poisson_rates(events: int, low: float, high: float) -> None:
    exposure = np.full(len(COMPONENTS), float(events))
    lower, _ = ComponentRates(shape=exposure, exposure_unit_days=exposure).interval_per_unit_day(0.95)
    _, upper = ComponentRates(shape=exposure + 1, exposure_unit_days=exposure).interval_per_unit_day(0.95)
    assert lower[0] == pytest.approx(low, abs=0.006)
    assert upper[0] == pytest.approx(high, abs=0.006)


def test_unknown_components_and_no_exposure_are_refused() -> None:
    prior, counts = published_prior(), hardware_counts(num_gpus=8, gpus_per_node=8)
    with pytest.raises(UnknownNameError, match="did you mean gpu"):
        prior.updated(events={"gpus": 1}, counts=counts, days=1.0)
    with pytest.raises(InputError, match="longer than zero"):
        prior.updated(events={"gpu": 1}, counts=counts, days=0.0)
    with pytest.raises(InputError, match="switch"):
        prior.updated(events={"switch": 1}, counts=counts, days=1.0)


def test_rates_survive_json_and_a_wrong_file_is_named() -> None:
    rates = published_prior("ampere")
    again = rates_from_dict(rates.to_dict())
    assert again.shape.tolist() == rates.shape.tolist()
    with pytest.raises(InputError, match="reliability fit"):
        rates_from_dict({"components": {}})
    with pytest.raises(InputError, match="one value per component"):
        ComponentRates(shape=np.ones(2), exposure_unit_days=np.ones(2))


def test_the_job_rate_matches_moments_of_its_parts() -> None:
    rng = np.random.default_rng(1)
    rates = ComponentRates(shape=rng.uniform(1, 9, 11), exposure_unit_days=rng.uniform(1e3, 1e5, 11))
    shape, exposure = job_rate_gamma(rates=rates, counts=LLAMA3)
    draws = rng.gamma(rates.shape, 1 / rates.exposure_unit_days, (200_000, 11)) @ LLAMA3.per_component()[0]
    assert shape[0] / exposure[0] == pytest.approx(draws.mean(), rel=0.01)
    assert shape[0] / exposure[0] ** 2 == pytest.approx(draws.var(), rel=0.03)
    assert expected_failures_per_day(rates=rates, counts=LLAMA3)[0] == pytest.approx(shape[0] / exposure[0])


def test_predictive_counts_cover_what_they_say() -> None:
    rng = np.random.default_rng(2)
    low, high = count_interval(shape=20.0, exposure=10.0, ahead=30.0)
    counts = rng.poisson(rng.gamma(20.0, 1 / 10.0, 100_000) * 30.0)
    assert np.mean((counts >= low) & (counts <= high)) == pytest.approx(0.9, abs=0.015)


def test_dispersion_has_the_variance_it_names() -> None:
    size = float(negative_binomial_size(mean=50.0, shape=10.0, dispersion=4.0))
    assert stats.nbinom(size, size / (size + 50.0)).var() == pytest.approx(4 * 50 + 50**2 / 10)
    low, high = count_interval(shape=1e9, exposure=1e9, ahead=100.0)
    assert (low, high) == (stats.poisson.ppf(0.05, 100), stats.poisson.ppf(0.95, 100))


def test_probability_of_a_failure_per_day() -> None:
    assert float(probability_of_failure(units=1000, failures_per_unit_day=0.0027)) == pytest.approx(1 - np.exp(-2.7))


def test_restart_times_are_interpolated_and_held_outside() -> None:
    assert published_restart_s(num_gpus=[8, 2048, 16384, 100_000]).tolist() == [454, 454, 768, 768]
    assert 545 < float(published_restart_s(num_gpus=6000)) < 635
    assert float(published_restart_s(num_gpus=4096, phase="hot_update")) == 51


def test_reference_units_are_those_of_the_largest_published_job() -> None:
    per_node = LLAMA3.per_component()[0] / 2048
    assert reference_units_per_node().tolist() == per_node.tolist()
