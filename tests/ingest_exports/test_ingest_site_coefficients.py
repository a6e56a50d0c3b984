"""Hand-worked: benchmarks in the terms of the step-time model, in that model's own names."""

from __future__ import annotations

import math

import pytest

from surrogate.analytic.coefficients import NAMES
from surrogate.errors import InputError
from surrogate.ingest.exports import (
    MatmulCalibration,
    NetworkCalibration,
    matmul_coefficients,
    network_coefficients,
)

FAST, SLOW = 450e9, 50e9


def network(collective: str, nodes: int, bandwidth: float, *, ranks: int = 16, sd: float = 0.05) -> NetworkCalibration:
    return NetworkCalibration(
        collective=collective,
        num_ranks=ranks,
        num_nodes=nodes,
        latency_log_mean=math.log(30e-6),
        latency_log_sd=0.1,
        bandwidth_log_mean=math.log(bandwidth),
        bandwidth_log_sd=sd,
        residual_sd=0.03,
        num_sizes=20,
        smallest_bytes=8,
        largest_bytes=2**33,
    )


def values(*calibrations: NetworkCalibration) -> dict[str, float]:
    found = network_coefficients(calibrations, fast_link_bytes_per_s=FAST, network_bytes_per_s=SLOW)
    assert {one.name for one in found} <= set(NAMES)
    return {one.name: math.exp(one.mean) for one in found}


def test_a_ring_inside_the_node_is_held_against_the_fast_link() -> None:
    got = values(network("all_reduce", 1, 360e9, ranks=8))
    assert got["tp_ring"] == pytest.approx(450 / 360)
    assert got["dp_intra"] == got["tp_ring"]
    assert got["tp_latency_s"] == pytest.approx(30e-6 / 14), "2 (n - 1) hops of 8 ranks"


def test_a_ring_across_nodes_is_held_against_the_ports_of_a_node() -> None:
    got = values(network("all_gather", 2, 320e9))
    assert got["dp_inter"] == pytest.approx(400 / 320), "8 ranks a node times 50 GB/s"
    assert got["zero3_ring"] == got["dp_inter"]
    assert got["collective_start_s"] == pytest.approx(30e-6 / 4)


def test_all_to_all_crosses_with_the_share_of_peers_outside() -> None:
    got = values(network("alltoall", 2, 60e9))
    assert got["ep_inter"] == pytest.approx(50 / 60 / (8 / 15))


def test_several_of_one_name_are_weighted_and_open_ones_left_out() -> None:
    close, far, blind = (
        network("all_reduce", 2, 300e9),
        network("all_gather", 2, 200e9, sd=0.8),
        network("all_reduce", 2, 1.0, sd=3.0),
    )
    got = network_coefficients([close, far, blind], fast_link_bytes_per_s=FAST, network_bytes_per_s=SLOW)
    one = next(item for item in got if item.name == "dp_inter")
    assert math.exp(one.mean) == pytest.approx(400 / 300, rel=0.02)
    assert one.sd == pytest.approx(math.hypot(0.05, 0.10))
    assert values(network("all_reduce", None, 1e9)) == {}  # type: ignore[arg-type]


def test_nominal_bandwidth_must_be_positive() -> None:
    with pytest.raises(InputError, match="network_bytes_per_s"):
        network_coefficients([], fast_link_bytes_per_s=FAST, network_bytes_per_s=0.0)


def test_matmul_efficiency_and_start_cost() -> None:
    one = MatmulCalibration(
        precision="bf16",
        peak_flops_per_s=1e15,
        efficiency_log_mean=math.log(0.8),
        efficiency_log_sd=0.02,
        half_flops_log_mean=math.log(4e9),
        half_flops_log_sd=0.3,
        residual_sd=0.02,
        num_shapes=9,
    )
    got = {item.name: item for item in matmul_coefficients([one])}
    assert set(got) == {"matmul", "small_matmul"} <= set(NAMES)
    assert math.exp(got["matmul"].mean) == pytest.approx(1.25)
    assert math.exp(got["small_matmul"].mean) == pytest.approx(5.0), "4 GFLOP at half rate cost 4 / 0.8 of the peak's"
    assert got["matmul"].sd == pytest.approx(math.hypot(0.02, 0.10))
