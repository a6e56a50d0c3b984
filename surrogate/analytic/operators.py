"""Time of an operator: roofline, saturating efficiency, shape penalty, launches.

Efficiencies are calibrated; nothing here has a default for one.
"""

from __future__ import annotations

import numpy as np

from surrogate.analytic.arrays import FloatLike, as_floats
from surrogate.analytic.workload import FloatArray, Workload


def roofline_time_s(*, compute_s: FloatLike, memory_s: FloatLike, launch_s: FloatLike) -> FloatArray:
    """Return the time of an operator whose arithmetic and memory traffic overlap.

    Parameters
    ----------
    compute_s : array_like, shape (n,)
        ``FLOPs / (Pk eff_c)`` in seconds.
    memory_s : array_like, shape (n,)
        ``bytes / (BW eff_m)`` in seconds.
    launch_s : array_like, shape (n,)
        Time to start it.

    Returns
    -------
    ndarray, shape (n,)
        Seconds.

    Notes
    -----
    ``max(compute, memory) + launch``: the lower of the two bounds `serial_time_s` closes from above.

    References
    ----------
    Williams, Waterman and Patterson, Commun. ACM 52(4), 2009.

    Examples
    --------
    >>> float(roofline_time_s(compute_s=3.0, memory_s=2.0, launch_s=0.5))
    3.5
    """
    return as_floats(np.maximum(compute_s, memory_s) + as_floats(launch_s))


def serial_time_s(*, compute_s: FloatLike, memory_s: FloatLike, launch_s: FloatLike) -> FloatArray:
    """Return the time of an operator whose arithmetic and memory traffic do not overlap at all.

    Parameters
    ----------
    compute_s, memory_s, launch_s : array_like, shape (n,)
        As for `roofline_time_s`.

    Returns
    -------
    ndarray, shape (n,)
        Seconds.

    Notes
    -----
    ``compute + memory + launch``; the truth lies between the two.

    References
    ----------
    As `roofline_time_s`.

    Examples
    --------
    >>> float(serial_time_s(compute_s=3.0, memory_s=2.0, launch_s=0.5))
    5.5
    """
    return as_floats(as_floats(compute_s) + memory_s + launch_s)


def overlapped_time_s(
    *, compute_s: FloatLike, communication_s: FloatLike, overlap: FloatLike, slowdown: FloatLike
) -> FloatArray:
    """Return the time of compute and communication that overlap in part.

    Parameters
    ----------
    compute_s, communication_s : array_like, shape (n,)
        Each alone, in seconds.
    overlap : array_like, shape (n,)
        Share of the shorter one that is hidden, rho in [0, 1].
    slowdown : array_like, shape (n,)
        Factor sigma >= 1 on compute while communication runs.

    Returns
    -------
    ndarray, shape (n,)
        Seconds. What it exceeds `compute_s` by is the exposed communication.

    Notes
    -----
    ``max(A', C) + (1 - rho) min(A', C)`` with ``A' = A + (sigma - 1) min(A, C)``: rho = 1 gives the maximum,
    rho = 0 the sum.

    References
    ----------
    The bracket max <= T <= sum of the roofline model.

    Examples
    --------
    A = 4, C = 2, half hidden, sigma = 1.5: A' = 5, then 5 + 0.5 * 2.

    >>> float(overlapped_time_s(compute_s=4.0, communication_s=2.0, overlap=0.5, slowdown=1.5))
    6.0
    """
    slowed = compute_s + (as_floats(slowdown) - 1.0) * np.minimum(compute_s, communication_s)
    hidden_part = np.minimum(slowed, communication_s)
    return as_floats(np.maximum(slowed, communication_s) + (1.0 - as_floats(overlap)) * hidden_part)


def saturating_efficiency(*, size: FloatLike, half_size: FloatLike, max_efficiency: FloatLike) -> FloatArray:
    """Return the efficiency of an operator of a given size.

    Parameters
    ----------
    size : array_like, shape (n,)
        FLOPs of the product, or bytes for memory efficiency.
    half_size : array_like, shape (n,)
        Size at which half of the maximum is reached; calibrated.
    max_efficiency : array_like, shape (n,)
        Asymptote in (0, 1]; calibrated.

    Returns
    -------
    ndarray, shape (n,)
        Fraction of the peak.

    Notes
    -----
    ``eff_max x / (x + x_half)``. With one size only x_half is not identified: fit on two a factor of 4 apart.

    References
    ----------
    Hockney, Parallel Computing 20 (1994), n-half.

    Examples
    --------
    >>> float(saturating_efficiency(size=3.0, half_size=1.0, max_efficiency=0.8))
    0.6000000000000001
    """
    extent = as_floats(size)
    return as_floats(max_efficiency * (extent / (extent + half_size)))


def tile_quantisation_efficiency(
    *, rows: FloatLike, columns: FloatLike, tile_rows: FloatLike, tile_columns: FloatLike, num_sm: FloatLike
) -> FloatArray:
    """Return the share of the last wave of tiles that does work, over all waves of a product.

    Parameters
    ----------
    rows, columns : array_like, shape (n,)
        Output of the product, M and N.
    tile_rows, tile_columns : array_like, shape (n,)
        Tile of one processor.
    num_sm : array_like, shape (n,)
        Processors (132 on H100 SXM).

    Returns
    -------
    ndarray, shape (n,)
        Fraction in (0, 1].

    Notes
    -----
    ``tiles / (ceil(tiles / SM) SM)`` with ``tiles = ceil(M / T_m) ceil(N / T_n)``.

    References
    ----------
    NVIDIA, Matrix Multiplication Background User's Guide, wave quantization.

    Examples
    --------
    512 tiles in 4 waves of 132.

    >>> args = {"tile_rows": 128, "tile_columns": 256, "num_sm": 132}
    >>> round(float(tile_quantisation_efficiency(rows=4096, columns=4096, **args)), 3)
    0.97
    """
    tiles = np.ceil(as_floats(rows) / tile_rows) * np.ceil(as_floats(columns) / tile_columns)
    return as_floats(tiles / (np.ceil(tiles / num_sm) * num_sm))


def matrix_product_bytes(
    *, rows: FloatLike, inner: FloatLike, columns: FloatLike, element_bytes: FloatLike
) -> FloatArray:
    """Return the bytes that a matrix product moves when every operand is read once.

    Parameters
    ----------
    rows, inner, columns : array_like, shape (n,)
        M, K and N.
    element_bytes : array_like, shape (n,)
        Bytes of an element.

    Returns
    -------
    ndarray, shape (n,)
        Bytes.

    Notes
    -----
    ``x (M K + K N + M N)``.

    References
    ----------
    NVIDIA, Matrix Multiplication Background User's Guide, math and memory bounds.

    Examples
    --------
    >>> float(matrix_product_bytes(rows=2, inner=3, columns=4, element_bytes=2))
    52.0
    """
    return as_floats(element_bytes * (as_floats(rows) * inner + as_floats(inner) * columns + as_floats(rows) * columns))


def tokens_per_expert(
    *, num_tokens: FloatLike, top_k: FloatLike, num_experts: FloatLike, load_imbalance: FloatLike
) -> FloatArray:
    """Return the rows M of a grouped expert product, the size that its efficiency depends on.

    Parameters
    ----------
    num_tokens : array_like, shape (n,)
        Tokens of all ranks that share the experts, for one micro-batch.
    top_k, num_experts : array_like, shape (n,)
        Experts per token and routed experts (0 for dense models).
    load_imbalance : array_like, shape (n,)
        Tokens of the busiest expert over the mean, >= 1.

    Returns
    -------
    ndarray, shape (n,)
        Tokens; 0 for dense models.

    Notes
    -----
    ``n k lambda / E``. Small M is why many small experts run at a low MFU.

    References
    ----------
    MegaBlocks, arXiv 2211.15841.

    Examples
    --------
    4096 tokens on each of 64 ranks, 8 of 256 experts.

    >>> float(tokens_per_expert(num_tokens=64 * 4096, top_k=8, num_experts=256, load_imbalance=1.0))
    8192.0
    """
    mean = as_floats(num_tokens) * top_k / np.maximum(num_experts, 1.0)
    return as_floats(np.where(np.equal(num_experts, 0), 0.0, mean * load_imbalance))


ATTENTION_LAUNCHES = 7.0
"""Norm, QKV product, two rotations, fused core, output product, residual: a forward attention block."""
UNFUSED_CORE_LAUNCHES = 4.0
"""Scores, scale and mask, softmax, values, in the place of one fused kernel; dropout not counted."""
MLP_LAUNCHES = 5.0
"""Norm, up (and gate) product, activation, down product, residual."""
MOE_LAUNCHES = 12.0
"""Norm, router product, softmax, top-k, counts, permutation, two grouped products, activation, inverse
permutation, weighting, residual."""
UNFUSED_NORM_LAUNCHES = 5.0
"""Additional kernels of a norm written in separate operations: cast, square, mean, scale, weight."""


def kernel_launches_per_layer(w: Workload) -> FloatArray:
    """Return an estimate of the kernels that the forward pass of an average layer launches.

    Parameters
    ----------
    w : Workload
        n configurations.

    Returns
    -------
    ndarray, shape (n,)
        Kernels per micro-batch and layer; backward launches about twice as many.

    Notes
    -----
    Counts of the operations of a transformer block, more for unfused attention and norms, one per collective of
    tensor and expert parallelism. If launches times the time of one exceed the device time, the host is the limit.

    Assumptions and error: no compiler fusion, no CUDA graphs (the caller weighs `compiled` and `cuda_graphs`);
    implementations differ by a factor of two, which a calibrated time per launch absorbs.
    """
    moe_share = 1.0 - w.num_dense_layers / w.num_layers
    core = np.where(w.flash_attention, 0.0, UNFUSED_CORE_LAUNCHES - 1.0)
    norms = np.where(w.fused_norm, 0.0, 2.0 * UNFUSED_NORM_LAUNCHES)
    collectives = np.where(w.tp > 1.0, np.where(w.sequence_parallel, 4.0, 2.0), 0.0)
    dispatch = np.where(w.ep > 1.0, 2.0, 0.0)
    shared = np.where(w.num_shared_experts > 0.0, MLP_LAUNCHES - 2.0, 0.0)
    blocks = (1.0 - moe_share) * MLP_LAUNCHES + moe_share * (MOE_LAUNCHES + dispatch + shared)
    return ATTENTION_LAUNCHES + core + norms + collectives + blocks
