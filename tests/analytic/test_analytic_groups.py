"""Parallel groups: who shares a fast domain, and how fast a ring through the group is."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from surrogate.analytic.groups import parallel_groups, ranks_in_domain, ring_bandwidth


@pytest.mark.parametrize(
    ("size", "stride", "domain", "expected"),
    [(8, 1, 8, 8), (4, 2, 8, 4), (8, 2, 8, 4), (16, 8, 8, 1), (16, 64, 8, 1), (64, 1, 72, 64), (4, 16, 72, 4)],
)
def test_ranks_in_domain(size, stride, domain, expected):
    assert ranks_in_domain(size=size, stride=stride, domain_size=domain) == expected


def test_enumerated_ranks_agree():
    for size, stride, domain in ((8, 2, 8), (4, 4, 8), (16, 1, 8), (2, 8, 16)):
        domains = np.arange(size) * stride // domain
        inside = np.bincount(domains)
        assert ranks_in_domain(size=size, stride=stride, domain_size=domain) == inside.max()


def test_order_is_tensor_context_data_pipeline(make_workload):
    groups = parallel_groups(make_workload(tp=4, cp=2, dp=8, pp=2))
    assert (groups.tp.stride[0], groups.cp.stride[0], groups.data.stride[0], groups.pp.stride[0]) == (1, 4, 4, 64)
    assert groups.data.size[0] == 16
    assert (groups.tp.num_domains[0], groups.cp.num_domains[0]) == (1, 1)
    assert (groups.data.ranks_per_domain[0], groups.data.num_domains[0]) == (2, 8)
    assert groups.pp.num_domains[0] == 2


def test_expert_groups_divide_the_same_ranks(make_workload):
    groups = parallel_groups(make_workload(tp=4, dp=8, pp=2, ep=8, expert_tp=2, num_experts=8))
    assert (groups.expert_tp.size[0], groups.ep.stride[0], groups.ep.num_domains[0]) == (2, 2, 2)
    assert (groups.expert_data.size[0], groups.expert_data.stride[0]) == (2, 16)


def test_hybrid_sharding_splits_the_data_group(make_workload):
    groups = parallel_groups(make_workload(dp=32, shard_size=8))
    assert (groups.data_shard.size[0], groups.data_shard.num_domains[0]) == (8, 1)
    assert (groups.data_replica.size[0], groups.data_replica.stride[0], groups.data_replica.num_domains[0]) == (4, 8, 4)


def test_ring_uses_the_port_of_each_of_its_ranks(make_workload):
    groups = parallel_groups(make_workload(tp=[1, 2, 4, 8], dp=16))
    np.testing.assert_allclose(groups.data.ring_bytes_per_s, [400e9, 200e9, 100e9, 50e9])
    np.testing.assert_allclose(groups.tp.ring_bytes_per_s, 450e9)
    assert ring_bandwidth(fast_bytes_per_s=3.0, slow_bytes_per_s=2.0, ranks_per_domain=2, num_domains=2) == 3.0


def test_a_node_without_a_common_fast_link_goes_through_the_host(make_workload):
    groups = parallel_groups(make_workload(tp=4, dp=4, fast_domain_gpus=2))
    assert groups.tp.num_domains[0] == 2
    assert groups.tp.slow_bytes_per_s[0] == 64e9
    assert groups.data.slow_bytes_per_s[0] == 50e9


def test_shares_that_cross_domains(make_workload):
    groups = parallel_groups(make_workload(tp=2, dp=16, ep=16, num_experts=16))
    assert groups.data.ring_inter_fraction[0] == 1 / 4
    assert groups.ep.pairwise_inter_fraction[0] == 8 / 15
    assert groups.tp.ring_inter_fraction[0] == groups.tp.pairwise_inter_fraction[0] == 0


@given(seed=st.integers(0, 2**16))
def test_groups_are_consistent(make_random_workload, seed):
    w = make_random_workload(seed, 40)
    groups = parallel_groups(w)
    for group in groups:
        assert np.all((group.ranks_per_domain >= 1) & (group.ranks_per_domain <= group.size))
        assert np.all(group.num_domains * group.ranks_per_domain >= group.size)
        assert np.all((group.ring_inter_fraction >= 0) & (group.ring_inter_fraction <= 1))
        assert np.all(group.ring_bytes_per_s <= group.fast_bytes_per_s)
    np.testing.assert_allclose(groups.data_shard.size * groups.data_replica.size, groups.data.size)
    np.testing.assert_allclose(groups.expert_shard.size * groups.expert_replica.size, groups.expert_data.size)
    np.testing.assert_allclose(groups.expert_data.size * w.ep * w.expert_tp * w.pp, w.num_gpus)


def test_hybrid_sharding_spreads_experts_over_the_same_gpus(make_workload):
    w = make_workload(tp=2, dp=32, ep=4, num_experts=8, shard_size=8)
    groups = parallel_groups(w)
    assert (groups.expert_shard.size[0], groups.expert_shard.stride[0]) == (8 * 2 / 4, 4)
    assert (groups.expert_replica.size[0], groups.expert_replica.stride[0]) == (4, 16)
