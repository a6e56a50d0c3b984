"""Closed form, intervals and spares: reference vectors, properties, bad input."""

from __future__ import annotations

import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import optimize, stats

from surrogate.errors import InputError
from surrogate.reliability.goodput import FaultTolerance, first_order_ettr, goodput, renewal_ettr, two_tier_ettr
from surrogate.reliability.intervals import (
    best_interval,
    check_interval,
    checkpoints_to_keep,
    daly_interval,
    exact_interval,
    interval_with_recovery,
    shortest_interval,
    young_interval,
)
from surrogate.reliability.spares import (
    expected_shortfall_nodes,
    probability_short,
    spares_for_repair,
    spares_for_window,
)

R1 = [
    (10008, 1800, 60, 600, 0, 0.8227, 0.8294, 0.8288),
    (10008, 1800, 5, 600, 900, 0.7581, 0.7833, 0.7833),
    (6480, 3600, 300, 300, 0, 0.6239, 0.6425, 0.6426),
    (900, 600, 60, 300, 0, 0.3030, 0.4415, 0.4414),
    (900, 600, 60, 300, 300, 0.0000, 0.3163, 0.3142),
]
R2 = [
    (86400, 60, 3219.9, 3180.1, 3180.1, 0.95653, 0.95653),
    (10008, 60, 1095.9, 1056.2, 1056.3, 0.84235, 0.84241),
    (10008, 300, 2450.5, 2254.6, 2254.7, 0.72906, 0.72963),
    (1800, 60, 464.8, 425.6, 425.6, 0.54659, 0.54709),
    (900, 300, 734.8, 548.5, 550.0, 0.19429, 0.19967),
    (44928, 5, 670.3, 667.0, 667.0, 0.97209, 0.97209),
]
POSITIVE = st.floats(1.0, 1e5)


def _job(**values: object) -> FaultTolerance:
    base = {"failures_per_day": 8.0, "interval_s": 1800.0, "stall_s": 30.0, "restart_s": 600.0}
    return FaultTolerance(**(base | values))


@pytest.mark.parametrize(("mtbf", "dt", "w", "u0", "t_p", "first_order", "renewal", "simulated"), R1)
def test_reference_vectors_of_the_renewal_form(mtbf, dt, w, u0, t_p, first_order, renewal, simulated) -> None:
    published = first_order_ettr(failures_per_s=1 / mtbf, interval_s=dt, stall_s=w, outage_s=u0 + t_p)
    assert float(published) == pytest.approx(first_order, abs=5e-5)
    job = _job(failures_per_day=86400 / mtbf, interval_s=dt, stall_s=w, restart_s=u0, persist_s=t_p)
    assert float(goodput(job).ettr) == pytest.approx(renewal, abs=5e-5)
    assert float(goodput(job).ettr) == pytest.approx(simulated, abs=0.003)


@pytest.mark.parametrize(("mtbf", "w", "young", "daly", "exact", "ettr_young", "ettr_exact"), R2)
def test_reference_vectors_of_the_interval(mtbf, w, young, daly, exact, ettr_young, ettr_exact) -> None:
    assert float(young_interval(mtbf_s=mtbf, stall_s=w)) == pytest.approx(young, abs=0.05)
    assert float(daly_interval(mtbf_s=mtbf, stall_s=w)) == pytest.approx(daly, abs=0.05)
    assert float(exact_interval(mtbf_s=mtbf, stall_s=w)) == pytest.approx(exact, abs=0.05)
    for interval, ettr in ((young, ettr_young), (exact, ettr_exact)):
        kept = renewal_ettr(failures_per_s=1 / mtbf, interval_s=interval, stall_s=w, persist_s=0, outage_s=600)
        assert float(kept) == pytest.approx(ettr, abs=2e-5)


@pytest.mark.parametrize(("mtbf", "w"), [(10008.0, 60.0), (900.0, 300.0), (1e6, 0.5), (1e7, 1e-3)])
def test_the_exact_interval_is_the_numeric_minimum(mtbf: float, w: float) -> None:
    def loss(log_dt: float) -> float:
        dt = np.exp(log_dt)
        return -float(renewal_ettr(failures_per_s=1 / mtbf, interval_s=dt, stall_s=w, persist_s=0, outage_s=0))

    numeric = np.exp(optimize.minimize_scalar(loss, bounds=(np.log(w), np.log(10 * mtbf)), method="bounded").x)
    assert float(exact_interval(mtbf_s=mtbf, stall_s=w)) == pytest.approx(numeric, rel=2e-3)


def test_the_exact_interval_keeps_its_digits_near_the_branch_point() -> None:
    ratio = np.logspace(-14, -4, 60)
    intervals = exact_interval(mtbf_s=1.0, stall_s=ratio)
    assert np.all(np.diff(intervals) > 0)
    assert intervals == pytest.approx(daly_interval(mtbf_s=1.0, stall_s=ratio), rel=1e-6)


def test_interval_with_recovery_is_the_maximum_of_its_availability() -> None:
    period = interval_with_recovery(save_s=60, mtbf_s=10_000, recovery_s=600)
    assert float(period) == pytest.approx(1189.42, abs=0.01)
    grid = np.linspace(600, 2000, 100_001)
    availability = (1 - 60 / grid) * 10_000 / (10_600 + grid / 2)
    assert grid[availability.argmax()] == pytest.approx(float(period), abs=0.05)
    assert availability.max() == pytest.approx(0.8482, abs=5e-5)


def test_the_large_job_where_the_first_order_form_is_too_pessimistic() -> None:
    rate = 2048 * 6.5e-3 / 86400
    assert float(first_order_ettr(failures_per_s=rate, interval_s=3600, stall_s=0, outage_s=300)) == pytest.approx(
        0.676, abs=5e-4
    )
    kept = renewal_ettr(failures_per_s=rate, interval_s=3600, stall_s=0, persist_s=0, outage_s=300)
    assert float(kept) == pytest.approx(0.714, abs=5e-4)


@given(rate=st.floats(0.0, 200.0), dt=POSITIVE, w=st.floats(0, 1e3), u0=st.floats(0, 1e4), q=st.floats(0, 0.2))
def test_goodput_and_losses_share_out_the_wall_time(rate: float, dt: float, w: float, u0: float, q: float) -> None:
    job = _job(failures_per_day=rate, interval_s=dt, stall_s=w, restart_s=u0 / 2, load_s=u0 / 2, detection_s=10)
    job = FaultTolerance(**{name: getattr(job, name) for name in job.__slots__} | {"unavailability": q, "spares": 2})
    answer = goodput(job)
    parts = answer.losses.to_dict()
    assert 0.0 <= float(answer.ettr) <= 1.0
    assert all(float(part) >= 0.0 for part in parts.values())
    assert float(answer.ettr) + sum(float(part) for part in parts.values()) == pytest.approx(1.0, abs=1e-9)


@given(rate=st.floats(0.1, 50.0), dt=st.floats(60.0, 1e4), w=st.floats(0, 60), factor=st.floats(1.01, 5))
def test_more_of_anything_bad_never_helps(rate: float, dt: float, w: float, factor: float) -> None:
    base = {"failures_per_day": rate, "interval_s": dt, "stall_s": w, "restart_s": 300.0, "detection_s": 30.0}
    before = float(goodput(FaultTolerance(**base)).ettr)
    for name in ("failures_per_day", "stall_s", "restart_s", "detection_s"):
        assert float(goodput(FaultTolerance(**(base | {name: base[name] * factor}))).ettr) <= before + 1e-12


def test_no_failures_leave_only_the_stall() -> None:
    answer = goodput(_job(failures_per_day=0.0, interval_s=90.0, stall_s=10.0))
    assert float(answer.ettr) == pytest.approx(0.9)
    assert float(answer.losses.checkpoint_stall) == pytest.approx(0.1)


def test_a_job_that_fails_faster_than_it_saves_never_finishes() -> None:
    answer = goodput(_job(failures_per_day=86400.0, interval_s=36000.0))
    assert float(answer.ettr) == 0.0
    assert not answer.finishes
    assert np.isinf(answer.failures_per_useful_day)


def test_silent_corruption_throws_away_its_latency() -> None:
    clean, silent = goodput(_job()), goodput(_job(silent_per_day=0.5, silent_latency_s=86400.0))
    assert float(silent.ettr / clean.ettr) == pytest.approx(1 / 1.5)


def test_two_tiers_lie_between_their_ends() -> None:
    memory, storage = _job(interval_s=60.0, restart_s=60.0, stall_s=0.1), _job(interval_s=3600.0, restart_s=900.0)
    values = [
        float(two_tier_ettr(failures_per_s=1e-4, memory_share=share, memory=memory, storage=storage))
        for share in (0.0, 0.5, 1.0)
    ]
    assert values[0] < values[1] < values[2]


def test_one_plan_and_a_column_of_plans_agree() -> None:
    rates = np.array([1.0, 5.0, 20.0])
    together = goodput(_job(failures_per_day=rates, num_nodes=128, spares=2, unavailability=0.01)).ettr
    alone = [float(goodput(_job(failures_per_day=r, num_nodes=128, spares=2, unavailability=0.01)).ettr) for r in rates]
    assert together.tolist() == alone


def test_a_million_plans_take_seconds() -> None:
    rng, n = np.random.default_rng(0), 1_000_000
    job = _job(
        failures_per_day=rng.uniform(0.1, 20, n),
        interval_s=rng.uniform(600, 6000, n),
        num_nodes=rng.integers(1, 2000, n),
        spares=rng.integers(0, 20, n),
        unavailability=rng.uniform(0, 0.01, n),
    )
    start = time.process_time()
    assert goodput(job).ettr.shape == (n,)
    assert time.process_time() - start < 5.0


@pytest.mark.parametrize(
    ("values", "field"),
    [
        ({"failures_per_day": -1.0}, "failures_per_day"),
        ({"interval_s": 0.0}, "interval_s"),
        ({"restart_s": float("nan")}, "restart_s"),
        ({"unavailability": 1.5}, "unavailability"),
        ({"interval_s": 10.0, "stall_s": 1.0, "persist_s": 60.0}, "checkpoint_interval_s"),
        ({"stall_s": "fast"}, "stall_s"),
    ],
)
def test_bad_input_is_named(values: dict[str, object], field: str) -> None:
    with pytest.raises(InputError) as caught:
        goodput(_job(**values))
    assert caught.value.field == field


def test_an_interval_shorter_than_a_save_is_refused() -> None:
    with pytest.raises(InputError, match="must not be shorter than a save, got 30.0"):
        check_interval(interval_s=[100.0, 30.0], save_s=60.0)


def test_the_best_interval_is_feasible_and_whole_steps() -> None:
    shortest = shortest_interval(stall_s=1.0, persist_s=300.0, step_time_s=7.0, storage_duty_fraction=0.5)
    assert float(shortest) == 7.0 * np.ceil(599 / 7)
    short_of_it = best_interval(mtbf_s=3600.0, stall_s=1.0, shortest_s=shortest, step_time_s=7.0)
    assert float(short_of_it) == float(shortest)
    free = best_interval(mtbf_s=86400.0, stall_s=60.0, shortest_s=7.0, step_time_s=7.0)
    assert float(free) == 7.0 * round(3180.06 / 7.0)
    assert float(checkpoints_to_keep(detection_latency_s=3600.0, interval_s=1000.0)) == 5


@pytest.mark.parametrize(
    ("rate", "expected"), [(1.17e-3, [2, 2, 3, 4]), (1.2e-3, [2, 2, 3, 4]), (1.31e-3, [2, 2, 3, 5])]
)
def test_reference_vectors_of_the_window_spares(rate: float, expected: list[int]) -> None:
    nodes = np.array([128, 256, 512, 1024])
    spares = spares_for_window(num_nodes=nodes, failures_per_node_day=rate, window_s=86400.0)
    assert spares.tolist() == expected
    assert spares.tolist() == stats.binom.ppf(0.99, nodes, rate).tolist()


@given(nodes=st.integers(1, 3000), q=st.floats(1e-5, 0.2), risk=st.floats(1e-3, 0.2))
def test_repair_spares_are_the_fewest_that_keep_the_risk(nodes: int, q: float, risk: float) -> None:
    spares = int(spares_for_repair(num_nodes=nodes, unavailability=q, risk=risk))
    assert stats.binom.sf(spares, nodes + spares, q) <= risk * (1 + 1e-9)
    assert spares == 0 or stats.binom.sf(spares - 1, nodes + spares - 1, q) > risk * (1 - 1e-9)


@given(nodes=st.integers(1, 200), spares=st.integers(0, 20), q=st.just(0.0) | st.floats(1e-9, 0.5))
def test_shortfall_and_its_probability_are_the_binomial_ones(nodes: int, spares: int, q: float) -> None:
    law = stats.binom(nodes + spares, q)
    given_out = {"num_nodes": nodes, "spares": spares, "unavailability": q}
    assert float(probability_short(**given_out)) == pytest.approx(float(law.sf(spares)), abs=1e-12)
    out = np.arange(nodes + spares + 1)
    shortfall = float(np.sum(np.maximum(out - spares, 0) * law.pmf(out)))
    assert float(expected_shortfall_nodes(**given_out)) == pytest.approx(shortfall, rel=1e-9, abs=1e-10)


def test_nodes_out_more_often_than_not_cannot_be_spared() -> None:
    with pytest.raises(InputError, match=r"below 0\.5"):
        spares_for_repair(num_nodes=8, unavailability=0.6)
    with pytest.raises(InputError, match="risk"):
        spares_for_repair(num_nodes=8, unavailability=0.1, risk=0.0)
