"""Device memory traffic of what is not a matrix product: norms, residuals, activations, rotations, softmax.

Bytes are reads plus writes of 16-bit elements in the forward pass; backward moves about twice as much. Matrix
products move ``x (M K + K N + M N)`` (`operators.matrix_product_bytes`) and are bound by arithmetic.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from surrogate.analytic.arrays import BoolLike, FloatLike, as_floats
from surrogate.analytic.workload import FloatArray, Workload

ELEMENT_BYTES = 2.0
"""16-bit activations, whatever the precision of the matrix products."""
FUSED_NORM_BYTES = 4.0
"""Read and write one 16-bit element."""
UNFUSED_NORM_BYTES = 28.0
"""Cast (2 + 4), square and mean (4), scale (4 + 4), cast back (4 + 2), weight (2 + 2), in fp32 in between."""
RESIDUAL_BYTES = 6.0
"""Read two 16-bit elements, write one."""


class ElementwiseBytes(NamedTuple):
    """Forward bytes per local token and average layer on one GPU, each of shape (n,)."""

    norm: FloatArray
    residual: FloatArray
    activation: FloatArray
    rotary: FloatArray
    routing: FloatArray
    """Permutation of tokens to experts and back, and router probabilities."""
    attention_scores: FloatArray
    """Scores and probabilities; 0 for fused attention."""

    @property
    def total(self) -> FloatArray:
        """All of them."""
        blocks = self.norm + self.residual + self.activation
        return blocks + self.rotary + self.routing + self.attention_scores


def norm_bytes_per_token(*, hidden_size: FloatLike, fused: BoolLike) -> FloatArray:
    """Return the forward bytes of one norm.

    Parameters
    ----------
    hidden_size : array_like, shape (n,)
        Width.
    fused : array_like of bool, shape (n,)
        One kernel, or a chain of element-wise operations in fp32.

    Returns
    -------
    ndarray, shape (n,)
        Bytes per token.

    Notes
    -----
    ``4 h`` fused; ``28 h`` for the chain cast, square and mean, scale, cast, weight.

    References
    ----------
    Reads and writes counted from RMSNorm, arXiv 1910.07467, equation 4.

    Examples
    --------
    >>> [float(norm_bytes_per_token(hidden_size=1024, fused=fused)) for fused in (True, False)]
    [4096.0, 28672.0]
    """
    return as_floats(np.where(fused, FUSED_NORM_BYTES, UNFUSED_NORM_BYTES) * hidden_size)


def attention_score_bytes_per_token(*, seq_len: FloatLike, num_heads: FloatLike, flash: BoolLike) -> FloatArray:
    """Return the forward bytes of an unfused softmax over the scores.

    Parameters
    ----------
    seq_len, num_heads : array_like, shape (n,)
        Keys of a query and query heads on the rank.
    flash : array_like of bool, shape (n,)
        Whether attention is fused and scores never reach memory.

    Returns
    -------
    ndarray, shape (n,)
        Bytes per token.

    Notes
    -----
    ``2 x 2 a s``: one read and one write of 16-bit scores, i.e. ``2 x 2 b a s^2`` per sequence. Writing the scores,
    scaling, masking and reading the probabilities multiply this by 2 to 3 in unfused implementations (calibrated).

    References
    ----------
    FlashAttention, arXiv 2205.14135, section 2.2.

    Examples
    --------
    >>> float(attention_score_bytes_per_token(seq_len=2048, num_heads=16, flash=False))
    131072.0
    """
    unfused = 2.0 * ELEMENT_BYTES * as_floats(num_heads) * seq_len
    return as_floats(np.where(flash, 0.0, unfused))


def activation_bytes_per_token(*, ffn_hidden_size: FloatLike, gated: BoolLike) -> FloatArray:
    """Return the forward bytes of the activation function of an MLP.

    Parameters
    ----------
    ffn_hidden_size : array_like, shape (n,)
        Inner width on the rank.
    gated : array_like of bool, shape (n,)
        Reads gate and value and writes their product (SwiGLU), or one in and one out (GELU).

    Returns
    -------
    ndarray, shape (n,)
        Bytes per token.

    Notes
    -----
    ``6 f`` gated, ``4 f`` plain, one fused kernel.

    References
    ----------
    Reads and writes counted from arXiv 2002.05202.

    Examples
    --------
    >>> [float(activation_bytes_per_token(ffn_hidden_size=100, gated=gated)) for gated in (True, False)]
    [600.0, 400.0]
    """
    return as_floats(ELEMENT_BYTES * np.where(gated, 3.0, 2.0) * ffn_hidden_size)


def elementwise_bytes_per_token(w: Workload) -> ElementwiseBytes:
    """Return the forward bytes of all element-wise work of an average layer on one GPU.

    Parameters
    ----------
    w : Workload
        n configurations.

    Returns
    -------
    ElementwiseBytes
        Bytes per local token (``b s / c`` tokens per micro-batch) of shape (n,).

    Notes
    -----
    Two norms and two residuals, divided by t with sequence parallelism only; activation, rotation of queries and
    keys, and scores divided by t; for expert layers a permutation and its inverse, ``2 (2 h + 2 h)`` per copy,
    router probabilities of ``8 E`` bytes, and the activation of ``k + n_s`` experts.

    Assumptions: one kernel per operation, no dropout. Windowed layers have scores over the window only.
    """
    shards = np.where(w.sequence_parallel, w.tp, 1.0)
    moe_share = 1.0 - w.num_dense_layers / w.num_layers
    keys = w.seq_len - w.windowed_layers_fraction * (w.seq_len - np.minimum(w.sliding_window, w.seq_len))
    scores = attention_score_bytes_per_token(seq_len=keys, num_heads=w.num_heads / w.tp, flash=w.flash_attention)
    rotated = np.where(
        w.is_mla, w.num_heads * w.qk_rope_head_dim + w.qk_rope_head_dim, (w.num_heads + w.num_kv_heads) * w.head_dim
    )
    dense = activation_bytes_per_token(ffn_hidden_size=w.ffn_hidden_size, gated=w.gated_mlp) / w.tp
    expert = activation_bytes_per_token(ffn_hidden_size=w.moe_ffn_hidden_size, gated=w.gated_mlp)
    routed = w.moe_top_k * expert / shards + w.num_shared_experts * expert / w.tp
    permuted = (8.0 * w.moe_top_k * w.hidden_size + 8.0 * w.num_experts) / shards
    return ElementwiseBytes(
        norm=2.0 * norm_bytes_per_token(hidden_size=w.hidden_size, fused=w.fused_norm) / shards,
        residual=2.0 * RESIDUAL_BYTES * w.hidden_size / shards,
        activation=(1.0 - moe_share) * dense + moe_share * routed,
        rotary=2.0 * ELEMENT_BYTES * rotated / w.tp,
        routing=moe_share * permuted,
        attention_scores=scores,
    )
