"""Configuration that a log prints: argument dumps, JSON, YAML and `key=value` lines, command lines, device names."""

from __future__ import annotations

import re
from collections.abc import Iterator
from math import prod
from typing import Final

from surrogate.units import MIB

HEADER_BYTES: Final = int(16 * MIB)
"""How far into a file loose `key: value` lines are looked for; argument dumps are read anywhere."""

DUMP_NEEDLES: Final[tuple[bytes, ...]] = (b"......",)

# Spelling in some framework -> Megatron's name, which the translation to columns starts from.
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
    "max_seq_length": "seq_length", "block_size": "seq_length",
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

DUMP_PREFIX: Final = "argument "
"""Marks every line of an argument dump, known or not, for the reader of Megatron arguments."""
_DUMPED: Final = re.compile(r"([A-Za-z_]\w*) ?\.{5,} ?(.*\S)\s*$")

_KEYS: Final = "|".join(sorted(SYNONYMS, key=len, reverse=True))
_PAIR: Final = re.compile(
    rf"(?<![\w.])(?P<key>{_KEYS})['\"]?(?:\s?\.{{3,}}\s?|\s*[:=]\s*|\s+)(?P<value>['\"]?[\w.+-]+['\"]?)"
)
_BARE_FLAG: Final = re.compile(
    r"--(swiglu|bf16|fp16|sequence_parallel|use_distributed_optimizer|use_flash_attn)(?=\s+--|\s*['\"]?$)"
)
_NANOTRON: Final = re.compile(r"^\s*(?:parallelism=ParallelismArgs\()?(dp|pp|tp|expert_parallel_size)=(\d+),?\s*$")
_NANOTRON_NAMES: Final = {
    "dp": "data_parallel_size", "pp": "pipeline_model_parallel_size", "tp": "tensor_model_parallel_size",
    "expert_parallel_size": "expert_model_parallel_size",
}  # fmt: skip
_TITAN_BATCH: Final = re.compile(
    r"local batch size (\d+), global batch size (\d+)(?:, gradient accumulation steps \d+)?, sequence length (\d+)"
)
_TITAN_MESH: Final = re.compile(r"(?:Building|mesh) .*?mesh.*?\[(\d+(?:, \d+)*)\]")
_DEVICE: Final = re.compile(
    r"\b(?:NVIDIA |Tesla |AMD Instinct |Instinct )(?P<name>(?:GB|GH|V|A|H|B|L|MI)\d{2,3}\w?(?:[ -](?:SXM\d?|PCI-?[Ee]|NVL))?)"
    r"(?:[- ](?P<memory>\d+)\s?GB)?"
)
_WORLD: Final = re.compile(r"using world size: (\d+)")
_TOKENS: Final = re.compile(r"tokens per iteration will be: ([\d,]+)")
_VERSION: Final = re.compile(
    r"(?i)\b(torch|pytorch|deepspeed|megatron(?:[- ]core)?|nemo|transformers|composer|llm-foundry|torchtitan|nanotron)"
    r"(?: info:)?[ _]version\s?[:=.]*\s?v?(\d[\w.+]*)"
)
_SWITCHES: Final = (
    ("Float8", {"fp8": "hybrid"}),
    ("full activation checkpointing", {"recompute_granularity": "full"}),
    ("selective activation checkpointing", {"recompute_granularity": "selective"}),
    ("op activation checkpointing", {"recompute_granularity": "selective"}),
    ("with torch.compile", {"compiled": "true"}),
)

HEADER_NEEDLES: Final[tuple[bytes, ...]] = (
    b"size", b"layer", b"head", b"embd", b"d_model", b"_groups", b"seq", b"experts", b"fp16", b"bf16", b"fp8",
    b"precision", b"granularity", b"checkpoint", b"gpus", b"nodes", b"nproc", b"devices", b"degree", b"accumulation",
    b"swiglu", b"distributed_optimizer", b"distributed-optimizer", b"zero_stage", b"flash", b"overlap", b"topk",
    b"per_tok", b"kv_channels", b"max_target_length",
    b"NVIDIA ", b"Tesla V", b"Instinct MI", b"version", b"device mesh", b"device_mesh", b"activation checkpointing",
    b"Float8", b"with torch.compile", b"dp=", b"pp=", b"tp=", b"world size:", b"tokens per iteration",
)  # fmt: skip
"""One of these is in every spelling that is looked for: fewer byte searches than one for each key."""


def printed_settings(text: str) -> dict[str, str]:
    """Known settings on one line, by Megatron's names.

    Examples
    --------
    >>> printed_settings("  pipeline_model_parallel_size .................... 8")
    {'pipeline_model_parallel_size': '8', 'argument pipeline_model_parallel_size': '8'}
    >>> printed_settings("--per-device-train-batch-size 4 --bf16 --config n_embd=7168,n_head=32")
    {'micro_batch_size': '4', 'hidden_size': '7168', 'num_attention_heads': '32', 'bf16': 'true'}
    """
    found = {}
    text = _underscored(text) if "--" in text else text
    for match in _PAIR.finditer(text):
        value = _clean(match["value"])
        if value and not value.startswith("__"):
            found[SYNONYMS[match["key"]]] = value
    if "--" in text:
        found.update(dict.fromkeys(_BARE_FLAG.findall(text), "true"))
    if "....." in text and (dumped := _DUMPED.search(text)) is not None:
        found[DUMP_PREFIX + dumped[1]] = dumped[2]
    found.update(_special(text))
    return found


def _underscored(text: str) -> str:
    return re.sub(r"(?<=\w)-(?=\w)", "_", text)


def _clean(value: str) -> str:
    """Drop quotes and the trailer that GPT-NeoX adds (`6144........updated`)."""
    return re.split(r"\.{3,}", value.strip("'\""))[0].rstrip(".")


def _special(text: str) -> Iterator[tuple[str, str]]:
    if (nanotron := _NANOTRON.match(text)) is not None:
        yield _NANOTRON_NAMES[nanotron[1]], nanotron[2]
    if (batch := _TITAN_BATCH.search(text)) is not None:
        yield from zip(("micro_batch_size", "global_batch_size", "seq_length"), batch.groups(), strict=True)
    elif (mesh := _TITAN_MESH.search(text)) is not None:
        yield "world_size", str(prod(int(size) for size in mesh[1].split(", ")))
    if (world := _WORLD.search(text)) is not None:
        yield "world_size", world[1]
    if (tokens := _TOKENS.search(text)) is not None:
        yield "tokens_per_step", tokens[1].replace(",", "")
    if (device := _DEVICE.search(text)) is not None:
        yield "accelerator", f"{device['name']}-{device['memory']}GB" if device["memory"] else device["name"]
    for name, version in _VERSION.findall(text):
        yield f"version {name.lower()}", version
    for words, settings in _SWITCHES:
        if words in text:
            yield from settings.items()
