"""What the residual model looks at: shares of the analytic step, dimensionless ratios, knobs and categories."""

from __future__ import annotations

from dataclasses import fields

import numpy as np

from surrogate.analytic.step_terms import StepTerms
from surrogate.analytic.step_time import StepTimeBreakdown
from surrogate.analytic.workload import FloatArray
from surrogate.features.knobs import KNOBS
from surrogate.features.workload import PreparedRuns

_SMALLEST = 1e-12
SHARES = tuple(f"{field.name.removesuffix('_s')}_share" for field in fields(StepTimeBreakdown))
RATIOS = (
    "log_roofline_ratio",
    "log_tokens_per_micro_batch",
    "log_flops_per_launch",
    "log_head_width",
    "log_width_per_tensor_rank",
    "log_tokens_per_expert",
    "log_layers_per_stage",
    "log_optimizer_share",
    "attention_to_products",
    "log_ranks_per_node",
    "experts_per_token_share",
    "vocabulary_to_layers",
    "key_value_share",
    "year",
    "attention_kernel",
    "fused_norm",
    "schedule",
    "compiled",
)
CATEGORIES = ("stack", "accelerator", "publisher_family", "source", "precision")
FEATURES = (*KNOBS, *SHARES, *RATIOS)


def ratio_matrix(
    prepared: PreparedRuns, terms: StepTerms, breakdown: StepTimeBreakdown, knobs: FloatArray
) -> FloatArray:
    """Return the numeric features of n rows in the order of `FEATURES`, shape (n, f)."""
    w = prepared.workload
    total = breakdown.total_s
    shares = [getattr(breakdown, field.name) / total for field in fields(breakdown)]
    layer_s = terms.matmul_s + terms.experts_s + terms.attention_s
    ratios = [
        np.log(terms.roofline_s / total),
        np.log(terms.tokens),
        np.log(layer_s + _SMALLEST),
        terms.log_head_width,
        np.log(w.hidden_size / w.tp),
        np.log1p(terms.tokens_per_expert),
        np.log(terms.layers_per_stage),
        np.log(terms.optimizer_s / total + _SMALLEST),
        terms.attention_s / (layer_s + _SMALLEST),
        np.log(w.num_gpus / w.gpus_per_node),
        w.moe_top_k / np.maximum(w.num_experts, 1.0),
        terms.head_s / (terms.layers_per_stage * layer_s + _SMALLEST),
        w.num_kv_heads / w.num_heads,
        prepared.stack.year,
        terms.attention_kernel.astype(np.float64),
        terms.fused_norm,
        terms.schedule.astype(np.float64),
        terms.compiled.astype(np.float64),
    ]
    return np.column_stack([knobs, *shares, *ratios])
