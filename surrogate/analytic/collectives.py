"""Wire bytes and alpha-beta times of collectives.

S is the payload, the full tensor; n the ranks; alpha the latency of one step in seconds; beta the inverse of the
bandwidth of a rank in ONE direction. Wire bytes are what one rank sends. A time is ``steps alpha + bytes beta``;
the factors are those of the bus bandwidth of nccl-tests.
"""

from __future__ import annotations

import numpy as np

from surrogate.analytic.arrays import FloatLike, as_floats
from surrogate.analytic.workload import FloatArray


def all_reduce_ring_bytes(*, payload_bytes: FloatLike, num_ranks: FloatLike) -> FloatArray:
    """Return the bytes that each rank sends in a ring all-reduce.

    Parameters
    ----------
    payload_bytes, num_ranks : array_like, shape (n,)
        Full tensor and ranks.

    Returns
    -------
    ndarray, shape (n,)
        Bytes; 0 for one rank.

    Notes
    -----
    ``2 (n - 1) / n S``.

    References
    ----------
    Patarasuk and Yuan, J. Parallel Distrib. Comput. 69 (2009); nccl-tests doc/PERFORMANCE.md.

    Examples
    --------
    2 * 7 / 8 of 64 MiB.

    >>> int(all_reduce_ring_bytes(payload_bytes=67108864, num_ranks=8))
    117440512
    """
    return as_floats(2.0 * (num_ranks - 1.0) / as_floats(num_ranks) * payload_bytes)


def all_gather_bytes(*, payload_bytes: FloatLike, num_ranks: FloatLike) -> FloatArray:
    """Return the bytes that each rank sends in a ring all-gather, reduce-scatter or all-to-all.

    Parameters
    ----------
    payload_bytes, num_ranks : array_like, shape (n,)
        Gathered (or unreduced) tensor and ranks; for an all-to-all what one rank holds.

    Returns
    -------
    ndarray, shape (n,)
        Bytes; 0 for one rank.

    Notes
    -----
    ``(n - 1) / n S``, the same for all three.

    References
    ----------
    nccl-tests doc/PERFORMANCE.md.

    Examples
    --------
    Gradients of 8.03e9 parameters in bf16 over 64 ranks.

    >>> round(float(all_gather_bytes(payload_bytes=2 * 8.03e9, num_ranks=64)) / 1e9, 3)
    15.809
    """
    return as_floats((num_ranks - 1.0) / as_floats(num_ranks) * payload_bytes)


def all_reduce_ring_time_s(
    *, payload_bytes: FloatLike, num_ranks: FloatLike, latency_s: FloatLike, bytes_per_s: FloatLike
) -> FloatArray:
    """Return the time of a ring all-reduce.

    Parameters
    ----------
    payload_bytes, num_ranks : array_like, shape (n,)
        Full tensor and ranks.
    latency_s : array_like, shape (n,)
        Seconds per ring step.
    bytes_per_s : array_like, shape (n,)
        Bandwidth of a rank, one direction.

    Returns
    -------
    ndarray, shape (n,)
        Seconds.

    Notes
    -----
    ``2 (n - 1) alpha + 2 (n - 1) / n S beta``.

    References
    ----------
    Patarasuk and Yuan, J. Parallel Distrib. Comput. 69 (2009).

    Examples
    --------
    117,440,512 wire bytes at 300 GB/s.

    >>> args = {"payload_bytes": 67108864, "num_ranks": 8, "latency_s": 0.0, "bytes_per_s": 300e9}
    >>> round(float(all_reduce_ring_time_s(**args)) * 1e6, 1)
    391.5
    """
    wire = all_reduce_ring_bytes(payload_bytes=payload_bytes, num_ranks=num_ranks)
    return as_floats(2.0 * (num_ranks - 1.0) * latency_s + wire / bytes_per_s)


def all_reduce_tree_time_s(
    *, payload_bytes: FloatLike, num_ranks: FloatLike, latency_s: FloatLike, bytes_per_s: FloatLike
) -> FloatArray:
    """Return the time of a double binary tree all-reduce.

    Parameters
    ----------
    payload_bytes, num_ranks, latency_s, bytes_per_s : array_like, shape (n,)
        As for `all_reduce_ring_time_s`.

    Returns
    -------
    ndarray, shape (n,)
        Seconds; 0 for one rank.

    Notes
    -----
    ``2 log2(n) alpha + 2 S beta``: fewer steps than the ring, a little more traffic.

    References
    ----------
    Sanders, Speck and Traeff, Parallel Computing 35 (2009); NCCL 2.4.

    Examples
    --------
    2 * 3 steps of 10 us.

    >>> args = {"payload_bytes": 0.0, "num_ranks": 8, "latency_s": 1e-5, "bytes_per_s": 1e9}
    >>> round(float(all_reduce_tree_time_s(**args)) * 1e6, 3)
    60.0
    """
    alone = np.equal(num_ranks, 1)
    return as_floats(np.where(alone, 0.0, 2.0 * np.log2(num_ranks) * latency_s + 2.0 * payload_bytes / bytes_per_s))


def all_reduce_time_s(
    *, payload_bytes: FloatLike, num_ranks: FloatLike, latency_s: FloatLike, bytes_per_s: FloatLike
) -> FloatArray:
    """Return the time of the better of ring and double binary tree.

    Parameters
    ----------
    payload_bytes, num_ranks, latency_s, bytes_per_s : array_like, shape (n,)
        As for `all_reduce_ring_time_s`.

    Returns
    -------
    ndarray, shape (n,)
        Seconds.

    Notes
    -----
    ``min(ring, tree)``: what an autotuning library picks; small messages over many ranks go by the tree.

    References
    ----------
    NCCL, tuning of algorithms by size.

    Examples
    --------
    >>> args = {"num_ranks": 64, "latency_s": 1e-5, "bytes_per_s": 1e10}
    >>> bool(all_reduce_time_s(payload_bytes=1e3, **args) < all_reduce_ring_time_s(payload_bytes=1e3, **args))
    True
    """
    ring = all_reduce_ring_time_s(
        payload_bytes=payload_bytes, num_ranks=num_ranks, latency_s=latency_s, bytes_per_s=bytes_per_s
    )
    tree = all_reduce_tree_time_s(
        payload_bytes=payload_bytes, num_ranks=num_ranks, latency_s=latency_s, bytes_per_s=bytes_per_s
    )
    return as_floats(np.minimum(ring, tree))


def all_gather_time_s(
    *, payload_bytes: FloatLike, num_ranks: FloatLike, latency_s: FloatLike, bytes_per_s: FloatLike
) -> FloatArray:
    """Return the time of a ring all-gather or reduce-scatter.

    Parameters
    ----------
    payload_bytes, num_ranks, latency_s, bytes_per_s : array_like, shape (n,)
        As for `all_reduce_ring_time_s`; the payload is the gathered tensor.

    Returns
    -------
    ndarray, shape (n,)
        Seconds.

    Notes
    -----
    ``(n - 1) alpha + (n - 1) / n S beta``; half of a ring all-reduce.

    References
    ----------
    nccl-tests doc/PERFORMANCE.md.

    Examples
    --------
    >>> args = {"payload_bytes": 2 * 8.03e9, "num_ranks": 64, "latency_s": 0.0, "bytes_per_s": 25e9}
    >>> round(float(all_gather_time_s(**args)), 3)
    0.632
    """
    wire = all_gather_bytes(payload_bytes=payload_bytes, num_ranks=num_ranks)
    return as_floats((num_ranks - 1.0) * latency_s + wire / bytes_per_s)


def all_to_all_time_s(
    *, payload_bytes: FloatLike, num_ranks: FloatLike, latency_s: FloatLike, bytes_per_s: FloatLike
) -> FloatArray:
    """Return the time of a pairwise all-to-all.

    Parameters
    ----------
    payload_bytes, num_ranks, latency_s, bytes_per_s : array_like, shape (n,)
        As for `all_reduce_ring_time_s`; the payload is what one rank holds and sends, its own part included.

    Returns
    -------
    ndarray, shape (n,)
        Seconds.

    Notes
    -----
    ``(n - 1) alpha + (n - 1) / n S beta``. A one-shot kernel pays alpha once: pass ``latency_s / (n - 1)``.

    References
    ----------
    Thakur, Rabenseifner and Gropp, Int. J. High Perform. Comput. Appl. 19 (2005).

    Examples
    --------
    3 steps of 1 us and 3/4 of 4 MB at 1 GB/s.

    >>> args = {"payload_bytes": 4e6, "num_ranks": 4, "latency_s": 1e-6, "bytes_per_s": 1e9}
    >>> round(float(all_to_all_time_s(**args)) * 1e3, 3)
    3.003
    """
    return all_gather_time_s(
        payload_bytes=payload_bytes, num_ranks=num_ranks, latency_s=latency_s, bytes_per_s=bytes_per_s
    )


def send_time_s(*, payload_bytes: FloatLike, latency_s: FloatLike, bytes_per_s: FloatLike) -> FloatArray:
    """Return the time of sending one message to one rank.

    Parameters
    ----------
    payload_bytes, latency_s, bytes_per_s : array_like, shape (n,)
        Message, latency and bandwidth in one direction.

    Returns
    -------
    ndarray, shape (n,)
        Seconds.

    Notes
    -----
    ``alpha + S beta``.

    References
    ----------
    Hockney, Parallel Computing 20 (1994).

    Examples
    --------
    >>> float(send_time_s(payload_bytes=1e9, latency_s=0.5, bytes_per_s=1e9))
    1.5
    """
    return as_floats(latency_s + as_floats(payload_bytes) / bytes_per_s)


def broadcast_time_s(
    *, payload_bytes: FloatLike, num_ranks: FloatLike, latency_s: FloatLike, bytes_per_s: FloatLike
) -> FloatArray:
    """Return the time of a pipelined tree broadcast.

    Parameters
    ----------
    payload_bytes, num_ranks, latency_s, bytes_per_s : array_like, shape (n,)
        As for `all_reduce_ring_time_s`.

    Returns
    -------
    ndarray, shape (n,)
        Seconds; 0 for one rank.

    Notes
    -----
    ``ceil(log2 n) alpha + S beta``.

    References
    ----------
    Thakur, Rabenseifner and Gropp, Int. J. High Perform. Comput. Appl. 19 (2005).

    Examples
    --------
    ceil(log2 5) = 3 steps of 1 s and one of transfer.

    >>> float(broadcast_time_s(payload_bytes=1e9, num_ranks=5, latency_s=1.0, bytes_per_s=1e9))
    4.0
    """
    steps = np.ceil(np.log2(num_ranks))
    return as_floats(np.where(np.equal(num_ranks, 1), 0.0, steps * latency_s + payload_bytes / as_floats(bytes_per_s)))


def effective_bandwidth(
    *, bytes_per_s: FloatLike, message_bytes: FloatLike, half_bandwidth_bytes: FloatLike
) -> FloatArray:
    """Return the bandwidth that a message of a given size reaches.

    Parameters
    ----------
    bytes_per_s : array_like, shape (n,)
        Asymptotic bandwidth.
    message_bytes, half_bandwidth_bytes : array_like, shape (n,)
        Message, and the size that reaches half the asymptote (a calibrated quantity; 0 for no dependence).

    Returns
    -------
    ndarray, shape (n,)
        Bytes per second.

    Notes
    -----
    ``BW S / (S + S_half)``; for ``S_half = alpha BW`` this is the alpha-beta time of one message.

    References
    ----------
    Hockney, Parallel Computing 20 (1994), n-half.

    Examples
    --------
    >>> float(effective_bandwidth(bytes_per_s=100.0, message_bytes=30.0, half_bandwidth_bytes=10.0))
    75.0
    """
    size = np.maximum(message_bytes, 1.0)
    return as_floats(bytes_per_s * (size / (size + half_bandwidth_bytes)))
