"""Loss, embedding, communication, gathered parameters and what lies outside the allocator."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from surrogate.analytic.memory._activations import expert_load, local_tokens
from surrogate.analytic.memory._coefficients import MemoryCoefficients
from surrogate.analytic.memory._parameters import HeldParameters
from surrogate.analytic.memory._stages import Stage
from surrogate.analytic.memory._static import weight_bytes_per_parameter
from surrogate.analytic.workload import FloatArray, Workload


@dataclass(frozen=True, kw_only=True, slots=True)
class BufferBytes:
    """Bytes per GPU of one stage; arrays of shape (n,)."""

    logits: FloatArray
    """Head input, logits and their gradient, on the stage that owns the head."""
    embedding_mask: FloatArray
    """Dropout mask after the embedding, one per micro-batch in flight (plain-MLP models)."""
    transient: FloatArray
    """Widest activation and its gradient inside one backward step."""
    communication: FloatArray
    """Gathered sequences, pipeline and expert exchange tensors, gradient buckets."""
    gathered_parameters: FloatArray
    """Fully sharded training: two gathered units and one full gradient, or the whole stage under a pipeline."""
    context: FloatArray
    """Driver context and communicator buffers; outside the framework's allocator."""


def buffer_bytes(
    w: Workload, stage: Stage, parameters: HeldParameters, coefficients: MemoryCoefficients
) -> BufferBytes:
    """All buffers of one stage (arrays of shape (n,))."""
    tokens = local_tokens(w)
    sequence_tokens = tokens / np.where(w.sequence_parallel, w.tp, 1.0)
    per_logit = coefficients.logits_bytes + w.compiled * (
        coefficients.compiled_logits_bytes - coefficients.logits_bytes
    )
    logits = per_logit * tokens * w.vocab_size / w.tp + 4.0 * sequence_tokens * w.hidden_size
    widest = np.maximum(w.hidden_size, np.where(w.gated_mlp, 2.0, 1.0) * _widest_mlp(w) / w.tp)
    mask = np.where(w.gated_mlp, 0.0, sequence_tokens * w.hidden_size * stage.microbatches_in_flight)
    return BufferBytes(
        logits=np.where(stage.has_head, logits * (1.0 + w.num_mtp_layers), 0.0),
        embedding_mask=np.where(stage.has_embedding, mask, 0.0),
        transient=coefficients.transient_bytes * tokens * widest,
        communication=_exchange(w, tokens, sequence_tokens, coefficients) + _buckets(w, parameters, coefficients),
        gathered_parameters=_gathered(w, parameters),
        context=coefficients.context_bytes + coefficients.communicator_bytes * _num_communicators(w),
    )


def _widest_mlp(w: Workload) -> FloatArray:
    return np.maximum(w.ffn_hidden_size, w.moe_top_k * w.moe_ffn_hidden_size)


def _exchange(
    w: Workload, tokens: FloatArray, sequence_tokens: FloatArray, coefficients: MemoryCoefficients
) -> FloatArray:
    hidden_bytes = 2.0 * w.hidden_size
    gathered = np.where(w.sequence_parallel & (w.tp > 1), hidden_bytes * tokens, 0.0)
    pipeline = np.where(w.pp > 1, 2.0 * hidden_bytes * sequence_tokens, 0.0)
    routed = hidden_bytes * tokens * w.moe_top_k * expert_load(w, coefficients) / w.tp
    experts = np.where(w.ep > 1, 2.0 * routed, 0.0)
    kv_block = 4.0 * w.num_kv_heads * w.head_dim * tokens / w.tp
    context = np.where(w.cp > 1, 2.0 * kv_block, 0.0)
    return gathered + pipeline + experts + context


def _buckets(w: Workload, parameters: HeldParameters, coefficients: MemoryCoefficients) -> FloatArray:
    """Two gradient buckets, never more than the gradients themselves."""
    bucket = np.minimum(2.0 * coefficients.bucket_bytes, w.grad_bytes * parameters.total)
    return np.where((w.zero_stage >= 1) & (w.zero_stage < 3) & (w.dp * w.cp > 1), bucket, 0.0)


def _gathered(w: Workload, parameters: HeldParameters) -> FloatArray:
    """Fully sharded training gathers unit by unit; under a pipeline the stage stays gathered for the whole step."""
    weight = weight_bytes_per_parameter(w)
    by_unit = (2.0 * weight + w.grad_bytes) * parameters.largest_unit
    resident = (weight + w.grad_bytes) * parameters.total
    return np.where(w.zero_stage < 3, 0.0, np.where(w.pp > 1, np.maximum(by_unit, resident), by_unit))


def _num_communicators(w: Workload) -> FloatArray:
    count = np.zeros_like(w.tp)
    for size in (w.tp, w.pp, w.cp, w.dp, w.ep):
        count = count + (size > 1)
    return count
