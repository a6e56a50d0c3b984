"""Traffic per axis: hand-worked bytes, conventions, and splits over links."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from surrogate.analytic.communication import (
    AxisTraffic,
    micro_batch_traffic,
    num_microbatches,
    step_traffic,
    tokens_per_micro_batch,
)
from surrogate.analytic.model_parameters import parameters_per_gpu
from surrogate.analytic.traffic import (
    context_parallel_gather_bytes_per_layer,
    context_parallel_ring_bytes_per_layer,
    fully_sharded_bytes_per_micro_batch,
)
from surrogate.analytic.workload import Recompute, Schedule

WIDE = {"hidden_size": 8192, "num_heads": 64, "seq_len": 4096, "num_layers": 1}
Q = 2 * 4096 * 8192
MOE = {
    "num_experts": 64, "moe_top_k": 8, "moe_ffn_hidden_size": 2048, "hidden_size": 7168, "num_heads": 56,
    "seq_len": 4096, "num_layers": 1,
}  # fmt: skip


def test_tensor_parallel_bytes_of_one_layer(make_workload):
    kinds = [Recompute.NONE, Recompute.NONE, Recompute.FULL, Recompute.FULL, Recompute.SELECTIVE]
    w = make_workload(**WIDE, tp=8, sequence_parallel=[False, True, False, True, True], recompute=kinds)
    traffic = micro_batch_traffic(w).tp
    np.testing.assert_allclose(traffic.total_bytes, np.array([8, 10, 12, 14, 10]) * 7 / 8 * Q)
    assert traffic.total_bytes[0] == 469_762_048
    assert np.all(traffic.inter_bytes == 0)
    np.testing.assert_allclose(traffic.latency_steps, np.array([8, 10, 12, 14, 10]) * 7)


def test_expert_layers_have_tensor_traffic_for_attention_and_shared_experts(make_workload):
    shared = [0, 1]
    dense = micro_batch_traffic(make_workload(**WIDE, tp=8)).tp.total_bytes[0]
    w = make_workload(**MOE | WIDE, tp=8, num_shared_experts=shared)
    np.testing.assert_allclose(micro_batch_traffic(w).tp.total_bytes, [dense / 2, dense])


def test_vocabulary_parallel_bytes(make_workload):
    traffic = micro_batch_traffic(make_workload(**WIDE, tp=8)).vocabulary
    assert traffic.total_bytes[0] == 7 / 8 * (4 * Q + 2 * 3 * 4 * 4096)


def test_context_parallel_bytes(make_workload):
    w = make_workload(num_layers=1, cp=4, seq_len=8192, recompute=[Recompute.NONE, Recompute.FULL])
    assert tokens_per_micro_batch(w).tolist() == [2048, 2048]
    np.testing.assert_allclose(micro_batch_traffic(w).cp.total_bytes, np.array([3, 4]) * 25_165_824)


def test_key_value_heads_are_copied_when_tensor_parallelism_exceeds_them(make_workload):
    one_head = micro_batch_traffic(make_workload(num_layers=1, cp=4, tp=8)).cp.total_bytes
    copied = micro_batch_traffic(make_workload(num_layers=1, cp=4, tp=8, num_kv_heads=1)).cp.total_bytes
    np.testing.assert_array_equal(one_head, copied)


def test_ring_and_gather_send_the_same():
    common = {"num_tokens": 2048, "key_value_width": 2048, "cp": 8, "element_bytes": 2}
    assert context_parallel_gather_bytes_per_layer(**common) == context_parallel_ring_bytes_per_layer(**common)


def test_expert_parallel_bytes_and_their_split(make_workload):
    traffic = micro_batch_traffic(make_workload(**MOE, dp=64, ep=64)).ep
    assert traffic.total_bytes[0] == 4 * 462_422_016
    assert traffic.inter_bytes[0] == pytest.approx(4 * 462_422_016 * 56 / 63)
    assert traffic.latency_steps[0] == 4


def test_expert_parallel_variants(make_workload):
    base = micro_batch_traffic(make_workload(**MOE, dp=64, ep=64)).ep.total_bytes[0]
    variants = {
        "capacity": ({"capacity_factor": 1.5}, 1.5),
        "full recomputation": ({"recompute": Recompute.FULL}, 1.5),
        "recomputed experts": ({"recompute_moe": True}, 1.5),
        "sequence parallel": ({"sequence_parallel": True, "tp": 4, "dp": 16}, 0.25),
    }
    for name, (values, factor) in variants.items():
        changed = micro_batch_traffic(make_workload(**MOE | {"dp": 64, "ep": 64} | values)).ep.total_bytes[0]
        assert changed == pytest.approx(factor * base), name


def test_expert_tensor_parallel_gathers_dispatched_tokens(make_workload):
    traffic = micro_batch_traffic(make_workload(**MOE, tp=2, dp=8, ep=8, expert_tp=2, sequence_parallel=True)).expert_tp
    assert traffic.total_bytes[0] == 4 * (2 - 1) * 2 * (4096 / 2) * 8 * 7168


def test_pipeline_bytes(make_workload):
    common = WIDE | {"num_layers": 8, "tp": 8, "pp": 4}
    plain = micro_batch_traffic(make_workload(**common, sequence_parallel=[False, True])).pp
    np.testing.assert_allclose(plain.total_bytes, [2 * Q, 2 * Q / 8])
    assert plain.total_bytes[1] == 2 * 8_388_608
    assert np.all(plain.intra_bytes == 0)
    chunked = micro_batch_traffic(make_workload(**common, vp=2, schedule=Schedule.INTERLEAVED)).pp
    v_shaped = micro_batch_traffic(make_workload(**common, schedule=Schedule.ZB_V)).pp
    assert chunked.total_bytes[0] == v_shaped.total_bytes[0] == 4 * Q
    assert micro_batch_traffic(make_workload(pp=4, **WIDE | {"num_layers": 8})).pp.inter_bytes[0] == 0


def test_gradient_traffic_by_zero_stage(make_workload):
    w = make_workload(dp=64, zero_stage=[0, 1, 2, 3])
    parameters = parameters_per_gpu(w).first.total[0]
    per_step = step_traffic(w).data.total_bytes
    np.testing.assert_allclose(per_step, np.array([8, 6, 6, 0]) * 63 / 64 * parameters)
    per_micro_batch = micro_batch_traffic(w).data.total_bytes
    np.testing.assert_allclose(per_micro_batch, np.array([0, 0, 0, 8]) * 63 / 64 * parameters)


def test_under_a_pipeline_zero_3_gathers_and_reduces_once_a_step(make_workload):
    w = make_workload(pp=4, dp=64, zero_stage=[1, 3])
    assert micro_batch_traffic(w).data.total_bytes.tolist() == [0, 0]
    assert np.ptp(step_traffic(w).data.total_bytes) == 0


def test_zero_3_sends_one_and_a_half_times_zero_0():
    sharded = fully_sharded_bytes_per_micro_batch(parameters=1e9, num_ranks=64, grad_bytes=2, weight_gathers=2)
    assert sharded / (2 * 63 / 64 * 2e9) == 1.5


def test_gradients_reduce_over_context_parallel_ranks_too(make_workload):
    data = step_traffic(make_workload(dp=[8, 4, 1], cp=[1, 2, 8])).data
    np.testing.assert_allclose(data.total_bytes, data.total_bytes[0])


def test_hybrid_sharding_all_reduces_its_shards(make_workload):
    w = make_workload(dp=32, shard_size=8, zero_stage=3)
    parameters = parameters_per_gpu(w).first.total[0]
    assert micro_batch_traffic(w).data.total_bytes[0] == pytest.approx(7 / 8 * 8 * parameters)
    assert micro_batch_traffic(w).data.inter_bytes[0] == 0
    assert step_traffic(w).data.total_bytes[0] == pytest.approx(2 * 3 / 4 * 4 * parameters / 8)


def test_experts_reduce_over_their_own_group(make_workload):
    w = make_workload(**MOE, dp=64, ep=8, zero_stage=0)
    expert = parameters_per_gpu(w).first.expert[0]
    assert expert == 64 * 3 * 7168 * 2048 / 8
    assert step_traffic(w).expert_data.total_bytes[0] == pytest.approx(2 * 7 / 8 * 4 * expert)


def test_tied_embedding_is_reduced_between_the_end_stages(make_workload):
    w = make_workload(pp=[1, 4, 4], tp=8, tied_embeddings=[True, True, False])
    np.testing.assert_allclose(step_traffic(w).embedding.total_bytes, [0, 4 * 128256 * 4096 / 8, 0])


def test_ring_crosses_domains_once_per_domain(make_workload):
    data = step_traffic(make_workload(dp=16, tp=2)).data
    assert data.inter_bytes[0] == pytest.approx(data.total_bytes[0] / 4)


def test_microbatches(make_workload):
    assert num_microbatches(make_workload(dp=4, global_batch_size=64, micro_batch_size=2))[0] == 8


def test_scaled_traffic():
    assert AxisTraffic(np.ones(1), np.ones(1), np.ones(1)).scaled(3.0).total_bytes[0] == 6.0


@given(seed=st.integers(0, 2**16))
def test_traffic_is_finite_and_vanishes_for_groups_of_one(make_random_workload, seed):
    w = make_random_workload(seed, 40)
    micro, step = micro_batch_traffic(w), step_traffic(w)
    for axis in (*micro, *step):
        for part in axis:
            assert np.all(np.isfinite(part))
            assert np.all(part >= 0)
    for axis, size in ((micro.tp, w.tp), (micro.cp, w.cp), (micro.ep, w.ep), (micro.pp, w.pp)):
        assert np.all(axis.total_bytes[size == 1] == 0)
        assert np.all(axis.latency_steps[size == 1] == 0)
    dense = w.num_experts == 0
    assert np.all(micro.ep.total_bytes[dense] == 0)
    assert np.all(step.expert_data.total_bytes[dense] == 0)
    inside = w.num_gpus <= w.fast_domain_gpus
    for axis in (*micro, *step):
        assert np.all(axis.inter_bytes[inside] == 0)
