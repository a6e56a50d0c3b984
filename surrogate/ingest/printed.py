"""Configuration that a log prints: argument dumps, JSON, YAML and `key=value` lines, command lines, announcements."""

from __future__ import annotations

import re
from collections.abc import Iterator
from math import prod
from typing import Final

from surrogate.ingest.printed_names import SYNONYMS

DUMP_PREFIX: Final = "argument "
"""Marks every line of an argument dump, known or not, for the reader of Megatron arguments."""

_KEYS: Final = "|".join(sorted(SYNONYMS, key=len, reverse=True))
_VALUE: Final = r"(?P<value>['\"]?[\w.+-]+['\"]?)"
_PAIR: Final = re.compile(rf"(?<![\w.])(?P<key>{_KEYS})['\"]?(?:\s?\.{{3,}}\s?|\s*[:=]\s*){_VALUE}")
_OPTION: Final = re.compile(rf"--(?P<key>{_KEYS})\s+(?!--){_VALUE}")
_FLAG: Final = re.compile(
    r"--(swiglu|bf16|fp16|sequence_parallel|use_distributed_optimizer|use_flash_attn)(?=\s+--|\s*['\"]?$)"
)
_DUMPED: Final = re.compile(r"([A-Za-z_]\w*) ?\.{5,} ?(.*\S)\s*$")

_ANNOUNCED: Final = (
    (re.compile(r"local batch size (\d+), global batch size (\d+).*? sequence length (\d+)"),
     ("micro_batch_size", "global_batch_size", "seq_length")),
    (re.compile(r"\bblock_size = (\d+)"), ("seq_length",)),
    (re.compile(r"ModelArgs\(.*?\bdim=(\d+)"), ("hidden_size",)),
    (re.compile(r"using world size: (\d+)"), ("world_size",)),
    (re.compile(r"tokens per iteration will be: ([\d,]+)"), ("tokens_per_step",)),
    (re.compile(r"(?:[ (]|^)dp=(\d+),\s*$"), ("data_parallel_size",)),
    (re.compile(r"(?:[ (]|^)pp=(\d+),\s*$"), ("pipeline_model_parallel_size",)),
    (re.compile(r"(?:[ (]|^)tp=(\d+),\s*$"), ("tensor_model_parallel_size",)),
)  # fmt: skip
_MESH: Final = re.compile(r"device.mesh.*?\[(\d+(?:, \d+)*)\]")
_DEVICE: Final = re.compile(
    r"\b(?:NVIDIA |Tesla |AMD Instinct |Instinct )"
    r"(?P<name>(?:GB|GH|V|A|H|B|L|MI)\d{2,3}\w?(?:[ -](?:SXM\d?|PCI-?[Ee]|NVL))?)(?:[- ](?P<memory>\d+)\s?GB)?"
)
_VERSION: Final = re.compile(
    r"(?i)\b(torch|pytorch|deepspeed|megatron(?:[- ]core)?|nemo|transformers|composer|llm-foundry|torchtitan|nanotron)"
    r"(?: info:)?[ _]version\s?[:=.]*\s?v?(\d[\w.+]*)"
)
_SWITCHES: Final = (
    ("Float8", ("fp8", "hybrid")),
    ("full activation checkpointing", ("recompute_granularity", "full")),
    ("selective activation checkpointing", ("recompute_granularity", "selective")),
    ("op activation checkpointing", ("recompute_granularity", "selective")),
    ("with torch.compile", ("compiled", "true")),
)


def printed_settings(text: str) -> dict[str, str]:
    """Return the known settings on one line, by Megatron's names.

    Examples
    --------
    >>> printed_settings("  pipeline_model_parallel_size .................... 8")
    {'pipeline_model_parallel_size': '8', 'argument pipeline_model_parallel_size': '8'}
    >>> printed_settings("--per-device-train-batch-size 4 --bf16 --config n_embd=7168,n_head=32")
    {'hidden_size': '7168', 'num_attention_heads': '32', 'micro_batch_size': '4', 'bf16': 'true'}
    """
    found = {}
    is_command = "--" in text
    if is_command:
        text = re.sub(r"(?<=\w)-(?=\w)", "_", text)
    for pattern in (_PAIR, _OPTION) if is_command else (_PAIR,):
        for match in pattern.finditer(text):
            found[SYNONYMS[match["key"]]] = _clean(match["value"])
    if "ModelArgs(" in text:  # the longest the model allows, not what is trained
        found.pop("seq_length", None)
    if is_command:
        found.update(dict.fromkeys(_FLAG.findall(text), "true"))
    if "....." in text and (dumped := _DUMPED.search(text)) is not None:
        found[DUMP_PREFIX + dumped[1]] = dumped[2]
    found.update(_announced(text))
    return found


def _clean(value: str) -> str:
    """Drop quotes and the trailer that GPT-NeoX adds (`6144........updated`)."""
    return re.split(r"\.{3,}", value.strip("'\""))[0].rstrip(".")


def _announced(text: str) -> Iterator[tuple[str, str]]:
    """Yield settings that are told in sentences."""
    for pattern, names in _ANNOUNCED:
        match = pattern.search(text)
        if match is not None:
            yield from zip(names, (group.replace(",", "") for group in match.groups()), strict=True)
    if (mesh := _MESH.search(text)) is not None:
        yield "world_size", str(prod(int(size) for size in mesh[1].split(", ")))
    if (device := _DEVICE.search(text)) is not None:
        yield "accelerator", f"{device['name']}-{device['memory']}GB" if device["memory"] else device["name"]
    yield from ((f"version {name.lower()}", version) for name, version in _VERSION.findall(text))
    yield from (setting for words, setting in _SWITCHES if words in text)
