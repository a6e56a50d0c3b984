"""Benchmarks in the terms of the step-time model: logarithms of the coefficients that `site add` tightens.

Names and meanings are those of `surrogate.analytic.coefficients`: a link coefficient is the nominal bandwidth over the
achieved one, a matmul coefficient the dense peak over the achieved rate.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Final

from surrogate.errors import InputError
from surrogate.ingest.exports.calibration import LARGEST_LOG_SD, LogCoefficient
from surrogate.ingest.exports.matmul_fit import MatmulCalibration
from surrogate.ingest.exports.nccl_fit import NetworkCalibration
from surrogate.units import GIGA

TRANSFER_LOG_SD: Final = 0.10
"""What a benchmark leaves open about training: other streams, sizes and clocks. A judgement, to be given otherwise."""

_MATMUL_NAMES: Final = {
    "bf16": "matmul",
    "fp16": "matmul",
    "fp8": "matmul_fp8",
    "mxfp8": "matmul_fp8",
    "nvfp4": "matmul_fp4",
    "int8": "matmul_int8",
}
_RINGS: Final[Mapping[tuple[str, bool], tuple[str, ...]]] = {
    ("all_reduce", False): ("tp_ring", "dp_intra"),
    ("reduce_scatter", False): ("tp_ring", "dp_intra"),
    ("all_gather", False): ("tp_ring", "dp_intra"),
    ("all_reduce", True): ("dp_inter",),
    ("reduce_scatter", True): ("dp_inter", "zero3_ring"),
    ("all_gather", True): ("dp_inter", "zero3_ring"),
}


def matmul_coefficients(
    calibrations: Iterable[MatmulCalibration], *, transfer_log_sd: float = TRANSFER_LOG_SD
) -> tuple[LogCoefficient, ...]:
    """Return the matmul coefficients that benchmarks fix, each as (name, mean, sd) of its natural logarithm.

    Parameters
    ----------
    calibrations : iterable of MatmulCalibration
        One accelerator's, of any precisions.
    transfer_log_sd : float
        Standard deviation of training against the benchmark, added in quadrature.

    Notes
    -----
    matmul = 1 / e; small_matmul = H / e in GFLOP, what the start of a product costs.
    """
    found: list[LogCoefficient] = []
    for one in calibrations:
        name = _MATMUL_NAMES.get(one.precision)
        if name is None:
            continue
        found.append(LogCoefficient(name, -one.efficiency_log_mean, math.hypot(one.efficiency_log_sd, transfer_log_sd)))
        if name == "matmul":
            mean = one.half_flops_log_mean - one.efficiency_log_mean - math.log(GIGA)
            sd = math.hypot(one.half_flops_log_sd, one.efficiency_log_sd, transfer_log_sd)
            found.append(LogCoefficient("small_matmul", mean, sd))
    return combined(found)


def network_coefficients(
    calibrations: Iterable[NetworkCalibration],
    *,
    fast_link_bytes_per_s: float,
    network_bytes_per_s: float,
    transfer_log_sd: float = TRANSFER_LOG_SD,
) -> tuple[LogCoefficient, ...]:
    """Return the network coefficients that nccl-tests fix, each as (name, mean, sd) of its natural logarithm.

    Parameters
    ----------
    calibrations : iterable of NetworkCalibration
        Those without a known number of nodes are left out.
    fast_link_bytes_per_s, network_bytes_per_s : float
        Nominal bandwidths of one accelerator, one direction: its fast link, its share of the node's network.
    transfer_log_sd : float
        Standard deviation of training against the benchmark, added in quadrature.

    Raises
    ------
    InputError
        A nominal bandwidth is not positive.
    """
    for name, value in {
        "fast_link_bytes_per_s": fast_link_bytes_per_s,
        "network_bytes_per_s": network_bytes_per_s,
    }.items():
        if not (math.isfinite(value) and value > 0):
            raise InputError(name, "must be a positive number of bytes per second", value)
    found: list[LogCoefficient] = []
    for one in calibrations:
        found += _of_one(one, fast_link_bytes_per_s, network_bytes_per_s, transfer_log_sd)
    return combined(found)


def combined(coefficients: Iterable[LogCoefficient]) -> tuple[LogCoefficient, ...]:
    """Return one coefficient per name: several of one name are weighted by their precision.

    The standard deviation is the smallest given: benchmarks of one machine do not err independently.
    """
    by_name: dict[str, list[LogCoefficient]] = {}
    for one in coefficients:
        if one.sd < LARGEST_LOG_SD:
            by_name.setdefault(one.name, []).append(one)
    return tuple(
        LogCoefficient(
            name,
            sum(one.mean / one.sd**2 for one in group) / sum(1 / one.sd**2 for one in group),
            min(one.sd for one in group),
        )
        for name, group in by_name.items()
    )


def _of_one(one: NetworkCalibration, fast: float, slow: float, transfer_log_sd: float) -> list[LogCoefficient]:
    ranks, nodes = one.num_ranks, one.num_nodes
    if ranks is None or nodes is None or ranks < 2:
        return []
    crosses = nodes > 1
    rate_sd = math.hypot(one.bandwidth_log_sd, transfer_log_sd)
    latency_sd = math.hypot(one.latency_log_sd, transfer_log_sd)
    if one.collective == "alltoall":
        share = (ranks - ranks / nodes) / (ranks - 1) if crosses else 1.0
        name, nominal = ("ep_inter", slow / share) if crosses else ("ep_intra", fast)
        return [LogCoefficient(name, math.log(nominal) - one.bandwidth_log_mean, rate_sd)]
    names = _RINGS.get((one.collective, crosses), ())
    nominal = min(fast, ranks / nodes * slow) if crosses else fast
    found = [LogCoefficient(name, math.log(nominal) - one.bandwidth_log_mean, rate_sd) for name in names]
    if names and crosses:
        starts = math.log2(ranks)
        found.append(LogCoefficient("collective_start_s", one.latency_log_mean - math.log(starts), latency_sd))
    elif names:
        hops = (2 if one.collective == "all_reduce" else 1) * (ranks - 1)
        found.append(LogCoefficient("tp_latency_s", one.latency_log_mean - math.log(hops), latency_sd))
    return found
