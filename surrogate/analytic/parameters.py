"""Parameter counts of decoder-only transformers, matrix by matrix.

Notation of the formulas: L layers, h hidden size, a query heads, n_kv key/value heads, d_h head width, f width of
a dense MLP, g of one expert, E routed experts, k experts per token, n_s shared experts, V vocabulary, s sequence
length; MLA: r_q and r_kv latents, d_n head width without rope, d_r with rope, d_v value width.
Counts of whole models and of one GPU follow in `model_parameters`.
"""

from __future__ import annotations

import numpy as np

from surrogate.analytic.arrays import BoolLike, FloatLike, as_floats
from surrogate.analytic.workload import FloatArray


def attention_parameters(
    *, hidden_size: FloatLike, num_heads: FloatLike, num_kv_heads: FloatLike, head_dim: FloatLike
) -> FloatArray:
    """Return the weights of the query, key, value and output projections of one layer.

    Parameters
    ----------
    hidden_size, num_heads, num_kv_heads, head_dim : array_like, shape (n,)
        Architecture; `num_kv_heads` is `num_heads` for MHA, fewer for GQA and 1 for MQA.

    Returns
    -------
    ndarray, shape (n,)
        Parameters.

    Notes
    -----
    ``h d_h (2 a + 2 n_kv)``; exact, biases apart.

    References
    ----------
    GQA, arXiv 2305.13245.

    Examples
    --------
    Llama 3 8B: 4096 * 128 * (2 * 32 + 2 * 8).

    >>> int(attention_parameters(hidden_size=4096, num_heads=32, num_kv_heads=8, head_dim=128))
    41943040
    """
    return as_floats(hidden_size * head_dim * (2.0 * num_heads + 2.0 * num_kv_heads))


def mla_down_parameters(
    *, hidden_size: FloatLike, q_lora_rank: FloatLike, kv_lora_rank: FloatLike, qk_rope_head_dim: FloatLike
) -> FloatArray:
    """Return the weights of the MLA projections into the latents: the part tensor parallelism does not divide.

    Parameters
    ----------
    hidden_size, q_lora_rank, kv_lora_rank, qk_rope_head_dim : array_like, shape (n,)
        Architecture; `q_lora_rank` is 0 without a query latent.

    Returns
    -------
    ndarray, shape (n,)
        Parameters.

    Notes
    -----
    ``h (r_q + r_kv + d_r)``; the norms of the latents add ``r_q + r_kv``.

    References
    ----------
    DeepSeek-V2, arXiv 2405.04434, section 2.1.

    Examples
    --------
    DeepSeek-V3: 7168 * (1536 + 512 + 64).

    >>> int(mla_down_parameters(hidden_size=7168, q_lora_rank=1536, kv_lora_rank=512, qk_rope_head_dim=64))
    15138816
    """
    return as_floats(hidden_size * (q_lora_rank + kv_lora_rank + qk_rope_head_dim))


def mla_query_up_parameters(
    *, hidden_size: FloatLike, num_heads: FloatLike, q_lora_rank: FloatLike, qk_head_dim: FloatLike
) -> FloatArray:
    """Return the weights of the MLA query projection, from the latent or, without one, from the hidden state.

    Parameters
    ----------
    hidden_size, num_heads, q_lora_rank : array_like, shape (n,)
        Architecture; `q_lora_rank` is 0 without a query latent.
    qk_head_dim : array_like, shape (n,)
        Whole query width of a head, ``d_n + d_r``.

    Returns
    -------
    ndarray, shape (n,)
        Parameters.

    Notes
    -----
    ``r_q a (d_n + d_r)``, with ``h`` in the place of ``r_q`` when that is 0.

    References
    ----------
    DeepSeek-V2, arXiv 2405.04434, section 2.1.

    Examples
    --------
    DeepSeek-V3: 1536 * 128 * 192.

    >>> int(mla_query_up_parameters(hidden_size=7168, num_heads=128, q_lora_rank=1536, qk_head_dim=192))
    37748736
    """
    width = q_lora_rank + np.equal(q_lora_rank, 0) * hidden_size
    return as_floats(width * num_heads * qk_head_dim)


def mla_key_value_up_parameters(
    *, num_heads: FloatLike, kv_lora_rank: FloatLike, qk_nope_head_dim: FloatLike, v_head_dim: FloatLike
) -> FloatArray:
    """Return the weights of the MLA projections from the latent to keys and values.

    Parameters
    ----------
    num_heads, kv_lora_rank, qk_nope_head_dim, v_head_dim : array_like, shape (n,)
        Architecture.

    Returns
    -------
    ndarray, shape (n,)
        Parameters.

    Notes
    -----
    ``r_kv a (d_n + d_v)``.

    References
    ----------
    DeepSeek-V2, arXiv 2405.04434, section 2.1.

    Examples
    --------
    DeepSeek-V3: 512 * 128 * 256.

    >>> int(mla_key_value_up_parameters(num_heads=128, kv_lora_rank=512, qk_nope_head_dim=128, v_head_dim=128))
    16777216
    """
    return as_floats(kv_lora_rank * num_heads * (qk_nope_head_dim + v_head_dim))


def mla_output_parameters(*, hidden_size: FloatLike, num_heads: FloatLike, v_head_dim: FloatLike) -> FloatArray:
    """Return the weights of the MLA output projection.

    Parameters
    ----------
    hidden_size, num_heads, v_head_dim : array_like, shape (n,)
        Architecture.

    Returns
    -------
    ndarray, shape (n,)
        Parameters.

    Notes
    -----
    ``a d_v h``.

    References
    ----------
    DeepSeek-V2, arXiv 2405.04434, section 2.1.

    Examples
    --------
    >>> int(mla_output_parameters(hidden_size=7168, num_heads=128, v_head_dim=128))
    117440512
    """
    return as_floats(num_heads * v_head_dim * hidden_size)


def mlp_parameters(*, hidden_size: FloatLike, ffn_hidden_size: FloatLike, gated: BoolLike) -> FloatArray:
    """Return the weights of one MLP, or of one expert.

    Parameters
    ----------
    hidden_size, ffn_hidden_size : array_like, shape (n,)
        Outer and inner width.
    gated : array_like of bool, shape (n,)
        Whether it has a gate matrix (SwiGLU, GeGLU).

    Returns
    -------
    ndarray, shape (n,)
        Parameters.

    Notes
    -----
    ``2 h f`` plain, ``3 h f`` gated; biases apart.

    References
    ----------
    GLU variants, arXiv 2002.05202.

    Examples
    --------
    Llama 3 8B: 3 * 4096 * 14336.

    >>> int(mlp_parameters(hidden_size=4096, ffn_hidden_size=14336, gated=True))
    176160768
    """
    return as_floats((2.0 + as_floats(gated)) * hidden_size * ffn_hidden_size)


def router_parameters(*, hidden_size: FloatLike, num_experts: FloatLike, has_bias: BoolLike) -> FloatArray:
    """Return the weights of the router of one expert layer.

    Parameters
    ----------
    hidden_size, num_experts : array_like, shape (n,)
        Architecture.
    has_bias : array_like of bool, shape (n,)
        Whether a routing bias per expert is kept (auxiliary-loss-free balancing).

    Returns
    -------
    ndarray, shape (n,)
        Parameters.

    Notes
    -----
    ``E h``, plus ``E`` with a bias.

    References
    ----------
    DeepSeek-V3, arXiv 2412.19437, section 2.1.2.

    Examples
    --------
    >>> int(router_parameters(hidden_size=7168, num_experts=256, has_bias=True))
    1835264
    """
    return as_floats(num_experts * (hidden_size + as_floats(has_bias)))


def norm_parameters(*, hidden_size: FloatLike, num_norms: FloatLike, has_bias: BoolLike) -> FloatArray:
    """Return the weights of normalisations over the hidden size.

    Parameters
    ----------
    hidden_size, num_norms : array_like, shape (n,)
        Width and number (two per layer and one at the end in most models).
    has_bias : array_like of bool, shape (n,)
        True for LayerNorm, False for RMSNorm.

    Returns
    -------
    ndarray, shape (n,)
        Parameters.

    Notes
    -----
    ``h`` each for RMSNorm, ``2 h`` for LayerNorm.

    References
    ----------
    RMSNorm, arXiv 1910.07467.

    Examples
    --------
    Llama 3 8B, 2 * 32 + 1 norms of 4096.

    >>> int(norm_parameters(hidden_size=4096, num_norms=65, has_bias=False))
    266240
    """
    return as_floats((1.0 + as_floats(has_bias)) * hidden_size * num_norms)


def embedding_and_head_parameters(*, hidden_size: FloatLike, vocab_size: FloatLike, tied: BoolLike) -> FloatArray:
    """Return the weights of the token embedding and the output head together.

    Parameters
    ----------
    hidden_size, vocab_size : array_like, shape (n,)
        Architecture; the vocabulary as padded for the run.
    tied : array_like of bool, shape (n,)
        Whether both are one matrix.

    Returns
    -------
    ndarray, shape (n,)
        Parameters.

    Notes
    -----
    ``2 V h``, or ``V h`` when tied.

    References
    ----------
    Tied embeddings, arXiv 1608.05859.

    Examples
    --------
    >>> int(embedding_and_head_parameters(hidden_size=4096, vocab_size=128256, tied=False))
    1050673152
    """
    return as_floats((2.0 - as_floats(tied)) * vocab_size * hidden_size)


def gpt_parameters(
    *, num_layers: FloatLike, hidden_size: FloatLike, vocab_size: FloatLike, seq_len: FloatLike
) -> FloatArray:
    """Return all parameters of a GPT with biases, f = 4h, tied head and learned positions.

    Parameters
    ----------
    num_layers, hidden_size, vocab_size, seq_len : array_like, shape (n,)
        Architecture.

    Returns
    -------
    ndarray, shape (n,)
        Parameters.

    Notes
    -----
    ``12 L h^2 (1 + 13 / (12 h) + (V + s) / (12 L h))``. Leaves out the final norm (2h); the ten models of
    Table 1 come out within its rounding.

    References
    ----------
    Megatron-LM, arXiv 2104.04473, section 5.1.

    Examples
    --------
    GPT-3 has 174.6e9 parameters.

    >>> round(float(gpt_parameters(num_layers=96, hidden_size=12288, vocab_size=51200, seq_len=2048)) / 1e9, 2)
    174.62
    """
    corrections = 13.0 / (12.0 * hidden_size) + (vocab_size + seq_len) / (12.0 * num_layers * hidden_size)
    return as_floats(12.0 * num_layers * hidden_size**2 * (1.0 + corrections))
