"""Matrix-multiplication efficiency of an accelerator from a benchmark.

Notation
--------
F   floating-point operations of one product; P dense peak in FLOP/s
e   efficiency of a very large product; H operations at which half of it is reached:
    t = (F + H) / (P e),   efficiency(F) = e F / (F + H)
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from surrogate.catalog import dense_peak_flops_per_s
from surrogate.errors import InputError
from surrogate.ingest.exports.calibration import LARGEST_LOG_SD, FloatArray, fit_logs
from surrogate.ingest.exports.matmul import MatmulMeasurement

_FEWEST_SHAPES: Final = 3
_LARGEST_LOG: Final = 120.0
_BEYOND_PEAK: Final = 1.05  # a rate this far above the dense peak is a wrong peak, not a fast product


@dataclass(frozen=True, kw_only=True, slots=True)
class MatmulCalibration:
    """What a benchmark says of one accelerator's matrix products at one precision.

    Parameters
    ----------
    precision : str
        Of the runs table.
    peak_flops_per_s : float
        Dense peak that efficiency refers to.
    efficiency_log_mean, efficiency_log_sd : float
        Natural logarithm of the efficiency of very large products.
    half_flops_log_mean, half_flops_log_sd : float
        Natural logarithm of the operations at which half of that is reached.
    residual_sd : float
        Robust scatter of the log times around the fit.
    num_shapes : int
        Shapes behind it.
    """

    precision: str
    peak_flops_per_s: float
    efficiency_log_mean: float
    efficiency_log_sd: float
    half_flops_log_mean: float
    half_flops_log_sd: float
    residual_sd: float
    num_shapes: int

    @property
    def max_efficiency(self) -> float:
        """Efficiency of a very large product, a fraction of the dense peak."""
        return math.exp(self.efficiency_log_mean)

    @property
    def half_flops(self) -> float:
        """Operations at which half of `max_efficiency` is reached."""
        return math.exp(self.half_flops_log_mean)

    def efficiency(self, flops: float) -> float:
        """Return the expected fraction of the dense peak for a product of `flops` operations."""
        return self.max_efficiency * flops / (flops + self.half_flops)


def calibrate_matmul(
    measurements: Iterable[MatmulMeasurement], accelerator: str, *, precision: str = ""
) -> tuple[MatmulCalibration, ...]:
    """Fit the efficiency of each precision measured.

    Parameters
    ----------
    measurements : iterable of MatmulMeasurement
        From `read_matmul`.
    accelerator : str
        Catalogue name or alias; its dense peak is the reference.
    precision : str
        For measurements that do not name their data type.

    Raises
    ------
    InputError
        Too few shapes, no precision, or rates beyond the accelerator's dense peak.
    UnknownNameError
        No such accelerator.
    """
    groups: dict[str, list[MatmulMeasurement]] = {}
    for one in measurements:
        groups.setdefault(one.dtype or precision, []).append(one)
    if "" in groups:
        raise InputError("precision", "must be given: the benchmark does not name its data type", None, "e.g. bf16")
    fitted = tuple(
        fit_matmul(group, peak_flops_per_s=dense_peak_flops_per_s(accelerator, name), precision=name)
        for name, group in groups.items()
        if _num_shapes(group) >= _FEWEST_SHAPES
    )
    if not fitted:
        most = max((_num_shapes(group) for group in groups.values()), default=0)
        raise InputError("measurements", f"must hold at least {_FEWEST_SHAPES} shapes of one data type", most)
    return fitted


def fit_matmul(
    measurements: Sequence[MatmulMeasurement], *, peak_flops_per_s: float, precision: str
) -> MatmulCalibration:
    """Fit t = (F + H) / (P e) in log time, outliers weighted down, e at most 1.

    Raises
    ------
    InputError
        A rate lies beyond the dense peak.
    """
    flops, times_s = _median_times(measurements)
    best = float((flops / times_s).max())
    if best > _BEYOND_PEAK * peak_flops_per_s:
        rule = f"must not exceed the dense peak of {peak_flops_per_s:.4g} FLOP/s at {precision}"
        raise InputError("measured rate", rule, f"{best:.4g}", "name the accelerator and data type that were measured")
    start = np.array([np.log(best / peak_flops_per_s), np.log(flops.min())])

    def log_time(parameters: FloatArray) -> FloatArray:
        efficiency, half = np.exp(np.clip(parameters, -_LARGEST_LOG, _LARGEST_LOG))
        return np.asarray(np.log((flops + half) / (peak_flops_per_s * efficiency)))

    fit = fit_logs(log_time, np.log(times_s), start, np.array([0.0, _LARGEST_LOG]))
    half = math.exp(fit.means[1])
    half_is_seen = half > 0.05 * float(flops.min())
    plateau_is_seen = half < 3.0 * float(flops.max())
    return MatmulCalibration(
        precision=precision,
        peak_flops_per_s=peak_flops_per_s,
        efficiency_log_mean=float(fit.means[0]),
        efficiency_log_sd=float(fit.sds[0]) if plateau_is_seen else LARGEST_LOG_SD,
        half_flops_log_mean=float(fit.means[1]),
        half_flops_log_sd=float(fit.sds[1]) if half_is_seen else LARGEST_LOG_SD,
        residual_sd=fit.residual_sd,
        num_shapes=flops.size,
    )


def _num_shapes(group: Sequence[MatmulMeasurement]) -> int:
    return len({(one.m, one.n, one.k, one.batch) for one in group})


def _median_times(group: Sequence[MatmulMeasurement]) -> tuple[FloatArray, FloatArray]:
    by_shape: dict[tuple[int, int, int, int], list[float]] = {}
    flops: dict[tuple[int, int, int, int], float] = {}
    for one in group:
        key = (one.m, one.n, one.k, one.batch)
        by_shape.setdefault(key, []).append(one.time_s)
        flops[key] = one.flops
    times_s = np.array([np.median(times) for times in by_shape.values()])
    return np.array([flops[key] for key in by_shape]), times_s
