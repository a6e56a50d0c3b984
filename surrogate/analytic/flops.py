"""Forward FLOPs by operator: elementary formulas for n tokens, then per token of a workload.

A multiply-add counts 2. Backward passes of matrix products cost twice the forward pass. `kappa` is the counted
share of the score matrix: 1 for the whole of it (the convention of the runs table), `causal_fraction` for what a
causal kernel that skips blocks executes. Norms, softmax and activations are counted by bytes (`compute_bytes`).
Notation as in `parameters`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from surrogate.analytic.arrays import BoolLike, FloatLike, as_floats
from surrogate.analytic.model_parameters import layer_parameters
from surrogate.analytic.workload import FloatArray, Workload

FORWARD_AND_BACKWARD = 3.0
"""Model FLOPs of a step over its forward FLOPs: one forward pass, two products per product in backward."""


def matrix_flops(*, num_tokens: FloatLike, num_parameters: FloatLike) -> FloatArray:
    """Return the forward FLOPs of multiplying tokens by a weight matrix.

    Parameters
    ----------
    num_tokens, num_parameters : array_like, shape (n,)
        Tokens and weights of the matrix.

    Returns
    -------
    ndarray, shape (n,)
        FLOPs.

    Notes
    -----
    ``2 n P``: a multiplication and an addition per weight and token.

    References
    ----------
    PaLM, arXiv 2204.02311, appendix B.

    Examples
    --------
    Projections of one layer of Llama 3 8B over 8192 tokens.

    >>> int(matrix_flops(num_tokens=8192, num_parameters=41943040))
    687194767360
    """
    return as_floats(2.0 * num_tokens * num_parameters)


def causal_fraction(*, seq_len: FloatLike) -> FloatArray:
    """Return the share of the score matrix on and below the diagonal.

    Parameters
    ----------
    seq_len : array_like, shape (n,)
        Tokens of a sequence.

    Returns
    -------
    ndarray, shape (n,)
        Fraction, slightly above one half.

    Notes
    -----
    ``(1 + 1 / s) / 2``.

    References
    ----------
    FlashAttention-2, arXiv 2307.08691, section 3.1.

    Examples
    --------
    >>> float(causal_fraction(seq_len=4))
    0.625
    """
    return as_floats(0.5 * (1.0 + 1.0 / as_floats(seq_len)))


def causal_keys_per_query(*, seq_len: FloatLike, window: FloatLike) -> FloatArray:
    """Return the mean number of keys a query attends to under causal masking and a sliding window.

    Parameters
    ----------
    seq_len, window : array_like, shape (n,)
        Tokens of a sequence and of the window; no window is ``window >= seq_len``.

    Returns
    -------
    ndarray, shape (n,)
        Mean keys per query.

    Notes
    -----
    Query i sees min(i, w) keys; the mean is ``w (1 - (w - 1) / (2 s))`` with ``w <= s``; for ``w = s`` that is
    ``(s + 1) / 2``.

    References
    ----------
    Longformer, arXiv 2004.05150 (windowed attention); the mean is a sum of integers.

    Examples
    --------
    s = 4, w = 2: (1 + 2 + 2 + 2) / 4.

    >>> float(causal_keys_per_query(seq_len=4, window=2))
    1.75
    """
    width = np.minimum(window, seq_len)
    return as_floats(width * (1.0 - (width - 1.0) / (2.0 * as_floats(seq_len))))


def attention_core_flops(
    *, num_tokens: FloatLike, keys_per_query: FloatLike, num_heads: FloatLike, head_dim: FloatLike
) -> FloatArray:
    """Return the forward FLOPs of the two products of attention, scores and values.

    Parameters
    ----------
    num_tokens : array_like, shape (n,)
        Queries.
    keys_per_query : array_like, shape (n,)
        ``s kappa``: the sequence length, or `causal_keys_per_query`.
    num_heads, head_dim : array_like, shape (n,)
        Query heads and their width.

    Returns
    -------
    ndarray, shape (n,)
        FLOPs.

    Notes
    -----
    ``4 n s kappa a d_h``.

    References
    ----------
    FlashAttention-2, arXiv 2307.08691, section 4.1.

    Examples
    --------
    Llama 3 8B, one sequence of 8192, causal.

    >>> int(attention_core_flops(num_tokens=8192, keys_per_query=8192 / 2, num_heads=32, head_dim=128))
    549755813888
    """
    return as_floats(4.0 * num_tokens * keys_per_query * num_heads * head_dim)


def mla_core_flops(
    *,
    num_tokens: FloatLike,
    keys_per_query: FloatLike,
    num_heads: FloatLike,
    qk_head_dim: FloatLike,
    v_head_dim: FloatLike,
) -> FloatArray:
    """Return the forward FLOPs of the two products of multi-head latent attention in training.

    Parameters
    ----------
    num_tokens, keys_per_query, num_heads : array_like, shape (n,)
        As for `attention_core_flops`.
    qk_head_dim, v_head_dim : array_like, shape (n,)
        Width of a head's queries and keys ``d_n + d_r``, and of its values.

    Returns
    -------
    ndarray, shape (n,)
        FLOPs.

    Notes
    -----
    ``2 n s kappa a (d_n + d_r + d_v)``.

    References
    ----------
    DeepSeek-V2, arXiv 2405.04434, section 2.1.

    Examples
    --------
    >>> int(mla_core_flops(num_tokens=1, keys_per_query=4096, num_heads=128, qk_head_dim=192, v_head_dim=128))
    335544320
    """
    return as_floats(2.0 * num_tokens * keys_per_query * num_heads * (qk_head_dim + v_head_dim))


def mlp_flops(
    *, num_tokens: FloatLike, hidden_size: FloatLike, ffn_hidden_size: FloatLike, gated: BoolLike
) -> FloatArray:
    """Return the forward FLOPs of one MLP.

    Parameters
    ----------
    num_tokens, hidden_size, ffn_hidden_size : array_like, shape (n,)
        Tokens, outer and inner width.
    gated : array_like of bool, shape (n,)
        Whether it has a gate matrix.

    Returns
    -------
    ndarray, shape (n,)
        FLOPs.

    Notes
    -----
    ``4 n h f`` plain, ``6 n h f`` gated.

    References
    ----------
    GLU variants, arXiv 2002.05202.

    Examples
    --------
    >>> int(mlp_flops(num_tokens=8192, hidden_size=4096, ffn_hidden_size=14336, gated=True))
    2886218022912
    """
    return as_floats((4.0 + 2.0 * as_floats(gated)) * num_tokens * hidden_size * ffn_hidden_size)


def routed_experts_flops(
    *, num_tokens: FloatLike, mlp_flops_per_token: FloatLike, top_k: FloatLike, load_imbalance: FloatLike
) -> FloatArray:
    """Return the forward FLOPs of the routed experts for the tokens of one rank.

    Parameters
    ----------
    num_tokens : array_like, shape (n,)
        Tokens that are routed.
    mlp_flops_per_token : array_like, shape (n,)
        FLOPs of one expert and token.
    top_k : array_like, shape (n,)
        Experts per token.
    load_imbalance : array_like, shape (n,)
        Tokens of the busiest rank over the mean, >= 1; the capacity factor when tokens are padded to it.

    Returns
    -------
    ndarray, shape (n,)
        FLOPs.

    Notes
    -----
    ``6 n h g k lambda`` for gated experts.

    References
    ----------
    GShard, arXiv 2006.16668 (capacity); MegaBlocks, arXiv 2211.15841 (dropless).

    Examples
    --------
    Mixtral 8x7B: two of eight experts of 6 * 4096 * 14336 FLOPs.

    >>> int(routed_experts_flops(num_tokens=1, mlp_flops_per_token=352321536, top_k=2, load_imbalance=1.0))
    704643072
    """
    return as_floats(num_tokens * mlp_flops_per_token * top_k * load_imbalance)


class LayerFlops(NamedTuple):
    """Forward FLOPs per token of one layer of the kind that has the piece, each of shape (n,)."""

    projections: FloatArray
    core_full: FloatArray
    """Attention core over the whole score matrix (kappa = 1); mean over layers with and without a window."""
    core_causal: FloatArray
    """Attention core below the diagonal; mean over layers with and without a window."""
    dense_mlp: FloatArray
    routed_experts: FloatArray
    shared_experts: FloatArray
    router: FloatArray


class ForwardFlops(NamedTuple):
    """Forward FLOPs per token of the whole model by operator class, each of shape (n,)."""

    qkv_and_projection: FloatArray
    attention_core_full: FloatArray
    attention_core_causal: FloatArray
    mlp: FloatArray
    experts_routed: FloatArray
    experts_shared: FloatArray
    router: FloatArray
    head: FloatArray
    mtp: FloatArray
    """Multi-token-prediction layers with their projection, causal attention and head."""

    @property
    def matrix_products(self) -> FloatArray:
        """All but the attention core."""
        experts = self.experts_routed + self.experts_shared + self.router
        return self.qkv_and_projection + self.mlp + experts + self.head + self.mtp

    @property
    def total_full(self) -> FloatArray:
        """All classes with kappa = 1."""
        return self.matrix_products + self.attention_core_full

    @property
    def total_causal(self) -> FloatArray:
        """All classes with causal attention."""
        return self.matrix_products + self.attention_core_causal


def layer_flops_per_token(w: Workload) -> LayerFlops:
    """Return the forward FLOPs per token of one layer, before any division over GPUs.

    Parameters
    ----------
    w : Workload
        n configurations.

    Returns
    -------
    LayerFlops
        FLOPs of shape (n,).

    Notes
    -----
    ``2 P`` for matrices, ``2 s kappa a (d_qk + d_v)`` for the core. Windowed layers attend ``min(s, w)`` keys, or
    the causal mean of that; capacity and imbalance of experts are left to the caller.
    """
    layer = layer_parameters(w)
    latent_width = w.qk_nope_head_dim + w.qk_rope_head_dim + w.v_head_dim
    per_key = 2.0 * w.num_heads * (latent_width + ~w.is_mla * 2.0 * w.head_dim)
    whole = 1.0 - w.windowed_layers_fraction
    window = np.minimum(w.sliding_window, w.seq_len)
    keys_full = whole * w.seq_len + w.windowed_layers_fraction * window
    keys_causal = whole * 0.5 * (w.seq_len + 1.0) + w.windowed_layers_fraction * causal_keys_per_query(
        seq_len=w.seq_len, window=window
    )
    return LayerFlops(
        projections=2.0 * layer.attention_matrices,
        core_full=per_key * keys_full,
        core_causal=per_key * keys_causal,
        dense_mlp=2.0 * layer.dense_mlp,
        routed_experts=2.0 * w.moe_top_k * layer.expert,
        shared_experts=2.0 * layer.shared_experts,
        router=2.0 * layer.router,
    )


def forward_flops_per_token(w: Workload) -> ForwardFlops:
    """Return the forward FLOPs per token of the model by operator class.

    Parameters
    ----------
    w : Workload
        n configurations.

    Returns
    -------
    ForwardFlops
        FLOPs of shape (n,).

    Notes
    -----
    Sum of `layer_flops_per_token` over dense and expert layers, ``2 h V`` for the head, and for every
    multi-token-prediction layer one more layer, a ``2h -> h`` product and one more head.

    References
    ----------
    DeepSeek-V3, arXiv 2412.19437, section 2.2 (multi-token prediction).

    Examples
    --------
    Llama 3 8B at s = 8192: 17.16 GFLOP forward causal, 51.47 for training.
    """
    layer = layer_flops_per_token(w)
    moe_layers = w.num_layers - w.num_dense_layers
    head = 2.0 * w.hidden_size * w.vocab_size
    experts = layer.routed_experts + layer.shared_experts + layer.router
    block = experts + (w.num_experts == 0.0) * layer.dense_mlp
    prediction = layer.projections + layer.core_causal + block + 4.0 * w.hidden_size**2 + head
    return ForwardFlops(
        qkv_and_projection=w.num_layers * layer.projections,
        attention_core_full=w.num_layers * layer.core_full,
        attention_core_causal=w.num_layers * layer.core_causal,
        mlp=w.num_dense_layers * layer.dense_mlp,
        experts_routed=moe_layers * layer.routed_experts,
        experts_shared=moe_layers * layer.shared_experts,
        router=moe_layers * layer.router,
        head=head,
        mtp=w.num_mtp_layers * prediction,
    )
