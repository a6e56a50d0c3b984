"""torchtitan TOML of both generations: degrees under [parallelism] since 2025, under [training] before."""

from __future__ import annotations

import re
from typing import Final

from surrogate.ingest.configs.derive import BatchRule
from surrogate.ingest.configs.known_names import torchtitan_flavor
from surrogate.ingest.configs.report import ConfigReport, Draft
from surrogate.ingest.configs.scalars import as_count, as_flag, as_text
from surrogate.ingest.configs.script_cluster import ask_accelerator
from surrogate.ingest.configs.shape import complete_attention, complete_experts, complete_pipeline
from surrogate.ingest.configs.tree import Tree, first, lookup, section

_SCHEDULES: Final = {
    "1f1b": "1f1b",
    "interleaved1f1b": "interleaved-1f1b",
    "gpipe": "gpipe",
    "flexibleinterleaved1f1b": "interleaved-1f1b",
    "loopedbfs": "interleaved-1f1b",
    "interleavedzerobubble": "zb-h1",
    "zbvzerobubble": "zb-v",
    "dualpipev": "dualpipe",
}
_FAMILIES: Final = {"llama": "llama2", "llama3_1": "llama3", "llama3_2": "llama3", "llama3_ft": "llama3"}
_PRESET: Final = re.compile(r"#[^\n]*preset for (\d{1,6}) ([A-Za-z0-9]+)")


def read_torchtitan(tree: Tree, text: str = "") -> ConfigReport:
    """Read a torchtitan job configuration.

    Parameters
    ----------
    tree : dict
        Loaded TOML.
    text : str
        The file's text, whose comments may say for how many accelerators it is a preset.
    """
    draft = Draft()
    draft.put("framework", "torchtitan")
    preset = _PRESET.search(text[:2000])
    _read_model(draft, tree)
    _read_layout(draft, tree)
    _read_batch(draft, tree)
    _read_sharding(draft, tree, preset)
    _read_precision(draft, tree)
    _read_recompute(draft, tree)
    _read_knobs(draft, tree)
    ask_accelerator(draft, preset.group(2) if preset else None)
    return draft.finish("torchtitan")


def _read_model(draft: Draft, tree: Tree) -> None:
    name = (as_text(lookup(tree, "model.name")) or "").lower()
    flavor = as_text(lookup(tree, "model.flavor")) or ""
    shape = torchtitan_flavor(_FAMILIES.get(name, name), flavor)
    draft.put("model_name", f"{name}-{flavor}".lower().strip("-") or None)
    for column, value in (shape or {}).items():
        draft.put(column, value)
    if shape is None:
        for column in ("num_layers", "hidden_size", "num_heads"):
            draft.ask(column, f"flavor {flavor!r} of {name!r} is defined in torchtitan's code and not in our table")
    else:
        complete_experts(draft)
    complete_attention(draft)
    draft.count("seq_len", lookup(tree, "training.seq_len"))


def _read_layout(draft: Draft, tree: Tree) -> None:
    for column, name in {
        "tp": "tensor_parallel_degree",
        "pp": "pipeline_parallel_degree",
        "cp": "context_parallel_degree",
        "ep": "expert_parallel_degree",
        "expert_tp": "expert_tensor_parallel_degree",
    }.items():
        draft.count(column, first(tree, *(f"{part}.{name}" for part in ("parallelism", "training", "experimental"))))
        if column != "expert_tp":
            draft.default(column, 1)
    if draft.defaulted & {"tp"}:
        draft.count("tp", lookup(tree, "training.sequence_parallel_degree"))
    if draft.integer("num_experts"):
        draft.default("expert_tp", 1)
    else:
        draft.values.pop("expert_tp", None)
    draft.default("sequence_parallel", (draft.integer("tp") or 1) > 1)
    _read_schedule(draft, tree)


def _read_schedule(draft: Draft, tree: Tree) -> None:
    raw = first(tree, "parallelism.pipeline_parallel_schedule", "experimental.pipeline_parallel_schedule")
    name = (as_text(raw) or "1F1B").lower()
    layers, pp = draft.integer("num_layers"), draft.integer("pp") or 1
    schedule = _SCHEDULES.get(name)
    if pp == 1:
        draft.default("vp", 1)
        return
    (draft.put if raw else draft.default)("pipeline_schedule", schedule)
    if schedule is None:
        draft.ask("pipeline_schedule", f"schedule {name!r} is not one this program knows")
    per_stage = as_count(first(tree, "parallelism.pipeline_parallel_layers_per_stage"))
    if per_stage and layers:
        draft.put("vp", max(1, -(-layers // (pp * per_stage))))
    draft.default("vp", 2 if schedule in ("interleaved-1f1b", "zb-v", "dualpipe") else 1)
    complete_pipeline(draft)


def _read_batch(draft: Draft, tree: Tree) -> None:
    local = as_count(first(tree, "training.local_batch_size", "training.batch_size"))
    micro = as_count(first(tree, "parallelism.pipeline_parallel_microbatch_size")) or 1
    pipelined = (draft.integer("pp") or 1) > 1
    draft.put("micro_batch_size", micro if pipelined else local)
    batch = as_count(lookup(tree, "training.global_batch_size"))
    steps = as_count(lookup(tree, "training.gradient_accumulation_steps")) or 1
    draft.put("global_batch_size", batch)
    if batch is None and local:
        draft.batch_rule = BatchRule(per_rank_batch_size=local * steps)
    draft.ask("global_batch_size", f"local_batch_size {local} times the data-parallel size")


def _read_sharding(draft: Draft, tree: Tree, preset: re.Match[str] | None) -> None:
    parts = ("parallelism", "training", "experimental")
    raw_shard = first(tree, *(f"{part}.data_parallel_shard_degree" for part in parts), "training.data_parallel_degree")
    replicate = as_count(first(tree, *(f"{part}.data_parallel_replicate_degree" for part in parts))) or 1
    shard = as_count(raw_shard)
    kind = as_text(lookup(tree, "training.data_parallel_type"))
    if shard is not None:
        draft.put("dp", shard * replicate)
    else:
        hint = f"; a comment calls it a preset for {preset.group(1)} {preset.group(2)}" if preset else ""
        draft.ask("num_gpus", f"data_parallel_shard_degree takes what is left of the world size{hint}")
    if kind == "ddp" or (shard == 1 and replicate > 1):
        draft.put("zero_stage", 0)
        return
    reshards = as_text(lookup(tree, "parallelism.fsdp_reshard_after_forward")) or "default"
    kept = reshards == "never" or (reshards == "default" and (draft.integer("pp") or 1) > 1)
    draft.put("zero_stage", 2 if kept else 3)
    draft.put("fsdp", "fsdp2")
    if replicate > 1:
        draft.put("hsdp_shard", shard)
        draft.ask("hsdp_shard", f"world size / {replicate} replicas")


def _read_precision(draft: Draft, tree: Tree) -> None:
    converters = lookup(tree, "model.converters")
    names = " ".join(map(str, converters)) if isinstance(converters, list) else as_text(converters) or ""
    old = as_flag(
        first(tree, "float8.enable_float8_linear", "training.enable_float8_linear", "training.enable_fp8_linear")
    )
    param = as_text(lookup(tree, "training.mixed_precision_param")) or "bfloat16"
    recipe = as_text(first(tree, "quantize.linear.float8.recipe_name", "float8.recipe_name"))
    if re.search(r"(^|[ .])mx", names):
        draft.put("precision", "mxfp8")
        draft.put("fp8_recipe", "mxfp8")
    elif "float8" in names or old or as_text(lookup(tree, "training.fp8_linear")) in ("dynamic", "delayed"):
        draft.put("precision", "fp8")
        draft.put("fp8_recipe", recipe or "current")
        gathers = ("quantize.linear.float8", "float8", "training")
        gather = any(as_flag(lookup(tree, f"{part}.enable_fsdp_float8_all_gather")) for part in gathers)
        draft.put("param_gather_dtype", "fp8" if gather else None)
    else:
        draft.put("precision", {"bfloat16": "bf16", "float16": "fp16", "float32": "fp32"}.get(param))
        draft.ask("precision", f"mixed_precision_param {param!r} is not one this program knows")
    reduce = as_text(lookup(tree, "training.mixed_precision_reduce"))
    (draft.put if reduce else draft.default)("grad_reduce_dtype", "bf16" if reduce == "bfloat16" else "fp32")


def _read_recompute(draft: Draft, tree: Tree) -> None:
    raw = as_text(lookup(tree, "activation_checkpoint.mode"))
    option = as_text(lookup(tree, "activation_checkpoint.selective_ac_option")) or "2"
    mode = (raw or ("none" if lookup(tree, "activation_checkpoint.mode") else "selective")).lower()
    if mode == "selective" and option.isdecimal() and (every := as_count(option)):
        layers = draft.integer("num_layers")
        draft.put("recompute", "selective")
        draft.put("recompute_kind", "full")
        draft.put("recompute_layers", layers // every // (draft.integer("pp") or 1) if layers else None)
        draft.note(f"every {every}. layer is recomputed in full")
    elif mode in ("selective", "full", "none"):
        (draft.put if mode != "none" else draft.default)("recompute", mode)
        draft.put("recompute_kind", {"selective": "op-selective", "full": "full"}.get(mode))
    else:
        draft.ask("recompute", f"mode {mode!r} leaves the choice to a memory budget")


def _read_knobs(draft: Draft, tree: Tree) -> None:
    raw = first(tree, "parallelism.enable_async_tensor_parallel", "experimental.enable_async_tensor_parallel")
    draft.flag("tp_comm_overlap", raw)
    draft.default("tp_comm_overlap", False)
    compiled = as_flag(first(tree, "compile.enable", "training.compile"))
    parts = lookup(tree, "compile.components")
    whole_model = not isinstance(parts, list) or "model" in parts
    draft.put("compiled", None if compiled is None else compiled and whole_model)
    if compiled and not whole_model:
        draft.note("only the loss is compiled, not the model")
    draft.default("compiled", False)
    draft.default("flash_attention", True)
    name = (as_text(lookup(tree, "optimizer.name")) or "AdamW").lower()
    draft.put("optimizer", "adam" if name.startswith("adam") else name)
    offload = as_flag(lookup(tree, "training.enable_cpu_offload"))
    draft.put("cpu_offload", "params" if offload else None)
    draft.default("cpu_offload", "none")
    force = first(tree, "debug.moe_force_load_balance", "training.debug_moe_force_load_balance")
    if draft.integer("num_experts"):
        draft.flag("moe_force_balance", force)
        draft.default("moe_force_balance", False)
        comm = as_text(lookup(tree, "parallelism.expert_parallel_comm_backend"))
        draft.put("moe_dispatcher", {"standard": "alltoall", "deepep": "flex-deepep"}.get(comm or "standard", comm))
    for column in ("overlap_grad_reduce", "overlap_param_gather"):
        if section(tree, "training"):
            draft.default(column, draft.values.get("zero_stage") != 0)
