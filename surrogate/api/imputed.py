"""Which filled fields matter to a plan: an expert setting is no gap in a dense model."""

from __future__ import annotations

from typing import Final

from surrogate.analytic.workload import BoolArray
from surrogate.features.workload import PreparedRuns

_EXPERT_FIELDS: Final = (
    "moe_top_k",
    "moe_ffn_hidden_size",
    "num_shared_experts",
    "num_dense_layers",
    "ep",
    "expert_tp",
    "ep_overlap",
    "moe_capacity_factor",
)
_LATENT_FIELDS: Final = ("q_lora_rank", "kv_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim")
_OPTIONAL_FEATURES: Final = ("num_experts", "sliding_window", "windowed_layers_fraction", "num_mtp_layers")
"""Features that a model has only when it says so: their absence is no gap."""


def imputed_fields(prepared: PreparedRuns) -> list[list[str]]:
    """Return per row the names of the fields that were filled by rule and bear on the prediction."""
    return prepared.imputer.imputed_columns(relevant_rows(prepared))


def relevant_rows(prepared: PreparedRuns) -> dict[str, BoolArray]:
    """Return, for the fields that do not concern every row, the rows they concern (shape (n,))."""
    w = prepared.workload
    has_experts = w.num_experts > 0.0
    nowhere = w.num_gpus < 0.0
    return {
        **dict.fromkeys(_EXPERT_FIELDS, has_experts),
        **dict.fromkeys(_LATENT_FIELDS, w.is_mla),
        **dict.fromkeys(_OPTIONAL_FEATURES, nowhere),
        "ffn_hidden_size": w.ffn_hidden_size > 0.0,
        "vp": w.pp > 1.0,
        "sequence_parallel": w.tp > 1.0,
        "tp_comm_overlap": w.tp > 1.0,
        "overlap_grad_reduce": w.dp * w.cp > 1.0,
        "overlap_param_gather": (w.dp * w.cp > 1.0) & (w.zero_stage > 0),
        "zero_stage": w.dp * w.cp > 1.0,
        "hsdp_shard": nowhere,
        "inter_node_bytes_per_s": w.num_gpus > w.gpus_per_node,
        "nvlink_domain_gpus": nowhere,
        "gpus_per_node": w.num_gpus > w.gpus_per_node,
    }
