"""Hardware columns of the workload: catalogue values, overridden by what the row says."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from surrogate.analytic.workload import BoolArray, FloatArray, IntArray, Precision
from surrogate.catalog import Accelerator, dense_peak_flops_per_s, resolve_accelerator
from surrogate.features.columns import lookup, texts
from surrogate.features.imputation import Imputer

PRECISIONS = {
    "fp32": Precision.FP32,
    "tf32": Precision.FP32,
    "fp16": Precision.BITS_16,
    "bf16": Precision.BITS_16,
    "int8": Precision.INT8,
    "fp8": Precision.FP8,
    "mxfp8": Precision.MXFP8,
    "nvfp4": Precision.FP4,
}
_FAMILIES = {
    "Volta": "V100",
    "Ampere": "A100",
    "Hopper": "H100",
    "Blackwell": "Blackwell",
    "Blackwell Ultra": "Blackwell",
}
_TORUS_SLICE_GPUS = 256.0
"""Chips of a TPU slice where the catalogue gives no pod size (v5e, v6e)."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Hardware:
    """Arrays of shape (n,); the first block has the names of `Workload`'s fields."""

    peak_flops_per_s: FloatArray
    peak_16bit_flops_per_s: FloatArray
    hbm_bytes: FloatArray
    hbm_bytes_per_s: FloatArray
    fast_link_bytes_per_s: FloatArray
    fast_domain_gpus: FloatArray
    gpus_per_node: FloatArray
    network_bytes_per_s: FloatArray
    host_link_bytes_per_s: FloatArray
    precision: IntArray
    accelerator: pd.Categorical
    family: pd.Categorical
    """V100, A100, H100, Blackwell, TPU, or other."""
    is_tpu: BoolArray
    whole_program: BoolArray


def accelerator_family(accelerator: Accelerator) -> str:
    """Return the family under which transfer to a new accelerator is tested."""
    if accelerator.vendor == "Google":
        return "TPU"
    return _FAMILIES.get(accelerator.architecture, "other")


def hardware_of(runs: pd.DataFrame, imputer: Imputer) -> Hardware:
    """Return what each row runs on.

    Raises
    ------
    UnknownNameError
        If an accelerator is not in the catalogue.
    InputError
        If an accelerator has no published rate for the row's precision or a wider one.
    """
    names = texts(runs, "accelerator")
    index = _devices(names)

    def of(attribute: str) -> FloatArray:
        return np.asarray(lookup(names, lambda name: getattr(index[name], attribute)), dtype=np.float64)

    precision = texts(runs, "precision")
    imputer.flag("precision", np.asarray(precision == "", dtype=np.bool_))
    codes = lookup(precision, lambda text: int(PRECISIONS.get(text, Precision.BITS_16)), int)
    nodes = imputer.fill("gpus_per_node", of("gpus_per_node"))
    per_node = imputer.fill("inter_node_bytes_per_s", of("nic_bytes_per_s") * nodes)
    is_tpu = np.asarray(lookup(names, lambda name: index[name].vendor == "Google", bool), dtype=np.bool_)
    own = of("fast_domain_gpus")
    switched = np.where(own > 8.0, own, nodes)
    domain = imputer.fill("nvlink_domain_gpus", np.where(is_tpu, own, switched))
    return Hardware(
        peak_flops_per_s=_peaks(names, precision),
        peak_16bit_flops_per_s=np.asarray(lookup(names, lambda name: _peak(index[name], "")), dtype=np.float64),
        hbm_bytes=of("hbm_bytes"),
        hbm_bytes_per_s=of("hbm_bytes_per_s"),
        fast_link_bytes_per_s=of("fast_link_bytes_per_s"),
        fast_domain_gpus=np.where(is_tpu, np.maximum(own, _TORUS_SLICE_GPUS), domain),
        gpus_per_node=nodes,
        network_bytes_per_s=per_node / nodes,
        host_link_bytes_per_s=of("host_link_bytes_per_s"),
        precision=np.asarray(codes, dtype=np.int64),
        accelerator=names,
        family=pd.Categorical(lookup(names, lambda name: accelerator_family(index[name]), object)),
        is_tpu=is_tpu,
        whole_program=is_tpu
        | np.asarray(lookup(names, lambda name: name.startswith(("Gaudi", "Trainium")), bool), dtype=np.bool_),
    )


def _devices(names: pd.Categorical) -> dict[str, Accelerator]:
    """Return what the catalogue knows of each distinct name."""
    return {str(name): resolve_accelerator(str(name)) for name in names.categories}


def _peaks(names: pd.Categorical, precision: pd.Categorical) -> FloatArray:
    """Return the peak per row; each distinct pair of accelerator and precision is looked up once."""
    index = _devices(names)
    width = len(precision.categories)
    pairs, inverse = np.unique(names.codes.astype(np.int64) * width + precision.codes, return_inverse=True)
    table = [_peak(index[names.categories[pair // width]], precision.categories[pair % width]) for pair in pairs]
    return np.asarray(table, dtype=np.float64)[inverse]


def _peak(accelerator: Accelerator, precision: str) -> float:
    """Return the dense peak; without a precision that of 16-bit products, bf16 first."""
    if precision:
        return dense_peak_flops_per_s(accelerator, precision)
    rate = accelerator.bf16_flops_per_s or accelerator.fp16_flops_per_s
    return float(rate) if rate else dense_peak_flops_per_s(accelerator, "fp16")
