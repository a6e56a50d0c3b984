"""DeepSpeed JSON: ZeRO stage, offload, precision, batch sizes. It holds no model and no layout."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from surrogate.ingest.configs.derive import BatchRule
from surrogate.ingest.configs.report import ConfigReport, Draft, why_unknown
from surrogate.ingest.configs.scalars import as_count, as_flag, as_text

NO_MODEL: Final = "a DeepSpeed configuration holds no model"
NO_LAYOUT: Final = "a DeepSpeed configuration does not say it"
_OPTIMIZERS: Final = {
    "adam": "adam",
    "adamw": "adam",
    "onebitadam": "adam",
    "lamb": "lamb",
    "lion": "lion",
    "muon": "muon",
}


def read_deepspeed(config: Mapping[str, object]) -> ConfigReport:
    """Read a DeepSpeed configuration; ``"auto"`` is reported as unknown."""
    draft = Draft()
    draft.put("framework", "deepspeed")
    read_zero(draft, config)
    read_precision(draft, config)
    read_batch(draft, config)
    read_optimizer(draft, config)
    parallel = _section(config, "tensor_parallel")
    draft.count("tp", parallel.get("autotp_size"))
    draft.count("cp", config.get("sequence_parallel_size"))
    for column in ("num_layers", "hidden_size", "num_heads", "seq_len"):
        draft.ask(column, NO_MODEL)
    for column in ("tp", "pp", "num_gpus", "accelerator"):
        draft.ask(column, NO_LAYOUT)
    recompute = "its activation_checkpointing section tunes it" if "activation_checkpointing" in config else NO_LAYOUT
    draft.ask("recompute", f"{recompute}; the training script turns it on")
    return draft.finish("deepspeed")


def read_zero(draft: Draft, config: Mapping[str, object]) -> None:
    """Read the `zero_optimization` section: stage, overlap, offload, shard group."""
    zero = _section(config, "zero_optimization")
    stage = draft.count("zero_stage", zero.get("stage"), least=0)
    draft.default("zero_stage", 0)
    draft.flag("overlap_grad_reduce", zero.get("overlap_comm"))
    if stage is not None:
        draft.default("overlap_grad_reduce", stage == 3)
    draft.count("hsdp_shard", zero.get("zero_hpz_partition_size") or zero.get("mics_shard_size"))
    if draft.values.get("hsdp_shard") == 1:
        draft.values.pop("hsdp_shard")
    _read_offload(draft, zero)


def _read_offload(draft: Draft, zero: Mapping[str, object]) -> None:
    targets = {
        "params": _device(zero, "offload_param", "cpu_offload_params"),
        "optimizer": _device(zero, "offload_optimizer", "cpu_offload"),
    }
    if "auto" in targets.values():
        draft.ask("cpu_offload", '"auto": the launcher decides it at run time')
        return
    kept = [name for name, device in targets.items() if device not in (None, "none")]
    draft.put("cpu_offload", kept[0] if kept else None)
    draft.default("cpu_offload", "none")
    if "nvme" in targets.values():
        draft.note("offload goes to NVMe, slower than the host memory the model assumes")


def _device(zero: Mapping[str, object], section: str, flag: str) -> str | None:
    if as_flag(zero.get(flag)):
        return "cpu"
    value = zero.get(section)
    if isinstance(value, dict):
        return (as_text(value.get("device")) or "none").lower()
    return "auto" if why_unknown(value) else None


def read_precision(draft: Draft, config: Mapping[str, object]) -> None:
    """Read `fp16` / `bf16` sections; neither means fp32."""
    enabled = {name: _section(config, name).get("enabled") for name in ("bf16", "bfloat16", "fp16")}
    on = next((name for name, value in enabled.items() if as_flag(value)), None)
    open_ones = [name for name, value in enabled.items() if why_unknown(value)]
    if on:
        draft.put("precision", "fp16" if on == "fp16" else "bf16")
    elif open_ones:
        draft.ask("precision", f'{" and ".join(open_ones)} "auto": the launcher decides it at run time')
    else:
        draft.default("precision", "fp32")
    dtype = as_text(_section(config, "data_types").get("grad_accum_dtype")) or ""
    draft.put("grad_reduce_dtype", {"float32": "fp32", "float16": "fp16", "bfloat16": "bf16"}.get(dtype, dtype) or None)


def read_batch(draft: Draft, config: Mapping[str, object]) -> None:
    """Read the three batch settings, of which any two give the third once the data-parallel size is known."""
    draft.count("global_batch_size", config.get("train_batch_size"))
    micro = draft.count("micro_batch_size", config.get("train_micro_batch_size_per_gpu"))
    raw_steps = config.get("gradient_accumulation_steps")
    steps = as_count(raw_steps)
    if micro is None and draft.integer("global_batch_size") and steps:
        draft.ask("micro_batch_size", f"train_batch_size / ({steps} accumulation steps x data-parallel size)")
    if draft.integer("global_batch_size") is None and micro:
        if steps is None and raw_steps is None:
            steps = 1
        why = "accumulation steps and " if steps is None else f"{steps} accumulation steps and "
        draft.ask("global_batch_size", f"micro_batch_size {micro} times {why}the data-parallel size")
    for column in ("global_batch_size", "micro_batch_size"):
        draft.ask(column, "the file does not give it")
    draft.batch_rule = BatchRule(
        per_rank_batch_size=micro * steps if micro and steps else None, accumulation_steps=steps
    )


def read_optimizer(draft: Draft, config: Mapping[str, object]) -> None:
    """Read the optimizer's kind."""
    name = as_text(_section(config, "optimizer").get("type"))
    if name:
        draft.put("optimizer", _OPTIMIZERS.get(name.lower().replace("_", ""), name.lower()))


def _section(config: Mapping[str, object], name: str) -> Mapping[str, object]:
    value = config.get(name)
    if name == "zero_optimization" and value is True:
        return {"stage": 1}
    return {str(key): item for key, item in value.items()} if isinstance(value, dict) else {}
