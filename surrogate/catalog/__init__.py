"""What is publicly known about accelerators, networks, models and clusters, each value with its source."""

from surrogate.catalog.accelerators import Accelerator, accelerator_index, load_accelerators, resolve_accelerator
from surrogate.catalog.clusters import Cluster, load_clusters, match_cluster, publisher_families
from surrogate.catalog.columns import accelerator_columns, accelerator_table, canonical_accelerators
from surrogate.catalog.interconnects import (
    Interconnect,
    fast_link_bytes_per_s,
    interconnect_index,
    load_interconnects,
    resolve_interconnect,
)
from surrogate.catalog.lookup import Entry, find_entries, load_kind
from surrogate.catalog.models import ModelPreset, load_models, model_index, resolve_model
from surrogate.catalog.peaks import (
    RATES_BY_PRECISION,
    dense_peak_flops_per_s,
    dense_peaks_flops_per_s,
    peak_rate_used,
)

__all__ = [
    "RATES_BY_PRECISION",
    "Accelerator",
    "Cluster",
    "Entry",
    "Interconnect",
    "ModelPreset",
    "accelerator_columns",
    "accelerator_index",
    "accelerator_table",
    "canonical_accelerators",
    "dense_peak_flops_per_s",
    "dense_peaks_flops_per_s",
    "fast_link_bytes_per_s",
    "find_entries",
    "interconnect_index",
    "load_accelerators",
    "load_clusters",
    "load_interconnects",
    "load_kind",
    "load_models",
    "match_cluster",
    "model_index",
    "peak_rate_used",
    "publisher_families",
    "resolve_accelerator",
    "resolve_interconnect",
    "resolve_model",
]
