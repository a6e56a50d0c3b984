"""Settings that logs print, in the spelling of each framework, and the bytes to look for them by."""

from __future__ import annotations

from typing import Final

from surrogate.units import MIB

HEADER_BYTES: Final = int(16 * MIB)
"""How far into a file loose `key: value` lines are looked for; argument dumps are read anywhere."""

DUMP_NEEDLES: Final[tuple[bytes, ...]] = (b"......",)
"""In every line of an argument dump."""

HEADER_NEEDLES: Final[tuple[bytes, ...]] = (
    b"size", b"layer", b"head", b"embd", b"d_model", b"_groups", b"seq", b"experts", b"fp16", b"bf16", b"fp8",
    b"precision", b"granularity", b"checkpoint", b"gpus", b"nodes", b"nproc", b"devices", b"degree", b"accumulation",
    b"swiglu", b"distributed_optimizer", b"distributed-optimizer", b"zero_stage", b"flash", b"overlap", b"topk",
    b"per_tok", b"kv_channels", b"max_target_length",
    b"NVIDIA ", b"Tesla V", b"Instinct MI", b"version", b"device mesh", b"device_mesh", b"activation checkpointing",
    b"Float8", b"with torch.compile", b"dp=", b"pp=", b"tp=", b"world size:", b"tokens per iteration",
)  # fmt: skip
"""One of these is in every spelling that is looked for: fewer byte searches than one for each key."""

SYNONYMS: Final[dict[str, str]] = {
    "world_size": "world_size", "num_gpus": "world_size", "dist_world_size": "world_size",
    "num_nodes": "num_nodes", "nnodes": "num_nodes",
    "nproc_per_node": "gpus_per_node", "gpus_per_node": "gpus_per_node", "devices": "gpus_per_node",
    "data_parallel_size": "data_parallel_size",
    "tensor_model_parallel_size": "tensor_model_parallel_size", "tensor_parallel_size": "tensor_model_parallel_size",
    "tensor_parallel_degree": "tensor_model_parallel_size", "model_parallel_size": "tensor_model_parallel_size",
    "pipeline_model_parallel_size": "pipeline_model_parallel_size",
    "pipeline_parallel_size": "pipeline_model_parallel_size", "pipe_parallel_size": "pipeline_model_parallel_size",
    "pipeline_parallel_degree": "pipeline_model_parallel_size",
    "context_parallel_size": "context_parallel_size", "context_parallel_degree": "context_parallel_size",
    "expert_model_parallel_size": "expert_model_parallel_size", "expert_parallel_size": "expert_model_parallel_size",
    "virtual_pipeline_model_parallel_size": "virtual_pipeline_model_parallel_size",
    "num_layers": "num_layers", "num_hidden_layers": "num_layers", "n_layer": "num_layers", "n_layers": "num_layers",
    "hidden_size": "hidden_size", "n_embd": "hidden_size", "d_model": "hidden_size",
    "ffn_hidden_size": "ffn_hidden_size", "intermediate_size": "ffn_hidden_size",
    "num_attention_heads": "num_attention_heads", "n_head": "num_attention_heads", "n_heads": "num_attention_heads",
    "num_query_groups": "num_query_groups", "num_key_value_heads": "num_query_groups",
    "n_query_groups": "num_query_groups", "n_kv_heads": "num_query_groups", "kv_channels": "kv_channels",
    "seq_length": "seq_length", "encoder_seq_length": "seq_length", "max_seq_len": "seq_length",
    "sequence_length": "seq_length", "seq_len": "seq_length", "max_target_length": "seq_length",
    "max_seq_length": "seq_length",
    "micro_batch_size": "micro_batch_size", "train_micro_batch_size_per_gpu": "micro_batch_size",
    "per_device_train_batch_size": "micro_batch_size", "device_train_microbatch_size": "micro_batch_size",
    "local_batch_size": "micro_batch_size",
    "global_batch_size": "global_batch_size", "train_batch_size": "global_batch_size",
    "global_train_batch_size": "global_batch_size", "global_batch_size_to_train_on": "global_batch_size",
    "gradient_accumulation_steps": "gradient_accumulation_steps",
    "batch_accumulation_per_replica": "gradient_accumulation_steps",
    "padded_vocab_size": "padded_vocab_size", "vocab_size": "vocab_size",
    "num_experts": "num_experts", "num_local_experts": "num_experts", "moe_router_topk": "moe_router_topk",
    "num_experts_per_tok": "moe_router_topk", "moe_ffn_hidden_size": "moe_ffn_hidden_size",
    "fp16": "fp16", "bf16": "bf16", "fp8": "fp8", "fp8_format": "fp8", "precision": "precision",
    "recompute_granularity": "recompute_granularity", "activations_checkpoint_granularity": "recompute_granularity",
    "checkpoint_activations": "checkpoint_activations", "gradient_checkpointing": "checkpoint_activations",
    "recompute_num_layers": "recompute_num_layers",
    "swiglu": "swiglu", "sequence_parallel": "sequence_parallel",
    "use_distributed_optimizer": "use_distributed_optimizer", "zero_stage": "zero_stage",
    "use_flash_attn": "use_flash_attn", "overlap_grad_reduce": "overlap_grad_reduce",
    "overlap_param_gather": "overlap_param_gather",
}  # fmt: skip
"""Spelling in some framework to Megatron's name, which the translation to columns starts from."""
