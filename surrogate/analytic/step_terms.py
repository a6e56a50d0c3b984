"""What a step consists of, before any coefficient: the analytic features of a configuration.

Times are what the work would take at peak rates and nominal bandwidths. Unless said otherwise they are for one
micro-batch, one forward pass and one average layer on one GPU; `step_time` puts them together.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from surrogate.analytic.communication import (
    AxisTraffic,
    MicroBatchTraffic,
    StepTraffic,
    micro_batch_traffic,
    num_microbatches,
    step_traffic,
    tokens_per_micro_batch,
)
from surrogate.analytic.compute_bytes import elementwise_bytes_per_token
from surrogate.analytic.flops import LayerFlops, layer_flops_per_token
from surrogate.analytic.groups import ParallelGroups, parallel_groups
from surrogate.analytic.model_parameters import ParametersPerGpu, parameters_per_gpu
from surrogate.analytic.operators import tokens_per_expert
from surrogate.analytic.optimizer import optimizer_bytes
from surrogate.analytic.recompute import recomputed_layer_fraction
from surrogate.analytic.software import AttentionKernel, SoftwareTraits
from surrogate.analytic.stages import largest_stage_layers
from surrogate.analytic.workload import BoolArray, FloatArray, IntArray, Offload, Precision, Recompute, Workload
from surrogate.units import GIGA

ELEMENT_BYTES = 2.0
_NORM_BYTES = 20.0
"""Bytes per token and unit of width of two norms and two residuals, as a chain of partly fused kernels."""
_LOGIT_BYTES = 12.0
"""Bytes per logit: written in 16 bits, read and written in fp32, read for the gradient."""
_CAST_BYTES = 1.5
"""Bytes per element of a cast to 8 bits beyond those of the product: half of 2 read, 1 written."""


Terms = dict[str, Any]
"""Arrays of shape (n,) by field of `StepTerms`: floats, flags and codes."""


@dataclass(frozen=True, kw_only=True, slots=True)
class StepTerms:
    """The terms of n configurations, every array of shape (n,)."""

    # matrix products of an average layer, forward, at peak
    matmul_s: FloatArray
    num_matmuls: FloatArray
    s_per_gflop: FloatArray
    """Seconds of 1e9 FLOPs at the row's peak."""
    matmul_traffic_s: FloatArray
    experts_s: FloatArray
    expert_traffic_s: FloatArray
    num_expert_matmuls: FloatArray
    attention_s: FloatArray
    """Causal when fused, the whole score matrix otherwise, at the 16-bit peak."""
    log_head_width: FloatArray
    """Logarithm of the head width over 128."""
    score_s: FloatArray
    """One byte per score of unfused attention over HBM bandwidth."""
    norm_s: FloatArray
    activation_s: FloatArray
    cast_s: FloatArray
    routing_s: FloatArray
    # host
    launch_share: FloatArray
    """Share of launches that the host must issue one by one: less under CUDA graphs and compilers."""
    moe_share: FloatArray
    # communication
    tp_s: FloatArray
    """Rings of one forward pass of a layer."""
    tp_steps: FloatArray
    tp_crosses: BoolArray
    cp_s: FloatArray
    ep_intra_s: FloatArray
    ep_inter_s: FloatArray
    pp_s: FloatArray
    """Sends of one micro-batch, forward and backward."""
    zero3_s: FloatArray
    """Gathers and reductions of the stage for one micro-batch, forward and backward."""
    # once per micro-batch on the last stage, or per step
    head_s: FloatArray
    logits_s: FloatArray
    reduce_s: FloatArray
    """Gradient rings per step."""
    gather_s: FloatArray
    """Parameter rings per step."""
    replica_s: FloatArray
    """All-reduce of HSDP over replicas per step."""
    dp_crosses: BoolArray
    dp_starts: FloatArray
    """Start-ups of data-parallel collectives per step, times the logarithm of the ranks."""
    optimizer_s: FloatArray
    offload_s: FloatArray
    activation_offload_s: FloatArray
    # counts and settings
    pp: FloatArray
    num_microbatches: FloatArray
    layers_per_stage: FloatArray
    extra_layers: FloatArray
    """Layers of the largest stage beyond the average."""
    mtp_share: FloatArray
    num_mtp_layers: FloatArray
    bubble_passes: FloatArray
    """Idle stage passes of a 1F1B pipeline, (p - 1) / v."""
    log2_nodes: FloatArray
    tokens: FloatArray
    """Local tokens of a micro-batch."""
    tokens_per_expert: FloatArray
    recompute_full: FloatArray
    recompute_core: FloatArray
    recompute_operators: FloatArray
    fused: BoolArray
    attention_kernel: IntArray
    precision: IntArray
    schedule: IntArray
    tp_overlap: FloatArray
    ep_overlap: FloatArray
    reduce_overlap: FloatArray
    gather_overlap: FloatArray
    cuda_graphs: FloatArray
    compiled: BoolArray
    fused_norm: FloatArray
    deepspeed_zero3: BoolArray
    routing_balanced: BoolArray
    years_of_software: FloatArray
    roofline_s: FloatArray
    """No step can be faster: model FLOPs without recomputation at the row's dense peak."""

    def __len__(self) -> int:
        return len(self.pp)

    def take(self, rows: NDArray[np.int64] | NDArray[np.bool_] | slice) -> StepTerms:
        """Return the selected rows."""
        return StepTerms(**{field.name: getattr(self, field.name)[rows] for field in fields(self)})


def step_terms(w: Workload, software: SoftwareTraits) -> StepTerms:
    """Return the terms of a step for n configurations.

    Parameters
    ----------
    w : Workload
        n configurations.
    software : SoftwareTraits
        Their software.

    Returns
    -------
    StepTerms
        Arrays of shape (n,).

    Notes
    -----
    FLOPs, bytes and groups are those of `flops`, `compute_bytes`, `communication` and `model_parameters`.
    Attention and head run at the 16-bit peak also under FP8 and FP4 recipes.

    Assumptions: micro-batches are equal; every layer is the average layer of its model.
    """
    groups = parallel_groups(w)
    per_gpu = parameters_per_gpu(w)
    return StepTerms(
        **_compute_terms(w),
        **_host_terms(w, software),
        **_layer_communication_terms(w, groups, micro_batch_traffic(w, groups=groups, per_gpu=per_gpu)),
        **_step_communication_terms(w, groups, step_traffic(w, groups=groups, per_gpu=per_gpu), software),
        **_state_terms(w, groups, per_gpu),
        **_settings(w, software),
    )


def _compute_terms(w: Workload) -> Terms:
    n = tokens_per_micro_batch(w)
    flops = layer_flops_per_token(w)
    moe = 1.0 - w.num_dense_layers / w.num_layers
    dense = flops.projections + (1.0 - moe) * flops.dense_mlp + moe * (flops.shared_experts + flops.router)
    per_gpu = n / w.tp
    core = np.where(w.flash_attention, flops.core_causal, flops.core_full)
    elementwise = elementwise_bytes_per_token(w)
    matrices = np.where(w.gated_mlp, 3.0, 2.0)
    shards = np.where(w.sequence_parallel, w.tp, 1.0)
    weights = ELEMENT_BYTES * 0.5 * dense / w.tp
    heads_width = (w.num_heads + 2.0 * w.num_kv_heads) * w.head_dim
    mlp_width = (1.0 - moe) * w.ffn_hidden_size
    operands = 2.0 * w.hidden_size + (heads_width + w.num_heads * w.head_dim) / w.tp
    operands = operands + (1.0 - moe) * matrices * w.hidden_size + matrices * mlp_width / w.tp
    scores = np.where(w.flash_attention, 0.0, n * w.seq_len * w.num_heads / w.tp)
    low = w.peak_flops_per_s > 1.01 * w.peak_16bit_flops_per_s
    cast = n * (3.0 * w.hidden_size + mlp_width / w.tp) + 0.5 * weights
    head_width = np.where(w.is_mla, w.qk_nope_head_dim + w.qk_rope_head_dim, w.head_dim)
    return {
        "matmul_s": dense * per_gpu / w.peak_flops_per_s,
        "num_matmuls": 2.0 + (1.0 - moe) * matrices + moe * (1.0 + matrices * (w.num_shared_experts > 0.0)),
        "s_per_gflop": GIGA / w.peak_flops_per_s,
        "matmul_traffic_s": (weights + ELEMENT_BYTES * n * operands) / w.hbm_bytes_per_s,
        **_expert_terms(w, flops, n),
        "attention_s": core * per_gpu / w.peak_16bit_flops_per_s,
        "log_head_width": np.log(np.clip(head_width, 32.0, 256.0) / 128.0),
        "score_s": scores / w.hbm_bytes_per_s,
        "norm_s": n * _NORM_BYTES * w.hidden_size / shards / w.hbm_bytes_per_s,
        "activation_s": n * (elementwise.activation + elementwise.rotary) / w.hbm_bytes_per_s,
        "cast_s": np.where(low, _CAST_BYTES * cast, 0.0) / w.hbm_bytes_per_s,
        "head_s": 2.0 * n * w.hidden_size * w.vocab_size / w.tp / w.peak_16bit_flops_per_s,
        "logits_s": _LOGIT_BYTES * n * w.vocab_size / w.tp / w.hbm_bytes_per_s,
        "tokens": n,
        "roofline_s": _roofline_s(w, flops, n),
    }


def _expert_terms(w: Workload, flops: LayerFlops, n: FloatArray) -> Terms:
    """Routed experts of an average layer, for n tokens of a micro-batch."""
    moe = 1.0 - w.num_dense_layers / w.num_layers
    matrices = np.where(w.gated_mlp, 3.0, 2.0)
    routed_tokens = n * w.moe_top_k / np.where(w.num_experts > 0.0, w.tp, 1.0)
    local_experts = np.maximum(w.num_experts / w.ep, 1.0)
    weights = ELEMENT_BYTES * matrices * w.hidden_size * w.moe_ffn_hidden_size / w.expert_tp
    operands = ELEMENT_BYTES * routed_tokens * (w.hidden_size + w.moe_ffn_hidden_size) * matrices
    return {
        "experts_s": moe * flops.routed_experts * (n / w.tp) / w.peak_flops_per_s,
        "expert_traffic_s": moe * (weights * local_experts + operands) / w.hbm_bytes_per_s,
        "num_expert_matmuls": moe * local_experts * matrices,
        "routing_s": moe * 4.0 * ELEMENT_BYTES * routed_tokens * w.hidden_size / w.hbm_bytes_per_s,
        "tokens_per_expert": _tokens_per_expert(w, n),
        "moe_share": moe,
    }


def _tokens_per_expert(w: Workload, n: FloatArray) -> FloatArray:
    ranks = w.ep * w.expert_tp / w.tp
    return tokens_per_expert(
        num_tokens=n * np.maximum(ranks, 1.0), top_k=w.moe_top_k, num_experts=w.num_experts, load_imbalance=1.0
    )


def _roofline_s(w: Workload, flops: LayerFlops, n: FloatArray) -> FloatArray:
    """Return the least time of a step: forward and backward products at peak, no bubble."""
    moe = 1.0 - w.num_dense_layers / w.num_layers
    experts = flops.routed_experts + flops.shared_experts + flops.router
    layer = flops.projections + (1.0 - moe) * flops.dense_mlp + moe * experts
    low = (w.num_layers * layer) / w.peak_flops_per_s
    full = (w.num_layers * flops.core_causal + 2.0 * w.hidden_size * w.vocab_size) / np.maximum(
        w.peak_16bit_flops_per_s, w.peak_flops_per_s
    )
    return 3.0 * num_microbatches(w) * n * (low + full) / (w.tp * w.pp)


def _host_terms(w: Workload, software: SoftwareTraits) -> Terms:
    program = np.where(software.whole_program, 0.1, np.where(software.compiled, 0.5, 1.0))
    return {"launch_share": (1.0 - 0.8 * w.cuda_graphs) * program}


def _wire_s(traffic: AxisTraffic, bytes_per_s: FloatArray) -> FloatArray:
    return (traffic.intra_bytes + traffic.inter_bytes) / bytes_per_s


def _layer_communication_terms(w: Workload, groups: ParallelGroups, traffic: MicroBatchTraffic) -> Terms:
    """Turn traffic of the largest stage, forward and backward, into one pass of an average layer."""
    layers = largest_stage_layers(w).total
    passes = 2.0 + recomputed_layer_fraction(w) * (w.recompute == Recompute.FULL)
    per_pass = 1.0 / (layers * passes)
    fast, slow = w.fast_link_bytes_per_s, w.network_bytes_per_s
    dense_shard = groups.data_shard.ring_bytes_per_s
    sharded = w.gathers_each_pass
    return {
        "tp_s": _wire_s(traffic.tp, groups.tp.ring_bytes_per_s) * per_pass,
        "tp_steps": traffic.tp.latency_steps * per_pass,
        "tp_crosses": groups.tp.num_domains > 1.0,
        "cp_s": _wire_s(traffic.cp, groups.cp.ring_bytes_per_s) / layers,
        "ep_intra_s": (traffic.ep.intra_bytes + traffic.expert_tp.intra_bytes) / fast * per_pass,
        "ep_inter_s": _limited_routing(w, groups) * traffic.ep.inter_bytes / slow * per_pass,
        "pp_s": traffic.pp.intra_bytes / fast + traffic.pp.inter_bytes / slow,
        "zero3_s": np.where(sharded, _wire_s(traffic.data, dense_shard), 0.0),
    }


def _limited_routing(w: Workload, groups: ParallelGroups) -> FloatArray:
    """Return the share of inter-domain copies left when a token is sent once per domain, not once per expert."""
    copies = np.minimum(w.moe_top_k, groups.ep.num_domains)
    return np.where(w.moe_top_k > 0.0, copies / np.maximum(w.moe_top_k, 1.0), 1.0)


def _step_communication_terms(
    w: Workload, groups: ParallelGroups, traffic: StepTraffic, software: SoftwareTraits
) -> Terms:
    plain = ~w.gathers_each_pass
    ring = _wire_s(traffic.data, groups.data.ring_bytes_per_s)
    ring = ring + _wire_s(traffic.expert_data, groups.expert_data.ring_bytes_per_s)
    reduce_share = w.grad_bytes / (w.grad_bytes + np.where(w.zero_stage == 0, w.grad_bytes, ELEMENT_BYTES))
    replica = _wire_s(traffic.data, np.minimum(w.fast_link_bytes_per_s, w.network_bytes_per_s))
    ranks = groups.data.size
    per_layer = 3.0 * w.num_layers / w.pp * num_microbatches(w) * np.where(software.whole_program, 0.1, 1.0)
    return {
        "reduce_s": plain * ring * reduce_share,
        "gather_s": plain * ring * (1.0 - reduce_share),
        "replica_s": np.where(plain, 0.0, replica),
        "dp_crosses": groups.data.num_domains > 1.0,
        "dp_starts": np.log2(np.maximum(ranks, 1.0)) * np.where(plain, 1.0, per_layer),
        "log2_nodes": np.log2(np.maximum(w.num_gpus / w.gpus_per_node, 1.0)),
    }


def _state_terms(w: Workload, groups: ParallelGroups, per_gpu: ParametersPerGpu) -> Terms:
    moved = optimizer_bytes(w, groups=groups, per_gpu=per_gpu)
    to_host = moved * (w.offload == Offload.OPTIMIZER)
    weights = ELEMENT_BYTES * (per_gpu.middle.dense + per_gpu.middle.expert)
    streamed = (w.offload == Offload.PARAMS) * (moved + 2.0 * num_microbatches(w) * weights)
    layers = w.num_layers / w.pp
    saved = _kept_bytes_per_token(w) * tokens_per_micro_batch(w) / w.tp * layers * num_microbatches(w)
    activations = (w.offload == Offload.ACTIVATIONS) * w.offload_fraction * 2.0 * saved
    return {
        "optimizer_s": moved / w.hbm_bytes_per_s,
        "offload_s": (to_host + streamed) / w.host_link_bytes_per_s,
        "activation_offload_s": activations / w.host_link_bytes_per_s,
    }


def _kept_bytes_per_token(w: Workload) -> FloatArray:
    """Return the bytes a layer keeps of each token for its backward pass, which activation offload moves.

    All 34 h (arXiv 2205.05198, section 4); the layer's input and its projections q, k, v under recomputation of
    operators, which is what offload policies of XLA and torch name; the input alone under full recomputation.
    """
    inputs = ELEMENT_BYTES * w.hidden_size
    projections = ELEMENT_BYTES * (w.num_heads + 2.0 * w.num_kv_heads) * w.head_dim
    kept = np.where(w.recompute == Recompute.FULL, inputs, 34.0 * w.hidden_size)
    return np.where(w.recompute == Recompute.OP_SELECTIVE, inputs + projections, kept)


def _settings(w: Workload, software: SoftwareTraits) -> Terms:
    layers = w.num_layers / w.pp
    share = recomputed_layer_fraction(w)
    largest = np.ceil(w.num_layers / (w.pp * w.vp)) * w.vp
    return {
        "pp": w.pp,
        "num_microbatches": num_microbatches(w),
        "layers_per_stage": layers,
        "extra_layers": np.maximum(largest - layers, 0.0),
        "mtp_share": w.num_mtp_layers / w.num_layers,
        "num_mtp_layers": w.num_mtp_layers,
        "bubble_passes": (w.pp - 1.0) / w.vp,
        "recompute_full": share * (w.recompute == Recompute.FULL),
        "recompute_core": share * (w.recompute == Recompute.SELECTIVE),
        "recompute_operators": share * (w.recompute == Recompute.OP_SELECTIVE),
        "fused": software.attention_kernel >= int(AttentionKernel.FLASH_1),
        "attention_kernel": software.attention_kernel,
        "precision": np.where(w.peak_flops_per_s > 1.01 * w.peak_16bit_flops_per_s, w.precision, Precision.BITS_16),
        "schedule": w.schedule,
        "tp_overlap": w.tp_comm_overlap,
        "ep_overlap": w.ep_overlap,
        "reduce_overlap": w.overlap_grad_reduce,
        "gather_overlap": w.overlap_param_gather,
        "cuda_graphs": w.cuda_graphs,
        "compiled": software.compiled,
        "fused_norm": software.fused_norm,
        "deepspeed_zero3": software.deepspeed_zero3,
        "routing_balanced": software.routing_balanced,
        "years_of_software": software.years_of_software,
    }


__all__ = ["StepTerms", "step_terms"]
