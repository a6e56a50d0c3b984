"""Optimizer step, offload, expected failures."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from surrogate.analytic.expected_failures import (
    expected_failures_per_day,
    expected_failures_per_run,
    num_nodes,
    probability_of_no_failure,
    total_failure_rate,
)
from surrogate.analytic.model_parameters import parameters_per_gpu
from surrogate.analytic.offload import exposed_offload_time_s, host_optimizer_time_s
from surrogate.analytic.optimizer import (
    STATE_TRAFFIC_BYTES,
    newton_schulz_flops,
    optimizer_bytes,
    optimizer_bytes_per_parameter,
    optimizer_time_s,
)
from surrogate.analytic.workload import OptimizerKind

positive = st.floats(1e-3, 1e3)


def test_every_optimizer_has_its_traffic():
    assert set(STATE_TRAFFIC_BYTES) == set(OptimizerKind)
    moved = optimizer_bytes_per_parameter(optimizer=np.array([0, 1, 2, 3]), grad_bytes=np.array([2, 4, 4, 4]))
    assert moved.tolist() == [28, 22, 18, 22]


def test_optimizer_bytes_shard_with_zero(make_workload):
    w = make_workload(dp=64, zero_stage=[0, 1, 2, 3])
    parameters = parameters_per_gpu(w).first.total[0]
    expected = parameters * np.array([30 + 8, 30 / 64 + 8, 38 / 64, 38 / 64])
    np.testing.assert_allclose(optimizer_bytes(w), expected)


def test_experts_shard_over_fewer_ranks(make_workload):
    moe = {"num_experts": 8, "moe_top_k": 2, "moe_ffn_hidden_size": 2048, "ffn_hidden_size": 0}
    w = make_workload(**moe, dp=64, ep=8, zero_stage=2)
    stage = parameters_per_gpu(w).first
    expected = 38 * ((stage.dense + stage.embedding) / 64 + stage.expert / 8)
    np.testing.assert_allclose(optimizer_bytes(w), expected)


@given(shards=st.integers(1, 1000), bandwidth=positive, factor=st.floats(1.0, 10.0))
def test_more_bandwidth_or_shards_are_never_slower(shards, bandwidth, factor):
    common = {"parameters": 1e9, "bytes_per_parameter": 30.0}
    base = optimizer_time_s(num_shards=shards, bytes_per_s=bandwidth, **common)
    assert optimizer_time_s(num_shards=shards, bytes_per_s=bandwidth * factor, **common) <= base
    assert optimizer_time_s(num_shards=shards + 1, bytes_per_s=bandwidth, **common) < base


def test_newton_schulz_is_the_same_either_way_round():
    assert newton_schulz_flops(rows=2, columns=3, iterations=5) == newton_schulz_flops(rows=3, columns=2, iterations=5)
    square = newton_schulz_flops(rows=4, columns=4, iterations=1)
    assert square == 3 * 2 * 4**3


@given(grads=positive, update=positive, weights=positive)
def test_pipelined_host_optimizer_is_bracketed(grads, update, weights):
    parts = {"grad_transfer_s": grads, "update_s": update, "weight_transfer_s": weights}
    together, apart = host_optimizer_time_s(pipelined=True, **parts), host_optimizer_time_s(pipelined=False, **parts)
    assert max(parts.values()) == together <= apart
    assert apart == pytest.approx(sum(parts.values()))


def test_offload_hides_behind_compute():
    times = exposed_offload_time_s(offloaded_bytes=64e9, host_link_bytes_per_s=32e9, compute_s=np.array([1.5, 3.0]))
    assert times.tolist() == [0.5, 0.0]


def test_failures_of_a_large_job():
    nodes = num_nodes(num_gpus=16384, gpus_per_node=8)
    per_day = expected_failures_per_day(num_nodes=nodes, failures_per_node_day=0.004)
    assert per_day == pytest.approx(8.192)
    assert expected_failures_per_run(failures_per_day=per_day, run_time_s=54 * 86400) == pytest.approx(442.368)
    assert probability_of_no_failure(expected_failures=0.0) == 1


@given(rate=st.floats(0.0, 1.0), nodes=st.integers(1, 10**5))
def test_failures_scale_with_nodes(rate, nodes):
    one = expected_failures_per_day(num_nodes=nodes, failures_per_node_day=rate)
    two = expected_failures_per_day(num_nodes=2 * nodes, failures_per_node_day=rate)
    assert two == pytest.approx(2 * one)


def test_component_rates_add_up():
    rates = total_failure_rate(
        component_counts=np.array([[8.0, 2.0], [4.0, 1.0]]), component_rates=np.array([0.5, 1.0])
    )
    assert rates.tolist() == [6.0, 3.0]
