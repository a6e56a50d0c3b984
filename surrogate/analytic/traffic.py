"""Bytes that one GPU sends, by operation of a parallel axis: elementary formulas.

``n`` tokens per micro-batch on the rank, ``q = x n h`` bytes of a hidden state, t, c, e sizes, Z ranks that share
weights, x_w and x_g bytes of a weight and of a gradient element. Whole workloads follow in `communication`.
"""

from __future__ import annotations

import numpy as np

from surrogate.analytic.arrays import BoolLike, FloatLike, IntLike, as_floats
from surrogate.analytic.workload import FloatArray

ACTIVATION_BYTES = 2.0
"""Bytes of an activation or weight element in 16-bit training."""


def tensor_parallel_bytes_per_layer(
    *, hidden_state_bytes: FloatLike, tp: FloatLike, sequence_parallel: BoolLike, repeated_forward: FloatLike
) -> FloatArray:
    """Return the wire bytes of tensor parallelism per layer and micro-batch, forward and backward.

    Parameters
    ----------
    hidden_state_bytes : array_like, shape (n,)
        ``q``, the undivided hidden state of the micro-batch.
    tp : array_like, shape (n,)
        Tensor parallel size.
    sequence_parallel : array_like of bool, shape (n,)
        Whether activations between blocks are sharded.
    repeated_forward : array_like, shape (n,)
        Share of layers whose forward pass runs again in backward: 1 for full recomputation of all, else 0.

    Returns
    -------
    ndarray, shape (n,)
        Bytes per GPU.

    Notes
    -----
    Two all-reduces forward and two backward are ``8 (t-1)/t q``. With sequence parallelism each is a
    reduce-scatter and an all-gather, and backward gathers the two sharded inputs again: ``10 (t-1)/t q``. Full
    recomputation repeats the two forward ones, ``4 (t-1)/t q``.

    References
    ----------
    arXiv 1909.08053, section 3; arXiv 2205.05198, section 4.2.2.

    Examples
    --------
    t = 8, n = 4096, h = 8192.

    >>> args = {"hidden_state_bytes": 67108864, "tp": 8, "repeated_forward": 0.0}
    >>> [int(tensor_parallel_bytes_per_layer(sequence_parallel=sp, **args)) for sp in (False, True)]
    [469762048, 587202560]
    """
    factor = 8.0 + 2.0 * as_floats(sequence_parallel) + 4.0 * as_floats(repeated_forward)
    return as_floats(factor * ((tp - 1.0) / as_floats(tp)) * hidden_state_bytes)


def context_parallel_ring_bytes_per_layer(
    *, num_tokens: FloatLike, key_value_width: FloatLike, cp: FloatLike, element_bytes: FloatLike
) -> FloatArray:
    """Return the bytes sent around the ring of ring attention per layer and micro-batch, forward.

    Parameters
    ----------
    num_tokens : array_like, shape (n,)
        Local tokens, ``b s / c``.
    key_value_width : array_like, shape (n,)
        Elements of keys and values per token on the rank: ``2 n_kv d_h / t``, for MLA ``a (d_n + d_r + d_v) / t``.
    cp : array_like, shape (n,)
        Context parallel size.
    element_bytes : array_like, shape (n,)
        Bytes of an element.

    Returns
    -------
    ndarray, shape (n,)
        Bytes per GPU. Backward sends about twice as much: keys and values, and their gradients.

    Notes
    -----
    ``(c - 1) x n (2 n_kv d_h / t)``.

    References
    ----------
    Ring attention, arXiv 2310.01889, section 3.

    Examples
    --------
    c = 4, 2048 tokens, 8 heads of 128.

    >>> args = {"num_tokens": 2048, "key_value_width": 2 * 8 * 128, "cp": 4, "element_bytes": 2}
    >>> int(context_parallel_ring_bytes_per_layer(**args))
    25165824
    """
    return as_floats((cp - 1.0) * element_bytes * num_tokens * key_value_width)


def context_parallel_gather_bytes_per_layer(
    *, num_tokens: FloatLike, key_value_width: FloatLike, cp: FloatLike, element_bytes: FloatLike
) -> FloatArray:
    """Return the wire bytes of gathering keys and values over context parallel ranks, forward.

    Parameters
    ----------
    num_tokens, key_value_width, cp, element_bytes : array_like, shape (n,)
        As for `context_parallel_ring_bytes_per_layer`.

    Returns
    -------
    ndarray, shape (n,)
        Bytes per GPU; backward reduce-scatters the gradients and may gather again.

    Notes
    -----
    ``(c - 1)/c`` of the gathered ``x c n (2 n_kv d_h / t)``: the ring's volume in one collective.

    References
    ----------
    Llama 3, arXiv 2407.21783, section 3.3.2.

    Examples
    --------
    >>> args = {"num_tokens": 2048, "key_value_width": 2 * 8 * 128, "cp": 4, "element_bytes": 2}
    >>> int(context_parallel_gather_bytes_per_layer(**args))
    25165824
    """
    gathered = element_bytes * cp * num_tokens * key_value_width
    return as_floats((cp - 1.0) / as_floats(cp) * gathered)


def ulysses_bytes_per_layer(
    *,
    num_tokens: FloatLike,
    query_width: FloatLike,
    key_value_width: FloatLike,
    cp: FloatLike,
    element_bytes: FloatLike,
) -> FloatArray:
    """Return the wire bytes of the four all-to-alls of Ulysses attention per layer and micro-batch, forward.

    Parameters
    ----------
    num_tokens : array_like, shape (n,)
        Local tokens, ``b s / c``.
    query_width, key_value_width : array_like, shape (n,)
        Elements per token on the rank: of the queries (the output is as wide), and of keys and values together.
    cp, element_bytes : array_like, shape (n,)
        Context parallel size and bytes of an element.

    Returns
    -------
    ndarray, shape (n,)
        Bytes per GPU; backward is the same.

    Notes
    -----
    ``(c - 1)/c x n (2 a d_h + 2 n_kv d_h) / t``.

    References
    ----------
    DeepSpeed-Ulysses, arXiv 2309.14509, section 3.2.

    Examples
    --------
    3/4 * 2 bytes * 2048 tokens * (2 * 4096 + 2048).

    >>> args = {"num_tokens": 2048, "query_width": 4096, "key_value_width": 2048, "cp": 4, "element_bytes": 2}
    >>> int(ulysses_bytes_per_layer(**args))
    31457280
    """
    elements = num_tokens * (2.0 * query_width + key_value_width)
    return as_floats((cp - 1.0) / as_floats(cp) * element_bytes * elements)


def expert_all_to_all_bytes(
    *,
    num_tokens: FloatLike,
    hidden_size: FloatLike,
    copies_per_token: FloatLike,
    ep: FloatLike,
    element_bytes: FloatLike,
) -> FloatArray:
    """Return the wire bytes of one dispatch or one combine of an expert layer.

    Parameters
    ----------
    num_tokens : array_like, shape (n,)
        Tokens of the micro-batch on the rank (divided by t with sequence parallelism).
    hidden_size, ep : array_like, shape (n,)
        Width and expert parallel size.
    copies_per_token : array_like, shape (n,)
        Experts per token k; ``min(k, M)`` for the bytes between nodes when routing is limited to M nodes.
    element_bytes : array_like, shape (n,)
        2 for bf16, about 1 for an fp8 dispatch.

    Returns
    -------
    ndarray, shape (n,)
        Bytes per GPU; a layer has two forward and two backward.

    Notes
    -----
    ``x n k h (e - 1)/e``.

    References
    ----------
    GShard, arXiv 2006.16668; node-limited routing, DeepSeek-V3, arXiv 2412.19437, section 2.1.2.

    Examples
    --------
    e = 64, n = 4096, k = 8, h = 7168.

    >>> args = {"num_tokens": 4096, "hidden_size": 7168, "copies_per_token": 8, "ep": 64, "element_bytes": 2}
    >>> int(expert_all_to_all_bytes(**args))
    462422016
    """
    return as_floats(element_bytes * num_tokens * copies_per_token * hidden_size * ((ep - 1.0) / as_floats(ep)))


def pipeline_boundary_bytes(
    *, num_tokens: FloatLike, hidden_size: FloatLike, tp: FloatLike, scattered: BoolLike, element_bytes: FloatLike
) -> FloatArray:
    """Return the bytes that one GPU sends to the next stage per micro-batch and direction.

    Parameters
    ----------
    num_tokens, hidden_size, tp : array_like, shape (n,)
        Tokens of the micro-batch on the rank, width and tensor parallel size.
    scattered : array_like of bool, shape (n,)
        Whether each tensor parallel rank sends only its part (sequence parallelism, or scatter and gather).
    element_bytes : array_like, shape (n,)
        Bytes of an element.

    Returns
    -------
    ndarray, shape (n,)
        Bytes per GPU; once forward and once backward, times v chunks with interleaving.

    Notes
    -----
    ``x n h / t``, or ``x n h`` undivided.

    References
    ----------
    Megatron-LM, arXiv 2104.04473, section 4.1.

    Examples
    --------
    >>> args = {"num_tokens": 4096, "hidden_size": 8192, "tp": 8, "element_bytes": 2}
    >>> int(pipeline_boundary_bytes(scattered=True, **args))
    8388608
    """
    shards = 1.0 + as_floats(scattered) * (tp - 1.0)
    return as_floats(element_bytes * num_tokens * hidden_size / shards)


def data_parallel_bytes_per_step(
    *, parameters: FloatLike, num_ranks: FloatLike, zero_stage: IntLike, grad_bytes: FloatLike
) -> FloatArray:
    """Return the wire bytes of reducing gradients and gathering weights once per step, ZeRO stages 0 to 2.

    Parameters
    ----------
    parameters : array_like, shape (n,)
        Parameters of the GPU before sharding, ``P'``.
    num_ranks : array_like, shape (n,)
        Ranks that share weights, ``Z``.
    zero_stage : array_like of int, shape (n,)
        0, or 1 and 2 (the same traffic when gradients are reduced once per step).
    grad_bytes : array_like, shape (n,)
        Bytes of a gradient element.

    Returns
    -------
    ndarray, shape (n,)
        Bytes per GPU.

    Notes
    -----
    Stage 0 all-reduces ``2 (Z-1)/Z x_g P'``; stages 1 and 2 reduce-scatter gradients and all-gather weights,
    ``(Z-1)/Z (x_g + x_w) P'``.

    References
    ----------
    ZeRO, arXiv 1910.02054, section 7.

    Examples
    --------
    >>> args = {"parameters": 1e9, "num_ranks": 64, "grad_bytes": 4}
    >>> [float(data_parallel_bytes_per_step(zero_stage=z, **args)) / 1e9 for z in (0, 1)]
    [7.875, 5.90625]
    """
    gathered_or_reduced = ACTIVATION_BYTES + np.equal(zero_stage, 0) * (grad_bytes - ACTIVATION_BYTES)
    moved = grad_bytes + gathered_or_reduced
    return as_floats(moved * ((num_ranks - 1.0) / as_floats(num_ranks)) * parameters)


def fully_sharded_bytes_per_micro_batch(
    *, parameters: FloatLike, num_ranks: FloatLike, grad_bytes: FloatLike, weight_gathers: FloatLike
) -> FloatArray:
    """Return the wire bytes of ZeRO-3 or FSDP per micro-batch.

    Parameters
    ----------
    parameters, num_ranks, grad_bytes : array_like, shape (n,)
        As for `data_parallel_bytes_per_step`; for HSDP the ranks of a shard group.
    weight_gathers : array_like, shape (n,)
        2, or 1 when weights stay resident between forward and backward.

    Returns
    -------
    ndarray, shape (n,)
        Bytes per GPU, the reduction of gradients included.

    Notes
    -----
    ``(Z-1)/Z (2 x_w + x_g) P'``: 1.5 times the traffic of ZeRO-0 for one micro-batch and ``x_w = x_g``.

    References
    ----------
    ZeRO, arXiv 1910.02054, section 7; FSDP, arXiv 2304.11277.

    Examples
    --------
    >>> args = {"parameters": 1e9, "num_ranks": 64, "grad_bytes": 2, "weight_gathers": 2}
    >>> float(fully_sharded_bytes_per_micro_batch(**args)) / 1e9
    5.90625
    """
    moved = weight_gathers * ACTIVATION_BYTES + grad_bytes
    return as_floats(moved * ((num_ranks - 1.0) / as_floats(num_ranks)) * parameters)
