"""One small dense layer worked out on paper: every term, then every part of the step."""

from __future__ import annotations

from dataclasses import fields

import numpy as np
import pytest

from surrogate.analytic.coefficients import INDEX, LOG_TEXTBOOK
from surrogate.analytic.software import AttentionKernel, SoftwareTraits
from surrogate.analytic.step_terms import StepTerms, step_terms
from surrogate.analytic.step_time import StepTimeBreakdown, step_time
from surrogate.analytic.workload import Precision, Recompute, Workload

LAYER = {
    "num_layers": 2, "hidden_size": 1000, "ffn_hidden_size": 4000, "num_heads": 10, "num_kv_heads": 10, "head_dim": 100,
    "vocab_size": 10_000, "seq_len": 1000, "gated_mlp": False, "tied_embeddings": True, "zero_stage": 0,
    "peak_flops_per_s": 1e15, "peak_16bit_flops_per_s": 1e15, "hbm_bytes_per_s": 1e12,
    "fast_link_bytes_per_s": 1e11, "network_bytes_per_s": 1e10, "host_link_bytes_per_s": 1e10,
}  # fmt: skip
"""1000 tokens; 24e6 FLOPs per token in products, 2.002e6 in the causal core, 20e6 in the head."""


def software_of(w: Workload, **values: object) -> SoftwareTraits:
    """Return FlashAttention-2 in eager mode, changed by `values`."""
    traits: dict[str, object] = {
        "attention_kernel": int(AttentionKernel.FLASH_2), "whole_program": False, "compiled": False, "fused_norm": 0.5,
        "deepspeed_zero3": False, "routing_balanced": True, "years_of_software": 0.0,
    } | values  # fmt: skip
    return SoftwareTraits(**{name: np.broadcast_to(value, (len(w),)) for name, value in traits.items()})


def terms_of(make_workload, software: dict[str, object] | None = None, **values: object) -> StepTerms:
    w = make_workload(**(LAYER | values))
    return step_terms(w, software_of(w, **(software or {})))


def log_coefficients(**values: float) -> np.ndarray:
    """Return 1 for every factor and next to nothing for every fixed cost, changed by `values`."""
    chosen = LOG_TEXTBOOK * 0.0
    nothing = ("launch_s", "fixed_s", "collective_start_s", "tp_latency_s", "expert_launch_s", "moe_layer_s")
    for name in (*nothing, "stragglers", "head_dim_power"):
        chosen[INDEX[name]] = np.log(1e-30)
    for name, value in values.items():
        chosen[INDEX[name]] = np.log(value)
    return chosen


@pytest.mark.parametrize(
    ("name", "worked"),
    [
        ("matmul_s", 24e9 / 1e15),
        ("num_matmuls", 4.0),
        ("s_per_gflop", 1e9 / 1e15),
        ("matmul_traffic_s", (2 * 12e6 + 2 * 1000 * (2000 + 3000 + 1000 + 2 * 1000 + 2 * 4000)) / 1e12),
        ("experts_s", 0.0),
        ("attention_s", 4 * 1000 * 1000 * 1000 * 0.5005 / 1e15),
        ("log_head_width", np.log(100 / 128)),
        ("score_s", 0.0),
        ("norm_s", 20 * 1000 * 1000 / 1e12),
        ("activation_s", 1000 * (4 * 4000 + 4 * 20 * 100) / 1e12),
        ("cast_s", 0.0),
        ("head_s", 2 * 1000 * 1000 * 10_000 / 1e15),
        ("logits_s", 12 * 1000 * 10_000 / 1e12),
        ("launch_share", 1.0),
        ("tokens", 1000.0),
        ("roofline_s", 3 * 1000 * (2 * 24e6 + 2 * 2.002e6 + 20e6) / 1e15),
        ("layers_per_stage", 2.0),
        ("bubble_passes", 0.0),
        ("extra_layers", 0.0),
        ("log2_nodes", 0.0),
    ],
)
def test_terms_of_a_dense_layer(make_workload, name, worked):
    assert getattr(terms_of(make_workload), name)[0] == pytest.approx(worked, rel=1e-12)


def test_parts_of_a_step_of_one_gpu(make_workload):
    # us: products 24 + 4 x 1 + traffic 56 = 84; attention 2.002; element-wise 20 + 24 = 44; unit coefficients
    parts = step_time(terms_of(make_workload), log_coefficients(backward=2.0, fixed_s=1e-3))
    forward, backward = 84 + 2.002 + 44, 2 * 84 + 2 * 1.25 * 2.002 + 1.2 * 44
    assert parts.compute_s[0] == pytest.approx(2 * (forward + backward) * 1e-6, rel=1e-9)
    assert parts.head_s[0] == pytest.approx((3 * 20 + 120) * 1e-6, rel=1e-9)
    assert parts.fixed_s[0] == pytest.approx(1e-3)
    for name in ("recompute_s", "tp_s", "cp_s", "ep_s", "pp_s", "bubble_s", "imbalance_s", "offload_s"):
        assert getattr(parts, name)[0] == 0.0, name


def test_optimizer_moves_its_state_once(make_workload):
    # 2 x 12e6 weights, norms and embeddings times 26 + 3 x 4 bytes (update, norm pass, zeroing) within 5 % of the count
    seconds = step_time(terms_of(make_workload), log_coefficients()).optimizer_s[0]
    assert seconds == pytest.approx((2 * 12e6 + 10_000 * 1000) * 38 / 1e12, rel=0.05)


def test_full_recomputation_repeats_the_forward_pass(make_workload):
    parts = step_time(terms_of(make_workload, recompute=int(Recompute.FULL)), log_coefficients(backward=2.0))
    assert parts.recompute_s[0] == pytest.approx(2 * (84 + 2.002 + 44) * 1e-6, rel=1e-9)


def test_selective_recomputation_repeats_the_core(make_workload):
    parts = step_time(terms_of(make_workload, recompute=int(Recompute.SELECTIVE)), log_coefficients(backward=2.0))
    assert parts.recompute_s[0] == pytest.approx(2 * (0.3 * 2.002 + 0.5 * 44) * 1e-6, rel=1e-9)


def test_launches_pace_a_layer_that_the_device_finishes_sooner(make_workload):
    # 1 ms x 2.6 launches per layer against 0.36 ms of device time: host time is what exceeds the device's
    parts = step_time(terms_of(make_workload), log_coefficients(backward=2.0, launch_s=1e-3))
    device = parts.compute_s[0] / 2
    assert parts.host_s[0] / 2 == pytest.approx((device**4 + 2.6e-3**4) ** 0.25 - device, rel=1e-9)
    graphs = step_time(terms_of(make_workload, cuda_graphs=1.0), log_coefficients(backward=2.0, launch_s=1e-3))
    assert graphs.host_s[0] < 0.15 * parts.host_s[0]


def test_bubble_is_p_less_1_passes_of_a_stage(make_workload):
    parts = step_time(terms_of(make_workload, pp=2, global_batch_size=8), log_coefficients(backward=2.0, pp=1e-30))
    assert parts.bubble_s[0] == pytest.approx(parts.compute_s[0] / 8, rel=1e-9)


def test_chunks_divide_the_bubble(make_workload):
    values = {"num_layers": 8, "pp": 2, "global_batch_size": 8}
    bubbles = [
        step_time(terms_of(make_workload, vp=vp, schedule=int(vp > 1), **values), log_coefficients(pp=1e-30)).bubble_s[
            0
        ]
        for vp in (1, 2, 4)
    ]
    assert bubbles == pytest.approx([bubbles[0], bubbles[0] / 2, bubbles[0] / 4])


def test_unequal_stages_wait_for_the_largest(make_workload):
    # 5 layers on 2 stages: the larger holds 3, half a layer beyond the average
    parts = step_time(terms_of(make_workload, num_layers=5, pp=2, global_batch_size=8), log_coefficients(backward=2.0))
    layer = parts.compute_s[0] / (8 * 2.5)
    assert parts.imbalance_s[0] == pytest.approx(8 * 0.5 * layer, rel=1e-9)


def test_tensor_parallel_rings_of_two_ranks(make_workload):
    # all-reduce of 2 n h bytes over 2 ranks: 2 (t - 1)/t q on the wire, two per pass and layer, 1e11 B/s
    parts = step_time(terms_of(make_workload, tp=2), log_coefficients())
    per_ring = 2 * (1 / 2) * 2 * 1000 * 1000 / 1e11
    assert parts.tp_s[0] == pytest.approx(2 * 2 * 2 * per_ring, rel=1e-9)


def test_gradient_ring_without_overlap(make_workload):
    # all-reduce of fp32 gradients over 2 ranks of a node: 2 x 1/2 x 4 bytes per parameter at 1e11 B/s
    exposed = step_time(terms_of(make_workload, dp=2, overlap_grad_reduce=0.0), log_coefficients()).dp_s[0]
    assert exposed == pytest.approx(4 * (2 * 12e6 + 10_000 * 1000) / 1e11, rel=0.05)


def test_overlap_hides_traffic_behind_the_last_pass(make_workload):
    # an all-reduce is half reduction, half gathering; behind windows of 1/2 and 1/4 of a pass, t^2/(t + w) is exposed
    terms = terms_of(make_workload, dp=2, overlap_grad_reduce=1.0, overlap_param_gather=1.0)
    parts = step_time(terms, log_coefficients(backward=2.0))
    traffic, stage = terms.reduce_s[0], parts.compute_s[0]
    assert terms.gather_s[0] == pytest.approx(traffic)
    exposed = traffic**2 / (traffic + stage / 2) + traffic**2 / (traffic + stage / 4)
    assert parts.dp_s[0] == pytest.approx(exposed, rel=1e-6)
    assert parts.dp_s[0] < step_time(terms_of(make_workload, dp=2), log_coefficients()).dp_s[0]


def test_stragglers_grow_with_the_logarithm_of_nodes(make_workload):
    parts = step_time(terms_of(make_workload, dp=64), log_coefficients(stragglers=0.01))
    rest = parts.total_s[0] - parts.straggler_s[0]
    assert parts.straggler_s[0] == pytest.approx(0.03 * rest, rel=1e-9)


def test_limited_routing_sends_a_token_once_per_domain(make_workload):
    values = {"num_experts": 64, "moe_ffn_hidden_size": 1000, "num_dense_layers": 0, "dp": 16, "ep": 16}
    top_2, top_8 = (terms_of(make_workload, moe_top_k=k, **values).ep_inter_s[0] for k in (2, 8))
    assert top_8 == pytest.approx(top_2)


def test_low_precision_pays_for_casts_and_leaves_attention_at_16_bits(make_workload):
    plain = terms_of(make_workload)
    low = terms_of(make_workload, peak_flops_per_s=2e15, precision=int(Precision.FP8))
    assert low.matmul_s == pytest.approx(plain.matmul_s / 2)
    assert low.attention_s == plain.attention_s
    assert low.cast_s[0] == pytest.approx(1.5 * (1000 * (3 * 1000 + 4000) + 12e6 * 1.0) / 1e12)
    assert low.precision[0] == Precision.FP8


def test_a_device_without_a_faster_peak_runs_at_16_bits(make_workload):
    assert terms_of(make_workload, precision=int(Precision.FP8)).precision[0] == Precision.BITS_16


def test_terms_of_selected_rows(make_workload):
    terms = terms_of(make_workload, pp=np.array([1.0, 2.0, 2.0]))
    assert len(terms) == 3
    assert list(terms.take(np.array([2, 0])).pp) == [2.0, 1.0]
    assert {len(getattr(terms, field.name)) for field in fields(StepTerms)} == {3}


def test_breakdown_has_no_hidden_part(make_workload):
    parts = step_time(terms_of(make_workload), LOG_TEXTBOOK)
    assert parts.total_s == pytest.approx(sum(getattr(parts, field.name) for field in fields(StepTimeBreakdown)))
