"""All-reduce over two levels: n ranks in each of N nodes, beta_i inside and beta_o per rank outside."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from surrogate.analytic.arrays import FloatLike, as_floats
from surrogate.analytic.collectives import all_gather_bytes, all_reduce_ring_bytes
from surrogate.analytic.workload import FloatArray


class HierarchicalTimes(NamedTuple):
    """Seconds of the phases of a two-level all-reduce, each of shape (n,)."""

    inside_s: FloatArray
    """Reduce-scatter and all-gather inside the nodes together."""
    outside_s: FloatArray
    """All-reduce of a rank's part between the nodes."""

    @property
    def sequential_s(self) -> FloatArray:
        """Phases one after another."""
        return self.inside_s + self.outside_s

    @property
    def pipelined_s(self) -> FloatArray:
        """Phases of different chunks at the same time, a port per rank (NCCL)."""
        return np.maximum(self.inside_s, self.outside_s)


def hierarchical_all_reduce(
    *,
    payload_bytes: FloatLike,
    ranks_per_node: FloatLike,
    num_nodes: FloatLike,
    inside_bytes_per_s: FloatLike,
    outside_bytes_per_s: FloatLike,
) -> HierarchicalTimes:
    """Return the phase times of a two-level all-reduce, latencies apart.

    Parameters
    ----------
    payload_bytes : array_like, shape (n,)
        Full tensor.
    ranks_per_node, num_nodes : array_like, shape (n,)
        n and N.
    inside_bytes_per_s, outside_bytes_per_s : array_like, shape (n,)
        Bandwidth of one rank in one direction.

    Returns
    -------
    HierarchicalTimes
        Seconds of shape (n,).

    Notes
    -----
    Reduce-scatter ``(n-1)/n S beta_i``, all-reduce ``2 (N-1)/N (S/n) beta_o``, all-gather ``(n-1)/n S beta_i``.

    References
    ----------
    BlueConnect, Cho et al., MLSys 2019.

    Examples
    --------
    16.06 GB over 8 nodes of 8 at 300 and 50 GB/s.

    >>> args = {"ranks_per_node": 8, "num_nodes": 8, "inside_bytes_per_s": 300e9, "outside_bytes_per_s": 50e9}
    >>> round(float(hierarchical_all_reduce(payload_bytes=16.06e9, **args).sequential_s), 3)
    0.164
    """
    inside = 2.0 * all_gather_bytes(payload_bytes=payload_bytes, num_ranks=ranks_per_node)
    part = as_floats(payload_bytes) / ranks_per_node
    outside = all_reduce_ring_bytes(payload_bytes=part, num_ranks=num_nodes)
    return HierarchicalTimes(
        inside_s=as_floats(inside / inside_bytes_per_s), outside_s=as_floats(outside / outside_bytes_per_s)
    )


def flat_ring_all_reduce_time_s(
    *,
    payload_bytes: FloatLike,
    num_ranks: FloatLike,
    num_rails: FloatLike,
    inside_bytes_per_s: FloatLike,
    outside_bytes_per_s: FloatLike,
) -> FloatArray:
    """Return the time of one ring all-reduce over all ranks of all nodes, latencies apart.

    Parameters
    ----------
    payload_bytes, num_ranks : array_like, shape (n,)
        Full tensor and ranks, ``n N``, over more than one node.
    num_rails : array_like, shape (n,)
        Network ports used per node, each of `outside_bytes_per_s`.
    inside_bytes_per_s, outside_bytes_per_s : array_like, shape (n,)
        Bandwidth of one rank and of one port in one direction.

    Returns
    -------
    ndarray, shape (n,)
        Seconds.

    Notes
    -----
    ``2 (nN-1)/(nN) S max(beta_i, beta_o / r)``.

    References
    ----------
    nccl-tests doc/PERFORMANCE.md.

    Examples
    --------
    16.06 GB over 64 ranks, 8 rails of 50 GB/s: the inside link, 300 GB/s, is the slower.

    >>> args = {"num_ranks": 64, "num_rails": 8, "inside_bytes_per_s": 300e9, "outside_bytes_per_s": 50e9}
    >>> round(float(flat_ring_all_reduce_time_s(payload_bytes=16.06e9, **args)), 3)
    0.105
    """
    wire = all_reduce_ring_bytes(payload_bytes=payload_bytes, num_ranks=num_ranks)
    slowest = np.minimum(inside_bytes_per_s, as_floats(num_rails) * outside_bytes_per_s)
    return as_floats(wire / slowest)
