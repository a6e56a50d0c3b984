"""Latency and bus bandwidth of a network from nccl-tests measurements.

Notation
--------
S   message size in bytes, as nccl-tests prints it
f   traffic factor: bus bandwidth over algorithm bandwidth, 2 (n - 1) / n for all-reduce, (n - 1) / n for all-gather,
    reduce-scatter and all-to-all, 1 for send-receive (nccl-tests, doc/PERFORMANCE.md)
a   latency in seconds; b bus bandwidth in bytes/s:   t = a + f S / b
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np

from surrogate.errors import InputError
from surrogate.ingest.exports.calibration import LARGEST_LOG_SD, FloatArray, fit_logs
from surrogate.ingest.exports.nccl import CollectiveMeasurement

Scope = Literal["intra-node", "inter-node", "unknown"]
_FEWEST_SIZES: Final = 3
_LARGEST_LOG: Final = 60.0


@dataclass(frozen=True, kw_only=True, slots=True)
class NetworkCalibration:
    """What one collective on one set of ranks says of the links between them.

    Parameters
    ----------
    collective : str
        The operation measured.
    num_ranks, num_nodes : int or None
        Participants; None when the output does not tell.
    latency_log_mean, latency_log_sd : float
        Natural logarithm of the latency in seconds.
    bandwidth_log_mean, bandwidth_log_sd : float
        Natural logarithm of the bus bandwidth in bytes per second, one direction, per rank.
    residual_sd : float
        Robust scatter of the log times around the fit.
    num_sizes : int
        Message sizes behind it.
    smallest_bytes, largest_bytes : int
        Their range.
    """

    collective: str
    num_ranks: int | None
    num_nodes: int | None
    latency_log_mean: float
    latency_log_sd: float
    bandwidth_log_mean: float
    bandwidth_log_sd: float
    residual_sd: float
    num_sizes: int
    smallest_bytes: int
    largest_bytes: int

    @property
    def latency_s(self) -> float:
        """Median latency in seconds."""
        return math.exp(self.latency_log_mean)

    @property
    def bandwidth_bytes_per_s(self) -> float:
        """Median bus bandwidth in bytes per second."""
        return math.exp(self.bandwidth_log_mean)

    @property
    def scope(self) -> Scope:
        """Which links the slowest hop uses."""
        if self.num_nodes is None:
            return "unknown"
        return "intra-node" if self.num_nodes == 1 else "inter-node"


def calibrate_network(measurements: Iterable[CollectiveMeasurement]) -> tuple[NetworkCalibration, ...]:
    """Fit latency and bandwidth for each collective and set of ranks.

    Parameters
    ----------
    measurements : iterable of CollectiveMeasurement
        From `read_nccl_tests`; figures with wrong values are left out, both halves of a line count as one.

    Returns
    -------
    tuple of NetworkCalibration
        In the order of first appearance.

    Raises
    ------
    InputError
        No group has at least three message sizes.
    """
    groups: dict[tuple[str, int | None, int | None], list[CollectiveMeasurement]] = {}
    for one in measurements:
        if one.num_wrong == 0 and one.message_bytes > 0:
            groups.setdefault((one.collective, one.num_ranks, one.num_nodes), []).append(one)
    fitted = tuple(_fitted(key, group) for key, group in groups.items() if _num_sizes(group) >= _FEWEST_SIZES)
    if not fitted:
        most = max((_num_sizes(group) for group in groups.values()), default=0)
        rule = f"must hold at least {_FEWEST_SIZES} message sizes of one collective"
        raise InputError("measurements", rule, most, "run with -b 8 -e 4G -f 2")
    return fitted


def _num_sizes(group: Sequence[CollectiveMeasurement]) -> int:
    return len({one.message_bytes for one in group})


def traffic_factor(collective: str, num_ranks: int | None) -> float:
    """Return bus bandwidth over algorithm bandwidth for a collective on `num_ranks` ranks.

    Examples
    --------
    >>> traffic_factor("all_reduce", 8), traffic_factor("all_gather", 4), traffic_factor("sendrecv", 2)
    (1.75, 0.75, 1.0)
    """
    if num_ranks is None or num_ranks < 2 or collective in ("sendrecv", "broadcast", "reduce"):
        return 1.0
    share = (num_ranks - 1) / num_ranks
    return 2 * share if collective == "all_reduce" else share


def _fitted(key: tuple[str, int | None, int | None], group: Sequence[CollectiveMeasurement]) -> NetworkCalibration:
    collective, num_ranks, num_nodes = key
    sizes, times_s = _median_times(group)
    traffic_bytes = traffic_factor(collective, num_ranks) * sizes
    start = np.array([np.log(times_s.min()), np.log((traffic_bytes / times_s).max())])

    def log_time(parameters: FloatArray) -> FloatArray:
        latency_s, bandwidth = np.exp(np.clip(parameters, -_LARGEST_LOG, _LARGEST_LOG))
        return np.asarray(np.log(latency_s + traffic_bytes / bandwidth))

    fit = fit_logs(log_time, np.log(times_s), start, np.full(2, _LARGEST_LOG))
    shares = traffic_bytes / np.exp(fit.means[1]) / times_s
    latency_sd = LARGEST_LOG_SD if shares.min() > 0.9 else float(fit.sds[0])
    bandwidth_sd = LARGEST_LOG_SD if shares.max() < 0.3 else float(fit.sds[1])
    return NetworkCalibration(
        collective=collective,
        num_ranks=num_ranks,
        num_nodes=num_nodes,
        latency_log_mean=float(fit.means[0]),
        latency_log_sd=latency_sd,
        bandwidth_log_mean=float(fit.means[1]),
        bandwidth_log_sd=bandwidth_sd,
        residual_sd=fit.residual_sd,
        num_sizes=sizes.size,
        smallest_bytes=int(sizes.min()),
        largest_bytes=int(sizes.max()),
    )


def _median_times(group: Sequence[CollectiveMeasurement]) -> tuple[FloatArray, FloatArray]:
    by_size: dict[int, list[float]] = {}
    for one in group:
        by_size.setdefault(one.message_bytes, []).append(one.time_s)
    sizes = np.array(sorted(by_size), dtype=np.float64)
    return sizes, np.array([np.median(by_size[int(size)]) for size in sizes])
