"""Operator time, element-wise bytes and launches."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from surrogate.analytic import operators as op
from surrogate.analytic.compute_bytes import elementwise_bytes_per_token

times = st.floats(0.0, 1e3)


@given(compute=times, memory=times, launch=times)
def test_roofline_brackets_the_truth(compute, memory, launch):
    parts = {"compute_s": compute, "memory_s": memory, "launch_s": launch}
    low, high = op.roofline_time_s(**parts), op.serial_time_s(**parts)
    assert max(compute, memory, launch) <= low <= high
    assert high == pytest.approx(compute + memory + launch)


@given(compute=times, communication=times, overlap=st.floats(0.0, 1.0))
def test_overlap_lies_between_maximum_and_sum(compute, communication, overlap):
    parts = {"compute_s": compute, "communication_s": communication, "slowdown": 1.0}
    total = op.overlapped_time_s(overlap=overlap, **parts)
    assert max(compute, communication) * (1 - 1e-12) <= total <= (compute + communication) * (1 + 1e-12)
    assert op.overlapped_time_s(overlap=1.0, **parts) == max(compute, communication)
    assert op.overlapped_time_s(overlap=0.0, **parts) == pytest.approx(compute + communication)


@given(size=st.floats(1.0, 1e15), half=st.floats(0.0, 1e15), best=st.floats(0.01, 1.0))
def test_efficiency_saturates(size, half, best):
    reached = op.saturating_efficiency(size=size, half_size=half, max_efficiency=best)
    assert 0 < reached <= best * (1 + 1e-12)
    assert reached <= op.saturating_efficiency(size=4 * size, half_size=half, max_efficiency=best) * (1 + 1e-12)


@given(rows=st.integers(1, 10**5), columns=st.integers(1, 10**5))
def test_tile_quantisation_is_a_fraction(rows, columns):
    tile = {"tile_rows": 128, "tile_columns": 256, "num_sm": 132}
    assert 0 < op.tile_quantisation_efficiency(rows=rows, columns=columns, **tile) <= 1


def test_a_full_wave_loses_nothing_and_one_tile_more_nearly_half():
    tile = {"tile_rows": 128, "tile_columns": 128, "num_sm": 100}
    assert op.tile_quantisation_efficiency(rows=1280, columns=1280, **tile) == 1
    assert op.tile_quantisation_efficiency(rows=1281, columns=1280, **tile) == 110 / 200


def test_tokens_per_expert_is_zero_for_dense_models():
    tokens = op.tokens_per_expert(num_tokens=4096, top_k=2, num_experts=np.array([0, 8]), load_imbalance=1.5)
    assert tokens.tolist() == [0, 1536]


def test_dense_elementwise_bytes(make_workload):
    parts = elementwise_bytes_per_token(make_workload(tp=2, sequence_parallel=[False, True]))
    np.testing.assert_allclose(parts.norm, [2 * 4 * 4096, 4 * 4096])
    np.testing.assert_allclose(parts.residual, [2 * 6 * 4096, 6 * 4096])
    np.testing.assert_allclose(parts.activation, 6 * 14336 / 2)
    np.testing.assert_allclose(parts.rotary, 4 * (32 + 8) * 128 / 2)
    assert np.all(parts.attention_scores == 0)
    assert np.all(parts.routing == 0)
    np.testing.assert_allclose(parts.total, sum(parts))


def test_unfused_kernels_move_more(make_workload):
    w = make_workload(flash_attention=[True, False], fused_norm=[True, False])
    parts = elementwise_bytes_per_token(w)
    np.testing.assert_allclose(parts.norm, [8 * 4096, 56 * 4096])
    np.testing.assert_allclose(parts.attention_scores, [0, 4 * 32 * 8192])
    launches = op.kernel_launches_per_layer(w)
    assert launches.tolist() == [12, 12 + 3 + 10]


def test_expert_layers_permute_and_launch_more(make_workload):
    moe = {"num_experts": 8, "moe_top_k": 2, "moe_ffn_hidden_size": 512, "num_shared_experts": 1, "num_layers": 2}
    w = make_workload(**moe, num_dense_layers=[0, 1], ep=2, dp=2)
    parts = elementwise_bytes_per_token(w)
    permuted = 2 * 2 * 4 * 4096 + 8 * 8
    np.testing.assert_allclose(parts.routing, [permuted, permuted / 2])
    np.testing.assert_allclose(parts.activation, [3 * 6 * 512, (3 * 6 * 512 + 6 * 14336) / 2])
    assert op.kernel_launches_per_layer(w).tolist() == [7 + 12 + 2 + 3, 7 + (17 + 5) / 2]


def test_windows_shorten_score_bytes(make_workload):
    common = {"flash_attention": False, "sliding_window": 1024}
    parts = elementwise_bytes_per_token(make_workload(**common, windowed_layers_fraction=[0.0, 1.0]))
    np.testing.assert_allclose(parts.attention_scores, [4 * 32 * 8192, 4 * 32 * 1024])


def test_mla_rotates_one_shared_key(make_workload):
    w = make_workload(is_mla=True, qk_rope_head_dim=64, qk_nope_head_dim=128, v_head_dim=128, kv_lora_rank=512)
    assert elementwise_bytes_per_token(w).rotary[0] == 4 * 33 * 64
