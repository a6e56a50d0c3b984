"""Parameters one GPU holds before ZeRO, by how they are sharded.

Notation: h hidden, a heads, n_kv key/value heads, d_h head width, f and g MLP widths of a dense layer and of an
expert, E experts, V vocabulary, t tensor size, e expert size, t_e tensor size inside experts.

Assumptions and error
---------------------
Biases and learned positions are left out (below 0.1 % of GPT-3). Padding of the vocabulary is the caller's.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from surrogate.analytic.memory._stages import Stage
from surrogate.analytic.workload import FloatArray, Workload


@dataclass(frozen=True, kw_only=True, slots=True)
class StageParameters:
    """Parameters per GPU of one stage; arrays of shape (n,)."""

    matrices: FloatArray
    """Attention, dense MLP and shared-expert matrices, after tensor parallelism."""
    replicated: FloatArray
    """Norms, routers and latent down-projections: not divided by tensor parallelism."""
    experts: FloatArray
    """Routed experts, after expert parallelism."""
    embedding: FloatArray
    """Embedding and head on the stages that own them, after tensor parallelism."""
    largest_unit: FloatArray
    """Parameters of the largest layer or embedding: what fully sharded training gathers at once."""

    @property
    def dense(self) -> FloatArray:
        """Everything that is sharded over the data (and context) parallel ranks."""
        return self.matrices + self.replicated + self.embedding

    @property
    def total(self) -> FloatArray:
        """All parameters of the stage on one GPU."""
        return self.dense + self.experts


def stage_parameters(w: Workload, stage: Stage) -> StageParameters:
    """Count one stage's parameters per GPU before ZeRO (arrays of shape (n,))."""
    attention, attention_replicated = _attention(w)
    mlp_matrices = np.where(w.gated_mlp, 3.0, 2.0)
    mlp = mlp_matrices * w.hidden_size * w.ffn_hidden_size / w.tp
    expert = mlp_matrices * w.hidden_size * w.moe_ffn_hidden_size
    shared = w.num_shared_experts * expert / w.tp
    routed = w.num_experts * expert / (w.ep * w.expert_tp)
    router = w.num_experts * w.hidden_size
    norms = 2.0 * w.hidden_size + attention_replicated
    table = w.vocab_size * w.hidden_size / w.tp
    tied_here = w.tied_embeddings & stage.has_embedding & stage.has_head
    copies = stage.weight_copies
    dense_unit = attention + norms + mlp
    expert_unit = attention + norms + shared + routed + router
    return StageParameters(
        matrices=copies * (stage.layers * attention + stage.dense_layers * mlp + stage.expert_layers * shared),
        replicated=copies * (stage.layers * norms + stage.expert_layers * router) + stage.has_head * w.hidden_size,
        experts=copies * stage.expert_layers * routed,
        embedding=table * (stage.has_embedding.astype(np.float64) + stage.has_head - tied_here),
        largest_unit=np.maximum(
            np.where(
                stage.expert_layers > 0, np.maximum(expert_unit, dense_unit * (stage.dense_layers > 0)), dense_unit
            ),
            table * (stage.has_embedding | stage.has_head),
        ),
    )


def _attention(w: Workload) -> tuple[FloatArray, FloatArray]:
    """Matrix parameters per layer after tensor parallelism, and those that are replicated."""
    grouped = w.hidden_size * w.head_dim * (2.0 * w.num_heads + 2.0 * kv_heads_held(w))
    query_rank = np.where(w.q_lora_rank > 0, w.q_lora_rank, w.hidden_size)
    up = w.num_heads * (
        query_rank * (w.qk_nope_head_dim + w.qk_rope_head_dim)
        + w.kv_lora_rank * (w.qk_nope_head_dim + w.v_head_dim)
        + w.v_head_dim * w.hidden_size
    )
    down = w.hidden_size * (w.q_lora_rank + w.kv_lora_rank + w.qk_rope_head_dim) + w.q_lora_rank + w.kv_lora_rank
    return np.where(w.is_mla, up, grouped) / w.tp, np.where(w.is_mla, down, 0.0)


def kv_heads_held(w: Workload) -> FloatArray:
    """Key/value heads counted over the tensor group: replicated up to one per rank."""
    return np.maximum(w.num_kv_heads, np.minimum(w.tp, w.num_heads))
