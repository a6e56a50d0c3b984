"""Checkpoint bytes and times."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from surrogate.errors import InputError
from surrogate.reliability.checkpointing import (
    CheckpointLayout,
    StorageSpec,
    checkpoint_size,
    checkpoint_times,
    memory_checkpoint_times,
    memory_recovery_probability,
    stalled_throughput_fraction,
)

STORAGE = StorageSpec(
    write_bytes_per_s=50e9, read_bytes_per_s=100e9, host_link_bytes_per_s=25e9, node_bytes_per_s=10e9, barrier_s=2.0
)


def _layout(**values: object) -> CheckpointLayout:
    base = {"num_params": 64e9, "num_gpus": 64, "gpus_per_node": 8, "tp": 8, "pp": 2, "dp": 4}
    return CheckpointLayout(**(base | values))


def test_sizes_worked_by_hand() -> None:
    size = checkpoint_size(_layout())
    assert float(size.total_bytes) == 64e9 * 14
    assert float(size.rank_bytes) == 64e9 * 14 / 64
    assert float(size.node_bytes) == 64e9 * 14 / 8
    assert float(size.load_bytes) == 64e9 * 14


def test_an_unsharded_save_is_written_by_one_replica() -> None:
    size = checkpoint_size(_layout(sharded=False))
    assert float(size.rank_bytes) == 64e9 * 14 / 16
    assert float(size.node_bytes) == 64e9 * 14 / 2


def test_replicas_that_all_read_read_more() -> None:
    assert float(checkpoint_size(_layout(replicated_reads=True)).load_bytes) == 64e9 * (2 * 4 + 12)
    assert float(checkpoint_size(_layout(replicated_reads=True, sharded=False)).load_bytes) == 64e9 * 14 * 4


def test_times_worked_by_hand() -> None:
    size = checkpoint_size(_layout())
    behind = checkpoint_times(size, STORAGE)
    assert float(behind.stall_s) == pytest.approx(14e9 / 25e9 + 2.0)
    assert float(behind.persist_s) == pytest.approx(896e9 / 50e9)
    blocking = checkpoint_times(size, STORAGE, asynchronous=False)
    assert float(blocking.stall_s) == pytest.approx(896e9 / 50e9 + 2.0)
    assert float(blocking.persist_s) == 0.0
    assert float(blocking.load_s) == pytest.approx(896e9 / 8 / 10e9)


def test_bloom_wrote_at_61_gigabytes_per_second() -> None:
    layout = CheckpointLayout(num_params=176e9, num_gpus=384, gpus_per_node=8, tp=4, pp=12, dp=8)
    total = float(checkpoint_size(layout).total_bytes)
    assert total / 40.0 == pytest.approx(61.6e9, rel=1e-3)
    assert total / 2**30 == pytest.approx(2294.8, abs=0.1)


@given(factor=st.floats(1.0, 10.0))
def test_more_bandwidth_is_never_slower(factor: float) -> None:
    size = checkpoint_size(_layout())
    names = ("write_bytes_per_s", "read_bytes_per_s", "host_link_bytes_per_s", "node_bytes_per_s")
    values = {name: getattr(STORAGE, name) for name in names}
    before = checkpoint_times(size, StorageSpec(**values), asynchronous=False)
    for name in names:
        after = checkpoint_times(size, StorageSpec(**(values | {name: values[name] * factor})), asynchronous=False)
        assert after.save_s <= before.save_s
        assert after.load_s <= before.load_s


def test_memory_copies_cost_traffic_but_no_storage() -> None:
    times = memory_checkpoint_times(checkpoint_size(_layout()), STORAGE, copies=3)
    assert float(times.persist_s) == pytest.approx(2 * 112e9 / 10e9)
    assert float(times.stall_s) == pytest.approx(14e9 / 25e9 + 2.0)


@pytest.mark.parametrize("lost", [1, 2, 3])
def test_recovery_from_memory_matches_enumeration(lost: int) -> None:
    groups = [{2 * group, 2 * group + 1} for group in range(8)]
    sets = [set(chosen) for chosen in combinations(range(16), lost)]
    survives = np.mean([not any(group <= chosen for group in groups) for chosen in sets])
    assert float(memory_recovery_probability(num_nodes=16, copies=2, lost=lost)) == pytest.approx(survives)


def test_reference_vectors_of_recovery_from_memory() -> None:
    chance = memory_recovery_probability(num_nodes=16, copies=2, lost=np.array([1, 2, 3]))
    assert chance == pytest.approx([1.0, 0.9333, 0.8], abs=5e-5)


def test_stall_is_spread_over_its_steps() -> None:
    assert float(stalled_throughput_fraction(step_time_s=105.0, steps=100, stall_s=40.0)) == pytest.approx(
        1 / 1.0038095
    )


@pytest.mark.parametrize(("field", "value"), [("num_params", 0.0), ("dp", -1), ("num_gpus", float("inf"))])
def test_bad_layouts_are_named(field: str, value: float) -> None:
    with pytest.raises(InputError) as caught:
        checkpoint_size(_layout(**{field: value}))
    assert caught.value.field == field


def test_no_bandwidth_is_refused() -> None:
    slow = StorageSpec(write_bytes_per_s=0.0, read_bytes_per_s=1.0, host_link_bytes_per_s=1.0, node_bytes_per_s=1.0)
    with pytest.raises(InputError, match="write_bytes_per_s"):
        checkpoint_times(checkpoint_size(_layout()), slow)
