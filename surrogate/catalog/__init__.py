"""What is publicly known about accelerators, networks, models and clusters, each value with its source."""

from surrogate.catalog.accelerators import Accelerator, load_accelerators, resolve_accelerator
from surrogate.catalog.peaks import (
    RATES_BY_PRECISION,
    accelerator_columns,
    canonical_accelerators,
    dense_peak_flops_per_s,
    dense_peaks_flops_per_s,
    peak_rate_used,
)

__all__ = [
    "RATES_BY_PRECISION",
    "Accelerator",
    "accelerator_columns",
    "canonical_accelerators",
    "dense_peak_flops_per_s",
    "dense_peaks_flops_per_s",
    "load_accelerators",
    "peak_rate_used",
    "resolve_accelerator",
]
