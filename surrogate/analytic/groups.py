"""Which link each parallel group uses, from rank order, fast domain and node size.

Ranks are ordered tensor, context, data, pipeline from the fastest varying to the slowest; expert groups divide the
same ranks as expert-tensor, expert, expert-data, pipeline (Megatron's tp-cp-ep-dp-pp). A group of `size` ranks
`stride` apart therefore starts at rank 0, and so do the fast domains.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from surrogate.analytic.arrays import FloatLike, as_floats
from surrogate.analytic.workload import FloatArray, Workload


class Group(NamedTuple):
    """One parallel group and the links under it, each of shape (n,)."""

    size: FloatArray
    stride: FloatArray
    """Distance between neighbouring ranks of the group."""
    ranks_per_domain: FloatArray
    """Ranks of the group that share a fast domain."""
    num_domains: FloatArray
    """Fast domains that the group touches."""
    fast_bytes_per_s: FloatArray
    """One direction, per rank, inside the domain."""
    slow_bytes_per_s: FloatArray
    """One direction, per rank, between domains; the host link while the group stays inside a node."""

    @property
    def ring_bytes_per_s(self) -> FloatArray:
        """Bandwidth per rank of a ring through the group."""
        return ring_bandwidth(
            fast_bytes_per_s=self.fast_bytes_per_s,
            slow_bytes_per_s=self.slow_bytes_per_s,
            ranks_per_domain=self.ranks_per_domain,
            num_domains=self.num_domains,
        )

    @property
    def ring_inter_fraction(self) -> FloatArray:
        """Share of a ring's wire bytes that crosses domains: one of the r hops inside each domain."""
        return (self.num_domains > 1.0) / self.ranks_per_domain

    @property
    def pairwise_inter_fraction(self) -> FloatArray:
        """Share of an all-to-all's wire bytes that crosses domains, peers being equally likely."""
        outside = np.maximum(self.size - self.ranks_per_domain, 0.0)
        return outside / np.maximum(self.size - 1.0, 1.0)


class ParallelGroups(NamedTuple):
    """The groups of every axis."""

    tp: Group
    cp: Group
    pp: Group
    data: Group
    """Ranks with the same dense weights: data x context parallel."""
    data_shard: Group
    """The part of `data` over which ZeRO or FSDP shards."""
    data_replica: Group
    """Copies of a shard: 1 rank unless HSDP."""
    ep: Group
    expert_tp: Group
    expert_data: Group
    """Ranks with the same experts."""
    expert_shard: Group
    """The part of `expert_data` over which ZeRO or FSDP shards."""
    expert_replica: Group
    """Copies of a shard of experts: 1 rank unless HSDP."""


def ranks_in_domain(*, size: FloatLike, stride: FloatLike, domain_size: FloatLike) -> FloatArray:
    """Return how many ranks of a group share a domain of consecutive ranks.

    Parameters
    ----------
    size, stride : array_like, shape (n,)
        Ranks of the group and the distance between neighbours.
    domain_size : array_like, shape (n,)
        Consecutive ranks that share the fast link.

    Returns
    -------
    ndarray, shape (n,)
        At least 1, at most `size`.

    Notes
    -----
    ``min(size, max(1, floor(D / stride)))``. A group lies inside a domain iff ``stride * size <= D``.

    Assumptions: groups do not straddle a domain boundary, which holds whenever one of D and ``stride * size``
    divides the other; otherwise the figure is that of the luckiest group.

    References
    ----------
    Megatron-LM, arXiv 2104.04473, section 3.4 (mapping of groups to nodes).

    Examples
    --------
    Data parallel ranks 4 apart on nodes of 8.

    >>> float(ranks_in_domain(size=16, stride=4, domain_size=8))
    2.0
    """
    return as_floats(np.minimum(size, np.maximum(1.0, np.floor(as_floats(domain_size) / stride))))


def ring_bandwidth(
    *,
    fast_bytes_per_s: FloatLike,
    slow_bytes_per_s: FloatLike,
    ranks_per_domain: FloatLike,
    num_domains: FloatLike,
) -> FloatArray:
    """Return the bandwidth per rank of a ring that uses the network port of each of its ranks.

    Parameters
    ----------
    fast_bytes_per_s, slow_bytes_per_s : array_like, shape (n,)
        One direction, per rank, inside and between domains.
    ranks_per_domain, num_domains : array_like, shape (n,)
        Ranks of the group in a domain, and domains.

    Returns
    -------
    ndarray, shape (n,)
        Bytes per second.

    Notes
    -----
    ``min(fast, r slow)`` across domains, ``fast`` inside one: r ranks in a domain open r rings, each leaving
    through another port.

    References
    ----------
    NCCL, github.com/NVIDIA/nccl-tests doc/PERFORMANCE.md (bus bandwidth).

    Examples
    --------
    >>> float(ring_bandwidth(fast_bytes_per_s=450.0, slow_bytes_per_s=50.0, ranks_per_domain=2, num_domains=4))
    100.0
    """
    crossing = np.minimum(fast_bytes_per_s, as_floats(ranks_per_domain) * slow_bytes_per_s)
    return as_floats(np.where(as_floats(num_domains) > 1.0, crossing, fast_bytes_per_s))


def parallel_groups(w: Workload) -> ParallelGroups:
    """Return every parallel group of a layout with the links it uses.

    Parameters
    ----------
    w : Workload
        n configurations.

    Returns
    -------
    ParallelGroups
        Groups with fields of shape (n,).

    Notes
    -----
    Strides: tensor 1, context and data t, pipeline N / p; expert-tensor 1, expert t_e, expert-data t_e e. The
    sizes are t, c, p, d c, and for experts t_e, e, N / (p e t_e). Shards of dense weights spread over z ranks put
    experts on ``z t / (e t_e)``.

    References
    ----------
    Megatron-LM, arXiv 2104.04473, section 3; expert groups as in Megatron Core's parallel_state.
    """
    one = np.ones(len(w))
    stage_gpus = w.num_gpus / w.pp
    replicas = np.maximum(w.dp * w.cp / w.shard_size, 1.0)
    expert_block = w.ep * w.expert_tp
    same_experts = np.maximum(stage_gpus / expert_block, 1.0)
    expert_shard = np.clip(w.shard_size * w.tp / expert_block, 1.0, same_experts)
    return ParallelGroups(
        tp=_group(w, size=w.tp, stride=one),
        cp=_group(w, size=w.cp, stride=w.tp),
        pp=_group(w, size=w.pp, stride=stage_gpus),
        data=_group(w, size=w.dp * w.cp, stride=w.tp),
        data_shard=_group(w, size=w.shard_size, stride=w.tp),
        data_replica=_group(w, size=replicas, stride=w.tp * w.shard_size),
        ep=_group(w, size=w.ep, stride=w.expert_tp),
        expert_tp=_group(w, size=w.expert_tp, stride=one),
        expert_data=_group(w, size=same_experts, stride=expert_block),
        expert_shard=_group(w, size=expert_shard, stride=expert_block),
        expert_replica=_group(w, size=same_experts / expert_shard, stride=expert_block * expert_shard),
    )


def _group(w: Workload, *, size: FloatArray, stride: FloatArray) -> Group:
    inside = ranks_in_domain(size=size, stride=stride, domain_size=w.fast_domain_gpus)
    in_node = stride * size <= w.gpus_per_node
    return Group(
        size=size,
        stride=stride,
        ranks_per_domain=inside,
        num_domains=np.ceil(size / inside),
        fast_bytes_per_s=w.fast_link_bytes_per_s,
        slow_bytes_per_s=w.network_bytes_per_s + in_node * (w.host_link_bytes_per_s - w.network_bytes_per_s),
    )
