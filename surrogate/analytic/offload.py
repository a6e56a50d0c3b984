"""Optimizer state or activations in host memory: transfer times and what of them is exposed."""

from __future__ import annotations

import numpy as np

from surrogate.analytic.arrays import BoolLike, FloatLike, as_floats
from surrogate.analytic.workload import FloatArray


def host_optimizer_time_s(
    *,
    grad_transfer_s: FloatLike,
    update_s: FloatLike,
    weight_transfer_s: FloatLike,
    pipelined: BoolLike,
) -> FloatArray:
    """Return the time of an optimizer step on the host.

    Parameters
    ----------
    grad_transfer_s, update_s, weight_transfer_s : array_like, shape (n,)
        Gradients to the host, update there, weights back, each alone in seconds: `host_transfer_time_s` and
        `host_update_time_s`.
    pipelined : array_like of bool, shape (n,)
        Whether the three overlap bucket by bucket.

    Returns
    -------
    ndarray, shape (n,)
        Seconds.

    Notes
    -----
    The largest of the three when pipelined, else their sum.

    References
    ----------
    ZeRO-Offload, arXiv 2101.06840, section 4.

    Examples
    --------
    >>> args = {"grad_transfer_s": 2.0, "update_s": 3.0, "weight_transfer_s": 1.0}
    >>> float(host_optimizer_time_s(pipelined=True, **args)), float(host_optimizer_time_s(pipelined=False, **args))
    (3.0, 6.0)
    """
    longest = np.maximum(np.maximum(grad_transfer_s, update_s), weight_transfer_s)
    total = as_floats(grad_transfer_s) + update_s + weight_transfer_s
    return as_floats(np.where(pipelined, longest, total))


def host_transfer_time_s(
    *, parameters: FloatLike, element_bytes: FloatLike, host_link_bytes_per_s: FloatLike
) -> FloatArray:
    """Return the time to move a shard of gradients or weights over the host link.

    Parameters
    ----------
    parameters : array_like, shape (n,)
        Parameters of the local shard.
    element_bytes : array_like, shape (n,)
        ``x_g`` to the host, ``x_w`` back.
    host_link_bytes_per_s : array_like, shape (n,)
        Bandwidth of the link of one accelerator, one direction.

    Returns
    -------
    ndarray, shape (n,)
        Seconds.

    Notes
    -----
    ``x P' / BW_host``.

    References
    ----------
    ZeRO-Offload, arXiv 2101.06840, section 4.

    Examples
    --------
    >>> float(host_transfer_time_s(parameters=1e9, element_bytes=2, host_link_bytes_per_s=25e9))
    0.08
    """
    return as_floats(element_bytes * parameters / as_floats(host_link_bytes_per_s))


def host_update_time_s(
    *,
    parameters: FloatLike,
    bytes_per_parameter: FloatLike,
    host_memory_bytes_per_s: FloatLike,
    gpus_per_node: FloatLike,
) -> FloatArray:
    """Return the time of the update itself on a host that its accelerators share.

    Parameters
    ----------
    parameters : array_like, shape (n,)
        Parameters of the local shard.
    bytes_per_parameter : array_like, shape (n,)
        ``26 + x_g`` for Adam with an fp32 master.
    host_memory_bytes_per_s : array_like, shape (n,)
        Memory bandwidth of the host.
    gpus_per_node : array_like, shape (n,)
        Accelerators that update at the same time.

    Returns
    -------
    ndarray, shape (n,)
        Seconds.

    Notes
    -----
    ``bytes P' / (BW_memory / GPUs per node)``.

    References
    ----------
    ZeRO-Offload, arXiv 2101.06840, section 5.

    Examples
    --------
    >>> args = {"parameters": 1e9, "bytes_per_parameter": 30, "host_memory_bytes_per_s": 300e9}
    >>> float(host_update_time_s(gpus_per_node=8, **args))
    0.8
    """
    return as_floats(bytes_per_parameter * parameters * gpus_per_node / as_floats(host_memory_bytes_per_s))


def exposed_offload_time_s(
    *, offloaded_bytes: FloatLike, host_link_bytes_per_s: FloatLike, compute_s: FloatLike
) -> FloatArray:
    """Return what of an activation transfer is not hidden behind the compute that it runs beside.

    Parameters
    ----------
    offloaded_bytes : array_like, shape (n,)
        Bytes of a layer to the host in forward, or back in backward.
    host_link_bytes_per_s : array_like, shape (n,)
        Bandwidth of the link of one accelerator, one direction.
    compute_s : array_like, shape (n,)
        Time of that layer's pass.

    Returns
    -------
    ndarray, shape (n,)
        Seconds, 0 when hidden.

    Notes
    -----
    ``max(0, S / BW_host - t_layer)``.

    References
    ----------
    SSDTrain, arXiv 2408.10013 (condition of full overlap).

    Examples
    --------
    >>> float(exposed_offload_time_s(offloaded_bytes=64e9, host_link_bytes_per_s=32e9, compute_s=1.5))
    0.5
    """
    return as_floats(np.maximum(as_floats(offloaded_bytes) / host_link_bytes_per_s - compute_s, 0.0))
