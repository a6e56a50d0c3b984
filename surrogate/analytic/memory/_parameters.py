"""Parameters one GPU of any stage holds before ZeRO, by how they are sharded; per-layer counts are the model's.

Assumptions and error
---------------------
Biases and learned positions are left out (below 0.1 % of GPT-3). Padding of the vocabulary is the caller's.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from surrogate.analytic.memory._stages import Stage
from surrogate.analytic.model_parameters import layer_parameters
from surrogate.analytic.workload import FloatArray, Workload


@dataclass(frozen=True, kw_only=True, slots=True)
class HeldParameters:
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


def held_parameters(w: Workload, stage: Stage) -> HeldParameters:
    """Count one stage's parameters per GPU before ZeRO (arrays of shape (n,))."""
    layer = layer_parameters(w)
    replicated_heads = kv_heads_held(w) - w.num_kv_heads
    extra_heads = np.where(w.is_mla, 0.0, 2.0 * w.hidden_size * w.head_dim * replicated_heads)
    attention = (layer.attention_divided + extra_heads) / w.tp
    mlp = layer.dense_mlp / w.tp
    shared = layer.shared_experts / w.tp
    routed = w.num_experts * layer.expert / (w.ep * w.expert_tp)
    router = layer.router
    norms = layer.norms + layer.attention_whole
    table = w.vocab_size * w.hidden_size / w.tp
    tied_here = w.tied_embeddings & stage.has_embedding & stage.has_head
    copies = stage.weight_copies
    dense_unit = attention + norms + mlp
    expert_unit = attention + norms + shared + routed + router
    return HeldParameters(
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


def kv_heads_held(w: Workload) -> FloatArray:
    """Key/value heads counted over the tensor group: replicated up to one per rank."""
    return np.maximum(w.num_kv_heads, np.minimum(w.tp, w.num_heads))
