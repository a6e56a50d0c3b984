"""Collectives: hand-worked times, and what must hold for any size and rank count."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from surrogate.analytic import collectives as c
from surrogate.analytic.hierarchical import flat_ring_all_reduce_time_s, hierarchical_all_reduce

TIMES = (
    c.all_reduce_ring_time_s, c.all_reduce_tree_time_s, c.all_reduce_time_s, c.all_gather_time_s, c.all_to_all_time_s,
    c.broadcast_time_s,
)  # fmt: skip
payloads = st.floats(1.0, 1e12)
ranks = st.integers(1, 4096)
bandwidths = st.floats(1e6, 1e12)
latencies = st.floats(0.0, 1e-3)


def test_hierarchical_all_reduce_of_16_gb():
    link = {"inside_bytes_per_s": 300e9, "outside_bytes_per_s": 50e9, "payload_bytes": 16.06e9}
    times = hierarchical_all_reduce(ranks_per_node=8, num_nodes=8, **link)
    assert times.inside_s == pytest.approx(2 * 7 / 8 * 16.06e9 / 300e9)
    assert times.outside_s == pytest.approx(2 * 7 / 8 * 16.06e9 / 8 / 50e9)
    assert times.sequential_s == pytest.approx(0.164, abs=5e-4)
    assert times.pipelined_s == times.inside_s
    assert flat_ring_all_reduce_time_s(num_ranks=64, num_rails=8, **link) == pytest.approx(0.105, abs=5e-4)
    one_rail = flat_ring_all_reduce_time_s(num_ranks=64, num_rails=1, **link)
    assert one_rail == pytest.approx(2 * 63 / 64 * 16.06e9 / 50e9)


def test_latency_counts_steps():
    common = {"payload_bytes": 0.0, "num_ranks": 16, "latency_s": 1.0, "bytes_per_s": 1.0}
    assert c.all_reduce_ring_time_s(**common) == 30
    assert c.all_reduce_tree_time_s(**common) == 8
    assert c.all_reduce_time_s(**common) == 8
    assert c.all_gather_time_s(**common) == c.all_to_all_time_s(**common) == 15
    assert c.broadcast_time_s(**common) == 4


@given(payload=payloads, ranks=ranks, latency=latencies, bandwidth=bandwidths, factor=st.floats(1.0, 100.0))
def test_more_bandwidth_is_never_slower(payload, ranks, latency, bandwidth, factor):
    for time_s in TIMES:
        common = {"payload_bytes": payload, "num_ranks": ranks, "latency_s": latency}
        assert time_s(bytes_per_s=bandwidth * factor, **common) <= time_s(bytes_per_s=bandwidth, **common)


@given(payload=payloads, latency=latencies, bandwidth=bandwidths)
def test_one_rank_sends_nothing(payload, latency, bandwidth):
    for time_s in TIMES:
        assert time_s(payload_bytes=payload, num_ranks=1, latency_s=latency, bytes_per_s=bandwidth) == 0


@given(payload=payloads, ranks=ranks, bandwidth=bandwidths)
def test_all_reduce_is_reduce_scatter_and_all_gather(payload, ranks, bandwidth):
    common = {"payload_bytes": payload, "num_ranks": ranks, "latency_s": 1e-6, "bytes_per_s": bandwidth}
    assert c.all_reduce_ring_time_s(**common) == pytest.approx(2.0 * c.all_gather_time_s(**common))
    assert c.all_reduce_time_s(**common) <= c.all_reduce_ring_time_s(**common)


@given(payload=payloads, bandwidth=bandwidths, scale=st.floats(0.1, 10.0), ranks=ranks)
def test_units_scale(payload, bandwidth, scale, ranks):
    for time_s in TIMES:
        plain = time_s(payload_bytes=payload, num_ranks=ranks, latency_s=0.0, bytes_per_s=bandwidth)
        scaled = time_s(payload_bytes=payload * scale, num_ranks=ranks, latency_s=0.0, bytes_per_s=bandwidth * scale)
        assert scaled == pytest.approx(plain)


@given(payload=payloads, ranks=st.integers(1, 16), nodes=st.integers(1, 256), inside=bandwidths, outside=bandwidths)
def test_two_levels_lie_between_the_largest_phase_and_the_sum(payload, ranks, nodes, inside, outside):
    times = hierarchical_all_reduce(
        payload_bytes=payload, ranks_per_node=ranks, num_nodes=nodes, inside_bytes_per_s=inside,
        outside_bytes_per_s=outside,
    )  # fmt: skip
    assert max(times.inside_s, times.outside_s) <= times.pipelined_s <= times.sequential_s


@given(size=st.floats(1.0, 1e12), half=st.floats(0.0, 1e9), bandwidth=bandwidths)
def test_effective_bandwidth_saturates(size, half, bandwidth):
    reached = c.effective_bandwidth(bytes_per_s=bandwidth, message_bytes=size, half_bandwidth_bytes=half)
    larger = c.effective_bandwidth(bytes_per_s=bandwidth, message_bytes=2 * size, half_bandwidth_bytes=half)
    assert 0 < reached <= larger <= bandwidth
    assert c.effective_bandwidth(bytes_per_s=bandwidth, message_bytes=10.0, half_bandwidth_bytes=10.0) == bandwidth / 2


def test_columns_equal_rows():
    payload, number = np.array([1e3, 1e6, 1e9]), np.array([2.0, 8.0, 3.0])
    for time_s in TIMES:
        column = time_s(payload_bytes=payload, num_ranks=number, latency_s=1e-6, bytes_per_s=1e10)
        single = [
            float(time_s(payload_bytes=s, num_ranks=n, latency_s=1e-6, bytes_per_s=1e10))
            for s, n in zip(payload, number, strict=True)
        ]
        np.testing.assert_array_equal(column, single)
