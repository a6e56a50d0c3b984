"""llm-foundry (Composer) YAML: MPT models spelled out, Hugging Face models by name, FSDP section."""

from __future__ import annotations

from typing import Final

from surrogate.ingest.configs.derive import BatchRule
from surrogate.ingest.configs.interpolation import resolve
from surrogate.ingest.configs.known_names import preset_shape
from surrogate.ingest.configs.report import ConfigReport, Draft, why_unknown
from surrogate.ingest.configs.scalars import OPEN, as_count, as_flag, as_float, as_text
from surrogate.ingest.configs.script_cluster import ask_accelerator
from surrogate.ingest.configs.shape import complete_attention, complete_experts
from surrogate.ingest.configs.tree import Tree, first, lookup, section

_STAGE: Final = {"FULL_SHARD": 3, "SHARD_GRAD_OP": 2, "NO_SHARD": 0, "HYBRID_SHARD": 3, "_HYBRID_SHARD_ZERO2": 2}
_PRECISION: Final = {"amp_bf16": "bf16", "amp_fp16": "fp16", "amp_fp8": "fp8", "fp32": "fp32", "bf16": "bf16"}
_OVERRIDABLE: Final = {
    "num_hidden_layers": "num_layers",
    "hidden_size": "hidden_size",
    "intermediate_size": "ffn_hidden_size",
    "num_attention_heads": "num_heads",
    "num_key_value_heads": "num_kv_heads",
    "vocab_size": "vocab_size",
}
_GATED: Final = frozenset({"mptglu", "mptgeglu", "te_ln_swiglu", "glu"})


def read_llm_foundry(tree: Tree) -> ConfigReport:
    """Read an llm-foundry training configuration."""
    inner = section(tree, "parameters")
    whole = resolve(inner if "model" in inner else tree)
    draft = Draft()
    draft.put("framework", "composer-fsdp")
    _read_model(draft, section(whole, "model"))
    draft.count("seq_len", first(whole, "max_seq_len", "model.max_seq_len", "train_loader.dataset.max_seq_len"))
    _read_batch(draft, whole)
    _read_sharding(draft, whole)
    raw = whole.get("precision")
    draft.put("precision", _PRECISION.get((as_text(raw) or "amp_bf16").lower()))
    draft.ask("precision", why_unknown(raw) or f"precision {raw!r} is not one this program knows")
    if draft.values.get("precision") == "fp8":
        draft.put("fp8_recipe", "delayed")
    _read_cluster(draft, whole)
    name = (as_text(lookup(whole, "optimizer.name")) or "").lower()
    draft.put("optimizer", "adam" if "adam" in name else name.removeprefix("decoupled_") or None)
    return draft.finish("llm-foundry")


def _read_model(draft: Draft, model: Tree) -> None:
    name = as_text(model.get("pretrained_model_name_or_path"))
    if as_count(model.get("d_model")) is None and name:
        _read_named(draft, model, name)
        for column in ("num_layers", "hidden_size", "num_heads"):
            draft.ask(column, f"the model is named {name}, its shape is in its own config.json")
        flash = as_flag(model.get("use_flash_attention_2"))
        draft.put("flash_attention", flash)
        return
    draft.count("num_layers", model.get("n_layers"))
    hidden = draft.count("hidden_size", model.get("d_model"))
    draft.count("num_heads", model.get("n_heads"))
    draft.count("vocab_size", model.get("vocab_size"))
    tied = as_flag(first(model, "tie_word_embeddings"))
    (draft.default if tied is None else draft.put)("tied_embeddings", tied is not False)
    _read_attention(draft, model)
    _read_mlp(draft, model, hidden)
    for column in ("num_layers", "hidden_size", "num_heads"):
        draft.ask(column, "model.n_layers, d_model or n_heads is not in the file")


def _read_named(draft: Draft, model: Tree, name: str) -> None:
    if OPEN in name:
        return
    draft.put("model_name", name)
    for column, value in (preset_shape(name) or {}).items():
        draft.put(column, value)
    for key, column in _OVERRIDABLE.items():
        draft.count(column, lookup(model, f"config_overrides.{key}"))
    complete_attention(draft)
    complete_experts(draft)


def _read_attention(draft: Draft, model: Tree) -> None:
    kind = as_text(lookup(model, "attn_config.attn_type")) or "multihead_attention"
    if kind == "multiquery_attention":
        draft.put("num_kv_heads", 1)
    draft.count("num_kv_heads", lookup(model, "attn_config.kv_n_heads"))
    draft.count("head_dim", lookup(model, "attn_config.head_dim"))
    complete_attention(draft)
    implementation = as_text(first(model, "attn_config.attn_impl", "attn_impl"))
    (draft.put if implementation else draft.default)("flash_attention", (implementation or "flash") != "torch")
    draft.put("attention_backend", implementation)
    window = as_count(lookup(model, "attn_config.sliding_window_size"))
    draft.put("sliding_window", window)


def _read_mlp(draft: Draft, model: Tree, hidden: int | None) -> None:
    feed = section(model, "ffn_config")
    ratio = as_float(first(model, "expansion_ratio", "mlp_ratio")) or 4
    if draft.count("ffn_hidden_size", feed.get("ffn_hidden_size")) is None and hidden:
        width = int(hidden * ratio)
        (draft.put if as_float(model.get("expansion_ratio")) else draft.default)("ffn_hidden_size", width)
    kind = (as_text(feed.get("ffn_type")) or "mptmlp").lower()
    gated = kind in _GATED or as_text(feed.get("mlp_type")) == "glu"
    (draft.put if "ffn_type" in feed else draft.default)("gated_mlp", gated)
    if as_count(feed.get("moe_num_experts"), least=2):
        draft.count("num_experts", feed.get("moe_num_experts"))
        draft.count("moe_top_k", feed.get("moe_top_k"))
        draft.default("moe_top_k", 1)
        draft.count("ep", feed.get("moe_world_size"))
        draft.flag("moe_force_balance", feed.get("uniform_expert_assignment"))
    draft.default("ep", 1)
    complete_experts(draft)


def _read_batch(draft: Draft, tree: Tree) -> None:
    draft.count("global_batch_size", tree.get("global_train_batch_size"))
    per_device = as_count(tree.get("device_train_batch_size"))
    micro = first(tree, "device_train_microbatch_size", "train_device_microbatch_size")
    draft.count("micro_batch_size", micro)
    draft.ask("micro_batch_size", "device_train_microbatch_size is not given")
    steps = as_count(first(tree, "device_train_grad_accum", "grad_accum"))
    draft.batch_rule = BatchRule(per_rank_batch_size=per_device, accumulation_steps=steps)
    draft.ask("global_batch_size", "global_train_batch_size is not given")


def _read_sharding(draft: Draft, tree: Tree) -> None:
    name = "fsdp_config" if "fsdp_config" in tree else "parallelism_config.fsdp"
    fsdp = section(tree, name)
    if not fsdp:
        draft.default("zero_stage", 0)
    else:
        strategy = (as_text(fsdp.get("sharding_strategy")) or "FULL_SHARD").upper()
        draft.put("zero_stage", _STAGE.get(strategy))
        draft.put("fsdp", "fsdp1")
        draft.count("hsdp_shard", fsdp.get("data_parallel_shard_degree"))
        if draft.values.get("hsdp_shard") in (1, None) and "HYBRID" in strategy:
            draft.ask("hsdp_shard", "hybrid sharding: the shard group is one node")
        draft.default("overlap_grad_reduce", True)
        draft.default("overlap_param_gather", True)
    recompute = as_flag(fsdp.get("activation_checkpointing"))
    draft.put("recompute", "full" if recompute else None)
    draft.put("recompute_kind", "full" if recompute else None)
    draft.default("recompute", "none")
    target = first(section(tree, "model"), "activation_checkpointing_target")
    if recompute and target:
        draft.note(f"only {target} is recomputed")
    draft.put("cpu_offload", "activations" if as_flag(fsdp.get("activation_cpu_offload")) else None)
    draft.default("cpu_offload", "none")


def _read_cluster(draft: Draft, tree: Tree) -> None:
    draft.count("tp", first(tree, "tp_config.tensor_parallel_degree", "parallelism_config.tp.tensor_parallel_degree"))
    for column in ("tp", "pp", "cp", "vp"):
        draft.default(column, 1)
    draft.default("sequence_parallel", False)
    draft.default("tp_comm_overlap", False)
    compiled = "compile_config" in tree and tree["compile_config"] is not None
    (draft.put if "compile_config" in tree else draft.default)("compiled", compiled)
    draft.count("num_gpus", first(tree, "compute.gpus", "gpus"))
    draft.ask("num_gpus", "the launcher decides it")
    hint = as_text(first(tree, "compute.cluster", "gpu_type", "compute.gpu_type", "run_name"))
    ask_accelerator(draft, hint)
