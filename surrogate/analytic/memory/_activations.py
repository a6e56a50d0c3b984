"""Saved activations per token and layer, by kind and by what is recomputed.

Notation: bytes are per token of the local micro-batch; t divides what tensor parallelism splits, t_s = t with sequence
parallelism (else 1) divides what only that splits. Activations are 16-bit, their fp32 parts named where they occur.

References
----------
arXiv 2205.05198 (34 + 5 a s/h and its forms under tensor and sequence parallelism and recomputation). A plain MLP
is taken as that paper's GPT layer, with its dropout masks; a gated one as dropout-free.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from surrogate.analytic.memory._coefficients import MemoryCoefficients
from surrogate.analytic.memory._parameters import kv_heads_held
from surrogate.analytic.memory._stages import Stage
from surrogate.analytic.workload import FloatArray, Recompute, Workload


@dataclass(frozen=True, kw_only=True, slots=True)
class TokenBytes:
    """Saved bytes per token of one layer, by kind; arrays of shape (n,)."""

    norms: FloatArray
    attention: FloatArray
    mlp: FloatArray
    experts: FloatArray


@dataclass(frozen=True, kw_only=True, slots=True)
class ActivationBytes:
    """Bytes per GPU of one stage, all micro-batches in flight; arrays of shape (n,)."""

    norms: FloatArray
    attention: FloatArray
    mlp: FloatArray
    experts: FloatArray
    gathered_inputs: FloatArray
    """Block inputs left gathered over the sequence-parallel group."""
    checkpoints: FloatArray
    """Saved inputs of fully recomputed layers."""
    live_layer: FloatArray
    """The one layer that full recomputation rebuilds at a time."""


def local_tokens(w: Workload) -> FloatArray:
    """Tokens of a micro-batch on one GPU after context parallelism."""
    return w.micro_batch_size * w.seq_len / w.cp


def activation_bytes(w: Workload, stage: Stage, coefficients: MemoryCoefficients) -> ActivationBytes:
    """Activations of all micro-batches in flight on one stage (arrays of shape (n,))."""
    kept = saved_token_bytes(w, coefficients)
    tokens = local_tokens(w)
    per_layer = tokens * stage.microbatches_in_flight
    full = np.where(
        w.recompute == Recompute.FULL, np.clip(w.recompute_layers / np.maximum(stage.layers, 1.0), 0.0, 1.0), 0.0
    )
    kept_layers = per_layer * (1.0 - full)
    whole = _whole_layer(stage, kept)
    return ActivationBytes(
        norms=kept_layers * stage.layers * kept.norms,
        attention=kept_layers * stage.layers * kept.attention,
        mlp=kept_layers * stage.dense_layers * kept.mlp,
        experts=kept_layers * stage.expert_layers * kept.experts,
        gathered_inputs=kept_layers * stage.layers * _gathered_inputs(w, coefficients),
        checkpoints=per_layer * full * stage.layers * 2.0 * w.hidden_size / _sequence_split(w),
        live_layer=tokens * whole * (full > 0),
    )


def saved_token_bytes(w: Workload, coefficients: MemoryCoefficients) -> TokenBytes:
    """Bytes per token that one layer saves when it is not fully recomputed (arrays of shape (n,))."""
    complete = TokenBytes(
        norms=_norms(w, coefficients), attention=_attention(w), mlp=_mlp(w), experts=_experts(w, coefficients)
    )
    operator_level = w.recompute == Recompute.OP_SELECTIVE
    share = coefficients.operator_selective_saved
    products = _matrix_products(w, coefficients)
    boundary = 2.0 * w.hidden_size / _sequence_split(w)
    return TokenBytes(
        norms=np.where(operator_level, boundary, complete.norms),
        attention=np.where(operator_level, share * products.attention, complete.attention),
        mlp=np.where(operator_level, share * products.mlp, complete.mlp),
        experts=np.where(operator_level, share * products.experts, complete.experts),
    )


def _sequence_split(w: Workload) -> FloatArray:
    return np.where(w.sequence_parallel, w.tp, 1.0)


def _whole_layer(stage: Stage, kept: TokenBytes) -> FloatArray:
    feed_forward = np.maximum(kept.mlp * (stage.dense_layers > 0), kept.experts * (stage.expert_layers > 0))
    return kept.norms + kept.attention + feed_forward


def _norms(w: Workload, coefficients: MemoryCoefficients) -> FloatArray:
    """Count inputs and outputs of the two norms (2h each), and GPT's two dropout masks (1h each)."""
    outputs = np.where(w.recompute_norm, 0.0, 4.0)
    masks = np.where(w.gated_mlp, 0.0, 2.0)
    unfused = np.where(w.fused_norm, 0.0, 2.0 * coefficients.unfused_norm_bytes)
    return (4.0 + outputs + masks + unfused) * w.hidden_size / _sequence_split(w)


def _gathered_inputs(w: Workload, coefficients: MemoryCoefficients) -> FloatArray:
    """Count what the two block inputs (2h each) take more when they stay gathered."""
    unsharded = 4.0 * w.hidden_size * (1.0 - 1.0 / _sequence_split(w))
    return np.where(w.recompute == Recompute.OP_SELECTIVE, 0.0, coefficients.gathered_input_share * unsharded)


def _attention(w: Workload) -> FloatArray:
    """Query, key, value, output; softmax statistics (fused) or score matrices (materialised)."""
    grouped = 4.0 * w.num_heads * w.head_dim + 4.0 * kv_heads_held(w) * w.head_dim
    head = w.qk_nope_head_dim + w.qk_rope_head_dim
    latent = 4.0 * w.num_heads * head + 4.0 * w.num_heads * w.v_head_dim
    latents = 4.0 * (w.q_lora_rank + w.kv_lora_rank) + 2.0 * w.qk_rope_head_dim
    score_bytes = np.where(w.gated_mlp, 4.0, 5.0)
    recomputed_core = w.recompute == Recompute.SELECTIVE
    scores = np.where(recomputed_core, 0.0, score_bytes * w.num_heads * w.seq_len)
    core = np.where(w.flash_attention, 4.0 * w.num_heads, scores)
    return (np.where(w.is_mla, latent, grouped) + core) / w.tp + np.where(w.is_mla, latents, 0.0)


def _mlp(w: Workload) -> FloatArray:
    """Plain: before and after the activation, 4f. Gated: gate, up, product, 6f."""
    hidden = np.where(w.gated_mlp, 6.0, 4.0) * w.ffn_hidden_size
    return np.where(w.recompute_mlp, 0.0, hidden / w.tp)


def expert_load(w: Workload, coefficients: MemoryCoefficients) -> FloatArray:
    """Tokens that the fullest expert rank receives over the mean."""
    dropless = np.where(w.ep > 1, coefficients.expert_imbalance, 1.0)
    return np.where(w.capacity_factor > 0, w.capacity_factor, dropless)


def _experts(w: Workload, coefficients: MemoryCoefficients) -> FloatArray:
    """Routed tokens (permuted input, hidden, output for the gate), shared experts, fp32 router scores."""
    routed = w.moe_top_k * expert_load(w, coefficients) / w.tp
    hidden = np.where(w.gated_mlp, 6.0, 4.0) * w.moe_ffn_hidden_size
    kept_hidden = np.where(w.recompute_moe, 0.0, hidden)
    permuted = 4.0 * w.hidden_size * w.expert_tp
    router = 8.0 * w.num_experts / _sequence_split(w)
    return routed * (permuted + kept_hidden) + w.num_shared_experts * kept_hidden / w.tp + router


def _matrix_products(w: Workload, coefficients: MemoryCoefficients) -> TokenBytes:
    """Count outputs of matrix products and of fused attention: the candidates of operator-level recomputation."""
    branch_output = 2.0 * w.hidden_size / _sequence_split(w)
    branches = np.where(w.gated_mlp, 2.0, 1.0)
    routed = w.moe_top_k * expert_load(w, coefficients) / w.tp
    expert = 2.0 * branches * w.moe_ffn_hidden_size + 2.0 * w.hidden_size
    return TokenBytes(
        norms=np.zeros_like(branch_output),
        attention=_attention(w) + branch_output,
        mlp=2.0 * branches * w.ffn_hidden_size / w.tp + branch_output,
        experts=routed * expert + w.num_shared_experts * expert / w.tp,
    )
