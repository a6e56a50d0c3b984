"""The runs-table columns a configuration can settle, by the part of a plan they belong to."""

from __future__ import annotations

from typing import Final

MODEL: Final = (
    "model_name",
    "num_layers",
    "hidden_size",
    "ffn_hidden_size",
    "num_heads",
    "num_kv_heads",
    "head_dim",
    "vocab_size",
    "gated_mlp",
    "tied_embeddings",
    "attention",
    "q_lora_rank",
    "kv_lora_rank",
    "qk_nope_head_dim",
    "qk_rope_head_dim",
    "v_head_dim",
    "sliding_window",
    "windowed_layers_fraction",
    "num_experts",
    "moe_top_k",
    "moe_ffn_hidden_size",
    "num_shared_experts",
    "num_dense_layers",
    "num_mtp_layers",
)
CLUSTER: Final = (
    "accelerator",
    "num_gpus",
    "gpus_per_node",
    "intra_node",
    "inter_node_bytes_per_s",
    "inter_node_gbps",
    "nvlink_domain_gpus",
)
PARALLELISM: Final = (
    "tp",
    "pp",
    "cp",
    "dp",
    "ep",
    "vp",
    "expert_tp",
    "sequence_parallel",
    "zero_stage",
    "fsdp",
    "hsdp_shard",
    "pipeline_schedule",
    "pipeline_layout",
)
TRAINING: Final = (
    "framework",
    "seq_len",
    "global_batch_size",
    "micro_batch_size",
    "precision",
    "fp8_recipe",
    "recompute",
    "recompute_kind",
    "recompute_layers",
    "recompute_modules",
    "flash_attention",
    "attention_backend",
    "fused_norm",
    "overlap_grad_reduce",
    "overlap_param_gather",
    "tp_comm_overlap",
    "moe_dispatcher",
    "ep_overlap",
    "moe_force_balance",
    "moe_capacity_factor",
    "cuda_graphs",
    "compiled",
    "cp_comm_type",
    "optimizer",
    "param_gather_dtype",
    "grad_reduce_dtype",
    "cpu_offload",
)
SECTIONS: Final = {"model": MODEL, "cluster": CLUSTER, "parallelism": PARALLELISM, "training": TRAINING}
COLUMNS: Final = frozenset(name for names in SECTIONS.values() for name in names)
REQUIRED: Final = (
    "num_layers",
    "hidden_size",
    "num_heads",
    "seq_len",
    "accelerator",
    "num_gpus",
    "global_batch_size",
    "tp",
    "pp",
)
"""What a prediction cannot do without."""
