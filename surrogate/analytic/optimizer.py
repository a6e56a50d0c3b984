"""Optimizer step on the accelerator: bytes moved, time, and Muon's orthogonalisation."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import numpy as np

from surrogate.analytic.arrays import FloatLike, IntLike, as_floats
from surrogate.analytic.groups import ParallelGroups, parallel_groups
from surrogate.analytic.model_parameters import ParametersPerGpu, parameters_per_gpu
from surrogate.analytic.workload import FloatArray, OptimizerKind, Workload

STATE_TRAFFIC_BYTES: Mapping[OptimizerKind, float] = MappingProxyType(
    {
        # read master 4, m 4, v 4; write the same and the 16-bit weight 2
        OptimizerKind.ADAM_FP32_MASTER: 26.0,
        # read master 4, m 2, v 2; write the same and the 16-bit weight 2
        OptimizerKind.ADAM_BF16: 18.0,
        # read master 4, m 1, v 1; write the same and the 16-bit weight 2
        OptimizerKind.ADAM_8BIT: 14.0,
        # read master 4, momentum 4; write the same and the 16-bit weight 2
        OptimizerKind.MUON: 18.0,
    }
)
"""Bytes per parameter that an update reads and writes, the gradient apart (sizes of the state definitions)."""


def optimizer_bytes_per_parameter(*, optimizer: IntLike, grad_bytes: FloatLike) -> FloatArray:
    """Return the bytes that one update moves per parameter.

    Parameters
    ----------
    optimizer : array_like of int, shape (n,)
        `OptimizerKind` codes.
    grad_bytes : array_like, shape (n,)
        Bytes of a gradient element, ``x_g``.

    Returns
    -------
    ndarray, shape (n,)
        Bytes per parameter.

    Notes
    -----
    Adam with fp32 master: read ``x_g + 4 + 4 + 4``, write ``4 + 4 + 4 + 2``: ``26 + x_g``.

    Assumptions: passes for the gradient norm and for zeroing, ``x_g`` each, are `gradient_pass_bytes`.

    References
    ----------
    Mixed-precision states, ZeRO, arXiv 1910.02054, section 3.1.

    Examples
    --------
    >>> float(optimizer_bytes_per_parameter(optimizer=OptimizerKind.ADAM_FP32_MASTER, grad_bytes=4))
    30.0
    """
    table = np.zeros(max(STATE_TRAFFIC_BYTES) + 1)
    for kind, moved in STATE_TRAFFIC_BYTES.items():
        table[kind] = moved
    return as_floats(table[np.asarray(optimizer)] + as_floats(grad_bytes))


def gradient_pass_bytes(*, grad_bytes: FloatLike) -> FloatArray:
    """Return the bytes per parameter of taking the gradient norm and of zeroing the gradient.

    Parameters
    ----------
    grad_bytes : array_like, shape (n,)
        Bytes of a gradient element.

    Returns
    -------
    ndarray, shape (n,)
        Bytes per parameter.

    Notes
    -----
    ``2 x_g``: one read, one write.

    References
    ----------
    Counted from the operations.

    Examples
    --------
    >>> float(gradient_pass_bytes(grad_bytes=4))
    8.0
    """
    return as_floats(2.0 * as_floats(grad_bytes))


def optimizer_time_s(
    *,
    parameters: FloatLike,
    num_shards: FloatLike,
    bytes_per_parameter: FloatLike,
    bytes_per_s: FloatLike,
) -> FloatArray:
    """Return the time of an optimizer step that is bound by memory.

    Parameters
    ----------
    parameters : array_like, shape (n,)
        Parameters of the GPU before sharding.
    num_shards : array_like, shape (n,)
        Ranks that share the update: Z for ZeRO stage 1 and above, else 1.
    bytes_per_parameter, bytes_per_s : array_like, shape (n,)
        Bytes moved, and the memory bandwidth that is reached.

    Returns
    -------
    ndarray, shape (n,)
        Seconds.

    Notes
    -----
    ``bytes P' / (Z BW)``.

    References
    ----------
    Roofline model, memory side.

    Examples
    --------
    8.03e9 parameters, 30 bytes, 3.35 TB/s: 71.9 ms alone, 1.124 ms over 64 ranks.

    >>> args = {"parameters": 8.03e9, "bytes_per_parameter": 30, "bytes_per_s": 3.35e12}
    >>> [round(float(optimizer_time_s(num_shards=z, **args)) * 1e3, 3) for z in (1, 64)]
    [71.91, 1.124]
    """
    return as_floats(bytes_per_parameter * parameters / (as_floats(num_shards) * bytes_per_s))


def optimizer_bytes(
    w: Workload, *, groups: ParallelGroups | None = None, per_gpu: ParametersPerGpu | None = None
) -> FloatArray:
    """Return the bytes that an optimizer step moves on the busiest GPU.

    Parameters
    ----------
    w : Workload
        n configurations.
    groups, per_gpu : optional
        `parallel_groups(w)` and `parameters_per_gpu(w)` where the caller has them already.

    Returns
    -------
    ndarray, shape (n,)
        Bytes per step, update and gradient passes.

    Notes
    -----
    ``bytes (dense P' / Z + expert P' / Z_e)`` over the largest stage, Z = 1 for ZeRO-0; the gradient passes run
    over what the rank holds of the gradient: all of it for ZeRO stages 0 and 1.
    """
    first, middle, last = per_gpu or parameters_per_gpu(w)
    update = optimizer_bytes_per_parameter(optimizer=w.optimizer, grad_bytes=w.grad_bytes)
    passes = gradient_pass_bytes(grad_bytes=w.grad_bytes)
    expert_shards = (groups or parallel_groups(w)).expert_shard.size
    sharded, grads_sharded = w.zero_stage >= 1, w.zero_stage >= 2
    update_dense = update / np.where(sharded, w.shard_size, 1.0) + passes / np.where(grads_sharded, w.shard_size, 1.0)
    update_expert = update / np.where(sharded, expert_shards, 1.0)
    update_expert = update_expert + passes / np.where(grads_sharded, expert_shards, 1.0)
    stages = [(stage.dense + stage.embedding) * update_dense + stage.expert * update_expert for stage in (first, last)]
    return np.maximum(np.maximum(*stages), middle.dense * update_dense + middle.expert * update_expert)


def newton_schulz_flops(*, rows: FloatLike, columns: FloatLike, iterations: FloatLike) -> FloatArray:
    """Return the FLOPs of orthogonalising one update matrix (Muon).

    Parameters
    ----------
    rows, columns : array_like, shape (n,)
        Shape of the matrix, either way round.
    iterations : array_like, shape (n,)
        Newton-Schulz steps, usually 5.

    Returns
    -------
    ndarray, shape (n,)
        FLOPs.

    Notes
    -----
    With m the smaller and n the larger side, a step forms ``A = X X^T``, ``B = b A + c A^2`` and ``B X``:
    ``4 n m^2 + 2 m^3``.

    References
    ----------
    Jordan et al., Muon, 2024; arXiv 2502.16982.

    Examples
    --------
    >>> float(newton_schulz_flops(rows=2, columns=3, iterations=5))
    320.0
    """
    small, large = np.minimum(rows, columns), np.maximum(rows, columns)
    return as_floats(iterations * (4.0 * as_floats(large) * small**2 + 2.0 * as_floats(small) ** 3))
