"""Parameters and model FLOPs of every row, by the convention of the shipped table.

The convention is the one under which publications are compared: no biases, norms or position tables; the embedding
counted once when tied or unknown; causal attention not halved, windows ignored, no recompute, no extra
multi-token-prediction layer. The analytic model counts more finely.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pandas as pd

from surrogate.analytic import parameters
from surrogate.analytic.workload import BoolArray, FloatArray

_TRAINING_FLOPS_PER_FORWARD_FLOP = 3.0
"""Forward plus a backward of twice its cost."""


class Architecture(NamedTuple):
    """Sizes of n rows as floats, with the standard meaning filled in where a size is not given."""

    num_layers: FloatArray
    hidden_size: FloatArray
    num_heads: FloatArray
    num_kv_heads: FloatArray
    head_dim: FloatArray
    ffn_hidden_size: FloatArray
    gated: BoolArray
    vocab_size: FloatArray
    seq_len: FloatArray
    tied_or_unknown: BoolArray
    is_mla: BoolArray
    q_lora_rank: FloatArray
    kv_lora_rank: FloatArray
    qk_nope_head_dim: FloatArray
    qk_rope_head_dim: FloatArray
    v_head_dim: FloatArray
    num_experts: FloatArray
    moe_top_k: FloatArray
    moe_ffn_hidden_size: FloatArray
    num_shared_experts: FloatArray
    num_dense_layers: FloatArray


def architecture_of(runs: pd.DataFrame) -> Architecture:
    """Return the sizes of canonical rows.

    Parameters
    ----------
    runs : DataFrame of shape (n, columns)
        Canonical columns.

    Notes
    -----
    Filled in where not given: key/value heads = heads; head width = hidden / heads; MLP width = 4 hidden without a
    gate (a gated MLP of 8/3 hidden has as many weights); gate absent; vocabulary 0, so the head is left out; dense.
    """
    hidden, heads, layers = (_numbers(runs, name) for name in ("hidden_size", "num_heads", "num_layers"))
    ffn = _numbers(runs, "ffn_hidden_size")
    num_experts = _numbers(runs, "num_experts", 0.0)
    no_mlp_given = np.isnan(ffn)
    return Architecture(
        num_layers=layers,
        hidden_size=hidden,
        num_heads=heads,
        num_kv_heads=_numbers(runs, "num_kv_heads", heads),
        head_dim=_numbers(runs, "head_dim", hidden / heads),
        ffn_hidden_size=np.where(no_mlp_given, 4.0 * hidden, ffn),
        gated=(runs["gated_mlp"] == True).to_numpy(dtype=bool, na_value=False) & ~no_mlp_given,  # noqa: E712
        vocab_size=_numbers(runs, "vocab_size", 0.0),
        seq_len=_numbers(runs, "seq_len"),
        tied_or_unknown=runs["tied_embeddings"].fillna(True).to_numpy(dtype=bool),
        is_mla=(runs["attention"] == "mla").to_numpy(dtype=bool),
        **{name: _numbers(runs, name, 0.0) for name in _MLA_WIDTHS},
        num_experts=num_experts,
        moe_top_k=_numbers(runs, "moe_top_k", 0.0),
        moe_ffn_hidden_size=_numbers(runs, "moe_ffn_hidden_size", 0.0),
        num_shared_experts=_numbers(runs, "num_shared_experts", 0.0),
        num_dense_layers=_numbers(runs, "num_dense_layers", np.where(num_experts > 0, 0.0, layers)),
    )


_MLA_WIDTHS = ("q_lora_rank", "kv_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim")


def _numbers(runs: pd.DataFrame, name: str, missing: float | FloatArray = np.nan) -> FloatArray:
    values = runs[name].to_numpy(dtype=np.float64, na_value=np.nan)
    return np.where(np.isnan(values), missing, values)


def attention_parameters(a: Architecture) -> FloatArray:
    """Return the attention weights of one layer, shape (n,)."""
    size = {"hidden_size": a.hidden_size, "num_heads": a.num_heads}
    plain = parameters.attention_parameters(**size, num_kv_heads=a.num_kv_heads, head_dim=a.head_dim)
    latent = (
        parameters.mla_down_parameters(
            hidden_size=a.hidden_size,
            q_lora_rank=a.q_lora_rank,
            kv_lora_rank=a.kv_lora_rank,
            qk_rope_head_dim=a.qk_rope_head_dim,
        )
        + parameters.mla_query_up_parameters(
            **size, q_lora_rank=a.q_lora_rank, qk_head_dim=a.qk_nope_head_dim + a.qk_rope_head_dim
        )
        + parameters.mla_key_value_up_parameters(
            num_heads=a.num_heads,
            kv_lora_rank=a.kv_lora_rank,
            qk_nope_head_dim=a.qk_nope_head_dim,
            v_head_dim=a.v_head_dim,
        )
        + parameters.mla_output_parameters(**size, v_head_dim=a.v_head_dim)
    )
    return np.where(a.is_mla, latent, plain)


def total_parameters(a: Architecture) -> FloatArray:
    """Return all parameters of the model, shape (n,)."""
    embeddings = parameters.embedding_and_head_parameters(
        hidden_size=a.hidden_size, vocab_size=a.vocab_size, tied=a.tied_or_unknown
    )
    return _layers(a, experts_per_layer=a.num_experts) + embeddings


def active_layer_parameters(a: Architecture) -> FloatArray:
    """Return the parameters of the layers that one token uses, shape (n,)."""
    return _layers(a, experts_per_layer=a.moe_top_k)


def _layers(a: Architecture, *, experts_per_layer: FloatArray) -> FloatArray:
    """Return the weights of all layers with the given number of routed experts per expert layer."""
    dense = parameters.mlp_parameters(hidden_size=a.hidden_size, ffn_hidden_size=a.ffn_hidden_size, gated=a.gated)
    moe = expert_block_parameters(a, experts_per_layer=experts_per_layer)
    dense_layers = np.where(a.num_experts > 0, a.num_dense_layers, a.num_layers)
    return a.num_layers * attention_parameters(a) + dense_layers * dense + (a.num_layers - dense_layers) * moe


def expert_block_parameters(a: Architecture, *, experts_per_layer: FloatArray) -> FloatArray:
    """Return the weights of one expert layer's MLP: routed and shared experts and the router, shape (n,)."""
    expert = parameters.mlp_parameters(hidden_size=a.hidden_size, ffn_hidden_size=a.moe_ffn_hidden_size, gated=a.gated)
    router = parameters.router_parameters(hidden_size=a.hidden_size, num_experts=a.num_experts, has_bias=False)
    return (experts_per_layer + a.num_shared_experts) * expert + router


def attention_core_flops_per_token(a: Architecture) -> FloatArray:
    """Return the training FLOPs of the attention core per token, not halved for causality, shape (n,).

    Notes
    -----
    ``12 L A s`` with A the mean width of queries-keys and values over all heads.
    """
    latent_width = 0.5 * (a.qk_nope_head_dim + a.qk_rope_head_dim + a.v_head_dim)
    width = a.num_heads * np.where(a.is_mla, latent_width, a.head_dim)
    return 4.0 * _TRAINING_FLOPS_PER_FORWARD_FLOP * a.num_layers * width * a.seq_len


def matrix_flops_per_token(a: Architecture) -> FloatArray:
    """Return the training FLOPs of layers and head per token without the attention core, shape (n,).

    Notes
    -----
    ``6 (active layer parameters + V h)``.
    """
    head = a.vocab_size * a.hidden_size
    return 2.0 * _TRAINING_FLOPS_PER_FORWARD_FLOP * (active_layer_parameters(a) + head)


def model_flops_per_token(a: Architecture) -> FloatArray:
    """Return the model FLOPs of one trained token, shape (n,).

    References
    ----------
    PaLM, arXiv 2204.02311, appendix B.
    """
    return matrix_flops_per_token(a) + attention_core_flops_per_token(a)
