"""The parts of a step's time in words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

PART_NAMES: Final[Mapping[str, str]] = {
    "compute_s": "compute",
    "recompute_s": "recomputation",
    "head_s": "embedding, head and loss",
    "host_s": "kernel launches",
    "tp_s": "tensor parallel traffic",
    "cp_s": "context parallel traffic",
    "ep_s": "expert parallel traffic",
    "pp_s": "pipeline sends",
    "dp_s": "data parallel traffic",
    "bubble_s": "pipeline bubble",
    "imbalance_s": "uneven stages",
    "optimizer_s": "optimizer",
    "offload_s": "offloading",
    "fixed_s": "fixed cost of a step",
    "straggler_s": "losses growing with nodes",
}
"""By field of `StepTimeBreakdown`; traffic is what compute does not hide."""
