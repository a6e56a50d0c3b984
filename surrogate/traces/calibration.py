"""What a trace teaches the analytic model: a row of the runs table and priors for coefficients.

A prior is a normal distribution of the logarithm of a coefficient of `surrogate.analytic.coefficients`, by name.
Only what the trace measures directly is given; everything else keeps its textbook prior.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

from surrogate.catalog.accelerators import Accelerator, resolve_accelerator
from surrogate.errors import FileFormatError, InputError
from surrogate.traces.breakdown import break_down_steps
from surrogate.traces.collectives import collective_rows
from surrogate.traces.columns import FloatArray, Trace, TraceInfo
from surrogate.traces.phases import Phase, device_phases, is_training
from surrogate.traces.rates import MatrixProduct, bus_bytes, matrix_products
from surrogate.traces.replay import is_steady, steady_mean_s
from surrogate.units import GIB, GIGA, MIB

MIN_SAMPLES: Final = 3
MIN_LOG_SD: Final = 0.1
"""One trace is one machine, one day: a narrower prior would claim more than that."""
MIN_MESSAGE_BYTES: Final = MIB
"""Smaller messages measure latency."""
LARGE_PRODUCT_FLOPS: Final = 30 * GIGA
"""Ten times the textbook size at which a product reaches half its rate: from here on it is "large"."""
MEMORY_STEP_GIB: Final = 8
"""Drivers report a little less than the marketed size, which is a multiple of this."""
_FAMILY: Final = re.compile(r"\b(?:[AHBV]\d{2,3}|GB\d{3}|MI\d{3}[AX]?|L\d{1,2}S?|T4)\b")


class Prior(NamedTuple):
    """Normal prior of a coefficient's logarithm, and the number of measurements behind it."""

    log_mean: float
    log_sd: float
    num_samples: int


def coefficient_priors(traces: Sequence[Trace]) -> dict[str, Prior]:
    """Return priors of the analytic model's coefficients that the traces measure.

    Returns
    -------
    dict
        By coefficient name: ``matmul``, ``matmul_fp8`` (peak over achieved rate of large products), ``small_matmul``
        (GFLOP at half the rate), ``tp_ring``, ``dp_intra``, ``dp_inter``, ``ep_intra``, ``ep_inter`` (link over
        achieved bus bandwidth of the fastest tenth of the calls, at least three).

    Raises
    ------
    FileFormatError
        When the traces hold no training step.

    Notes
    -----
    Empty when the catalogue does not know the accelerator: then no peak is known either.
    """
    for trace in traces:
        if not is_training(trace):
            raise FileFormatError(f"{trace.info.path}: no backward pass: an inference trace cannot calibrate training")
    device = find_accelerator(traces[0].info)
    if device is None:
        return {}
    products = [product for trace in traces for product in matrix_products(trace)]
    samples: dict[str, FloatArray] = {
        "matmul": _large_product_ratios(products, "bits16", device.bf16_flops_per_s or device.fp16_flops_per_s),
        "matmul_fp8": _large_product_ratios(products, "fp8", device.fp8_flops_per_s),
    }
    for trace in traces:
        for name, ratios in _collective_ratios(trace, device).items():
            samples[name] = np.concatenate([samples.get(name, np.zeros(0)), ratios])
    priors = {name: _prior(np.log(values)) for name, values in samples.items() if len(values) >= MIN_SAMPLES}
    half = _half_size_gflop([product for product in products if product.number_format == "bits16"])
    if half is not None:
        priors["small_matmul"] = half
    return priors


def run_row(traces: Sequence[Trace], plan_row: Mapping[str, object] | None = None) -> dict[str, Any]:
    """Return what the traces say as one row of the runs table, SI units.

    Parameters
    ----------
    traces : sequence of Trace
        The ranks of one job.
    plan_row : mapping, optional
        What the configuration was, as `plan_to_row` gives it: a trace does not know the model's sizes.

    Raises
    ------
    FileFormatError
        When the traces hold no training step.
    InputError
        When the plan contradicts the trace's number of ranks.
    """
    first = traces[0]
    device = find_accelerator(first.info)
    if not all(is_training(trace) for trace in traces):
        raise FileFormatError(f"{first.info.path}: no backward pass: an inference trace is no training run")
    slowest = max(
        (break_down_steps(trace) for trace in traces), key=lambda steps: steady_mean_s(steps) if steps else 0.0
    )
    if not slowest:
        raise FileFormatError(f"{first.info.path}: no steps: call profiler.step() once per training step")
    periods = [step.period_s for step in slowest if step.period_s is not None and is_steady(step)]
    step_time_s = steady_mean_s(slowest)
    world_size = first.info.world_size or len(traces)
    measured = {
        "run_id": first.info.path.name.removesuffix(".gz").removesuffix(".json").removesuffix(".pt.trace"),
        "source": "trace",
        "source_ref": str(first.info.path),
        "accelerator": device.name if device else first.info.device_name or None,
        "num_gpus": world_size,
        "status": "ok",
        "step_time_s": step_time_s,
        "step_time_cv": float(np.std(periods) / step_time_s) if len(periods) > 1 else None,
        "n_steps": max(len(periods), 1),
        "notes": "mean of the steady steps of a profiler trace; profiling slows the host",
    }
    planned = {name: value for name, value in (plan_row or {}).items() if value is not None}
    if plan_row and first.info.world_size and planned.get("num_gpus", world_size) != world_size:
        raise InputError(
            "num_gpus", f"must be the {world_size} ranks of the trace", planned["num_gpus"], "correct the plan"
        )
    return (
        planned
        | {name: value for name, value in measured.items() if value is not None and name != "run_id"}
        | {"run_id": planned.get("run_id", measured["run_id"])}
    )


def priors_path(runs_file: Path) -> Path:
    """Return where the priors go: beside the runs file, ``my_runs.parquet`` to ``my_runs.priors.json``."""
    return runs_file.with_name(f"{runs_file.stem}.priors.json")


def find_accelerator(info: TraceInfo) -> Accelerator | None:
    """Return the catalogue's accelerator for a driver's product name; board names go by family and memory.

    ``NVIDIA A100-PG509-200`` with 39.4 GiB is an A100-40GB.
    """
    memory_gib = -(-info.device_memory_bytes // (MEMORY_STEP_GIB * GIB)) * MEMORY_STEP_GIB
    family = _FAMILY.search(info.device_name)
    for name in (info.device_name, f"{family[0]}-{memory_gib:.0f}GB" if family else "", family[0] if family else ""):
        try:
            return resolve_accelerator(name)
        except InputError:
            continue
    return None


def _prior(logs: FloatArray) -> Prior:
    return Prior(float(np.mean(logs)), _with_floor(float(np.std(logs))), len(logs))


def _with_floor(spread: float) -> float:
    return math.hypot(spread, MIN_LOG_SD)


def _large_product_ratios(products: Sequence[MatrixProduct], number_format: str, peak: float | None) -> FloatArray:
    own = [product for product in products if product.number_format == number_format]
    if not own or not peak:
        return np.zeros(0)
    flops, time_s = (np.array([getattr(product, name) for product in own]) for name in ("flops", "time_s"))
    large = flops >= LARGE_PRODUCT_FLOPS
    ratios: FloatArray = peak * time_s[large] / flops[large]
    # A ratio below one would beat the dense peak: the shapes do not describe these kernels.
    return ratios[ratios >= 1.0]


def _half_size_gflop(products: Sequence[MatrixProduct]) -> Prior | None:
    """Fit time = (x + x_half) / rate to the products; needs sizes a factor of four apart."""
    if len(products) < MIN_SAMPLES:
        return None
    flops, time_s = (np.array([getattr(product, name) for product in products]) for name in ("flops", "time_s"))
    if flops.max() < 4 * flops.min():
        return None
    scale = flops.max()
    design = np.stack([np.ones_like(flops), flops / scale], axis=1) / time_s[:, None]
    (fixed_s, slope_s), *_ = np.linalg.lstsq(design, np.ones_like(time_s), rcond=None)
    if fixed_s <= 0 or slope_s <= 0:
        return None
    residual = time_s / (fixed_s + slope_s * flops / scale) - 1.0
    return Prior(math.log(fixed_s / slope_s * scale / GIGA), _with_floor(float(np.std(residual))), len(products))


def _collective_ratios(trace: Trace, device: Accelerator) -> dict[str, FloatArray]:
    """Link over achieved bus bandwidth by coefficient: of the fastest calls, the others wait for other ranks."""
    phases, rates = device_phases(trace), dict[str, list[float]]()
    for row in collective_rows(trace).tolist():
        call = trace.collectives.get(row)
        carried = 0.0 if call is None or call.group_size < 2 else bus_bytes(call)
        if call is None or carried < MIN_MESSAGE_BYTES or not trace.duration_ns[row]:
            continue
        inside = call.group_size <= device.fast_domain_gpus
        link = device.fast_link_bytes_per_s if inside else device.nic_bytes_per_s
        name = _coefficient(call.operation, phases[row] == Phase.FORWARD, inside)
        if link and name:
            rates.setdefault(name, []).append(carried / (float(trace.duration_ns[row]) / GIGA) / link)
    return {name: 1.0 / np.sort(values)[-max(MIN_SAMPLES, len(values) // 10) :] for name, values in rates.items()}


def _coefficient(operation: str, in_forward: bool, inside: bool) -> str | None:
    if operation.startswith("alltoall"):
        return "ep_intra" if inside else "ep_inter"
    if not operation.startswith(("allreduce", "reducescatter", "allgather")):
        return None
    if in_forward:
        return "tp_ring" if inside else None
    return "dp_intra" if inside else "dp_inter"
