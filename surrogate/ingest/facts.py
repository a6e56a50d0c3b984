"""From printed settings and counters to runs-table columns, and the sizes of a step that follow."""

from __future__ import annotations

import re
from collections.abc import Mapping
from math import prod
from typing import Final

import numpy as np

from surrogate.errors import UnknownNameError
from surrogate.ingest.numbers import NAN, is_known, parse_number
from surrogate.ingest.printed import DUMP_PREFIX
from surrogate.ingest.report import Scalar
from surrogate.ingest.run_data import RunLogData
from surrogate.ingest.series import SizeOfStep, column

_COUNTS: Final = {
    "world_size": "num_gpus", "gpus_per_node": "gpus_per_node", "data_parallel_size": "dp",
    "tensor_model_parallel_size": "tp", "pipeline_model_parallel_size": "pp", "context_parallel_size": "cp",
    "expert_model_parallel_size": "ep", "virtual_pipeline_model_parallel_size": "vp",
    "num_layers": "num_layers", "hidden_size": "hidden_size", "ffn_hidden_size": "ffn_hidden_size",
    "num_attention_heads": "num_heads", "num_query_groups": "num_kv_heads", "kv_channels": "head_dim",
    "padded_vocab_size": "vocab_size", "vocab_size": "vocab_size", "seq_length": "seq_len",
    "micro_batch_size": "micro_batch_size", "global_batch_size": "global_batch_size",
    "num_experts": "num_experts", "moe_router_topk": "moe_top_k", "moe_ffn_hidden_size": "moe_ffn_hidden_size",
    "zero_stage": "zero_stage", "recompute_num_layers": "recompute_layers",
}  # fmt: skip
_FLAGS: Final = {
    "swiglu": "gated_mlp", "sequence_parallel": "sequence_parallel", "use_flash_attn": "flash_attention",
    "overlap_grad_reduce": "overlap_grad_reduce", "overlap_param_gather": "overlap_param_gather",
    "compiled": "compiled",
}  # fmt: skip
_SAID_BY: Final = {"precision": {"fp16", "bf16", "fp8", "params_dtype"}, "optimizer": {"optimizer"}}
"""Columns that a missing argument settles in a script, but not in an excerpt of a dump."""
_MEGATRON_ARGUMENTS: Final = frozenset({"num_layers", "hidden_size", "num_attention_heads"})
_FP8: Final = frozenset({"true", "e4m3", "hybrid", "delayed", "tensorwise", "blockwise", "mxfp8"})
_TRUE: Final = frozenset({"true", "1", "yes"})
_FALSE: Final = frozenset({"false", "0", "no"})

# MLPerf training rules: sequence length and model that a benchmark name stands for.
_MLPERF: Final[dict[str, tuple[str, int]]] = {
    "gpt3": ("gpt3-175b", 2048),
    "llama2_70b_lora": ("llama2-70b", 8192),
    "llama31_405b": ("llama3.1-405b", 8192),
    "llama31_8b": ("llama3.1-8b", 8192),
}
_PLATFORM: Final = re.compile(r"(\d+)\s*x\s*(?:NVIDIA |AMD )?(?:DGX |HGX )?\s*((?:MI|H|A|B)\d{3}\w*)")
_EIGHT_PER_SYSTEM: Final = re.compile(r"(?:MI3\d\dX|[DH]GX ?(?:A100|H100|H200|B200|B300))")
_ACCELERATOR_HINTS: Final = (
    ("V100-SXM2-32GB", "V100-32GB"), ("V100-SXM3-32GB", "V100-32GB"), ("V100-SXM2-16GB", "V100-16GB"),
    ("A100-SXM4-80GB", "A100-80GB"), ("A100-SXM4-40GB", "A100-40GB"), ("H100", "H100-80GB"), ("H200", "H200-141GB"),
    ("B200", "B200-180GB"), ("GB200", "GB200-186GB"), ("A800", "A800-80GB"), ("H800", "H800-80GB"),
    ("H20", "H20-96GB"),
)  # fmt: skip


def columns_of(settings: Mapping[str, str]) -> dict[str, Scalar]:
    """Translate printed settings (Megatron's names) into runs-table columns; what is not clear is left out.

    Examples
    --------
    >>> columns_of({"world_size": "64", "fp16": "True", "num_attention_heads": "32", "seq_length": "None"})
    {'num_gpus': 64, 'num_heads': 32, 'precision': 'fp16'}
    """
    found = _dumped(settings)
    for key, name in _COUNTS.items():
        number = parse_number(settings.get(key, ""))
        if is_known(number) and number.is_integer() and name not in found:
            found[name] = int(number)
    for key, name in _FLAGS.items():
        word = settings.get(key, "").lower()
        if word in _TRUE | _FALSE:
            found[name] = word in _TRUE
    found.update(_choices(settings))
    accelerator = _accelerator(settings.get("accelerator", ""))
    if accelerator:
        found["accelerator"] = accelerator
    _add_world(settings, found)
    _add_mlperf(settings, found)
    _add_batch(settings, found)
    return found


def _dumped(settings: Mapping[str, str]) -> dict[str, Scalar]:
    """Columns of a Megatron argument dump, without the framework's defaults: an excerpt may have lost lines."""
    dump = {key.removeprefix(DUMP_PREFIX): value for key, value in settings.items() if key.startswith(DUMP_PREFIX)}
    if _MEGATRON_ARGUMENTS - dump.keys():
        return {}
    from surrogate.ingest.configs.megatron import read_megatron_arguments  # read when a dump is there

    report = read_megatron_arguments(dump)
    skipped = report.defaulted | {name for name, keys in _SAID_BY.items() if not keys & dump.keys()}
    return {name: value for name, value in report.values.items() if name not in skipped}


def _choices(settings: Mapping[str, str]) -> dict[str, Scalar]:
    def on(key: str) -> bool:
        return settings.get(key, "").lower() in _TRUE

    found: dict[str, Scalar] = {}
    fp8 = settings.get("fp8", "none").lower()
    named = settings.get("precision", "").lower()
    if fp8 in _FP8:
        found["precision"] = "fp8"
    elif on("bf16") or named.startswith("bf16"):
        found["precision"] = "bf16"
    elif on("fp16") or named in ("16", "fp16", "16-mixed", "16_mixed"):
        found["precision"] = "fp16"
    kind = settings.get("recompute_granularity", "").lower()
    if kind in ("full", "selective"):
        found["recompute"] = kind
    elif on("checkpoint_activations"):
        found["recompute"] = "full"
    if on("use_distributed_optimizer") and "zero_stage" not in settings:
        found["zero_stage"] = 1
    return found


def _accelerator(printed: str) -> str:
    """Catalogue name of a printed device; "" when it could be several."""
    if not printed:
        return ""
    from surrogate.catalog.accelerators import resolve_accelerator  # read when a device is named

    hints = [name for prefix, name in _ACCELERATOR_HINTS if printed.upper().startswith(prefix)]
    for candidate in (printed, *hints):
        try:
            return resolve_accelerator(candidate).name
        except UnknownNameError:
            continue
    return ""


def _add_world(settings: Mapping[str, str], found: dict[str, Scalar]) -> None:
    """Multiply nodes with accelerators per node, or the parallel sizes, when the number is not printed itself."""
    nodes = parse_number(settings.get("num_nodes", ""))
    per_node = found.get("gpus_per_node")
    if "num_gpus" not in found and is_known(nodes) and isinstance(per_node, int):
        found["num_gpus"] = int(nodes) * per_node
    sizes = [found.get(name) for name in ("dp", "tp", "pp")]
    if "num_gpus" not in found and all(isinstance(size, int) for size in sizes):
        found["num_gpus"] = prod(int(size or 1) for size in (*sizes, found.get("cp")))


def _add_mlperf(settings: Mapping[str, str], found: dict[str, Scalar]) -> None:
    benchmark = settings.get("mlperf_benchmark", "")
    if benchmark in _MLPERF:
        name, seq_len = _MLPERF[benchmark]
        found.setdefault("model_name", name)
        found.setdefault("seq_len", seq_len)
    platform = settings.get("mlperf_platform", "")
    match = _PLATFORM.search(platform)
    if match is not None and _EIGHT_PER_SYSTEM.search(platform):
        found.setdefault("num_gpus", int(match[1]) * 8)
        found.setdefault("gpus_per_node", 8)
        accelerator = _accelerator(match[2])
        if accelerator:
            found.setdefault("accelerator", accelerator)


def _add_batch(settings: Mapping[str, str], found: dict[str, Scalar]) -> None:
    """Global batch from micro-batch, accumulation and data-parallel size, when not printed itself."""
    micro, dp = found.get("micro_batch_size"), found.get("dp")
    accumulation = parse_number(settings.get("gradient_accumulation_steps", ""))
    if "global_batch_size" not in found and isinstance(micro, int) and isinstance(dp, int) and is_known(accumulation):
        found["global_batch_size"] = micro * dp * int(accumulation)


def counted_facts(run: RunLogData) -> dict[str, Scalar]:
    """Return what the counters in the records settle: global batch size, sequence length."""
    found: dict[str, Scalar] = {}
    batch = column(run.records, "global_batch_size")
    batch = batch[np.isfinite(batch)]
    if batch.size:
        values, counts = np.unique(batch, return_counts=True)
        found["global_batch_size"] = int(values[np.argmax(counts)])
    ratio = column(run.records, "consumed_tokens") / column(run.records, "consumed_samples")
    ratio = ratio[np.isfinite(ratio)]
    if ratio.size and float(ratio[0]).is_integer() and bool((ratio == ratio[0]).all()):
        found["seq_len"] = int(ratio[0])
    return found


def size_of_step(facts: Mapping[str, Scalar], settings: Mapping[str, str]) -> SizeOfStep:
    """Return samples and tokens of one optimizer step, NaN as far as they are not known."""
    samples = number(facts, "global_batch_size")
    tokens = samples * number(facts, "seq_len")
    if not is_known(tokens):
        tokens = parse_number(settings.get("tokens_per_step", ""))
    return SizeOfStep(samples=samples, tokens=tokens, tokens_per_gpu=tokens / number(facts, "num_gpus"))


def number(facts: Mapping[str, Scalar], name: str) -> float:
    """Return a numeric fact; NaN when it is not known."""
    value = facts.get(name)
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else NAN
