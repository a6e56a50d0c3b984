"""nanotron YAML: `parallelism`, `tokens`, `model.model_config`, `optimizer`; the global batch size is derived."""

from __future__ import annotations

from typing import Final

from surrogate.ingest.configs.derive import BatchRule
from surrogate.ingest.configs.huggingface import read_shape
from surrogate.ingest.configs.report import ConfigReport, Draft
from surrogate.ingest.configs.scalars import as_count, as_flag, as_text
from surrogate.ingest.configs.script_cluster import ask_accelerator
from surrogate.ingest.configs.shape import complete_experts, complete_pipeline
from surrogate.ingest.configs.tree import Tree, first, lookup, section

_PRECISION: Final = {"bfloat16": "bf16", "float16": "fp16", "float32": "fp32", "float8": "fp8", "fp8": "fp8"}
_ENGINES: Final = {"1f1b": "1f1b", "afab": "gpipe"}


def read_nanotron(tree: Tree) -> ConfigReport:
    """Read a nanotron training configuration."""
    draft = Draft()
    draft.put("framework", "nanotron")
    _read_model(draft, section(tree, "model.model_config"))
    _read_layout(draft, section(tree, "parallelism"))
    _read_batch(draft, section(tree, "tokens"))
    _read_training(draft, tree)
    ask_accelerator(draft, as_text(lookup(tree, "general.run")))
    return draft.finish("nanotron")


def _read_model(draft: Draft, model: Tree) -> None:
    shape = section(model, "text_config") or dict(model)
    if as_flag(shape.get("is_starcoder2_config")):
        shape["model_type"] = "starcoder2"
        if not as_flag(shape.get("grouped_query")):
            shape["num_kv_heads"] = 1
    elif any(as_flag(shape.get(name)) for name in ("is_llama_config", "is_qwen2_config", "is_llama4_config")):
        shape.setdefault("model_type", "llama")
        shape["hidden_act"] = "silu"
    read_shape(draft, shape)
    draft.default("ep", 1)
    _read_experts(draft, section(shape, "moe_config"))
    attention = as_text(shape.get("_attn_implementation")) or "flash_attention_2"
    put = draft.put if "_attn_implementation" in shape else draft.default
    put("flash_attention", "flash" in attention or "flex" in attention)
    put("attention_backend", attention.removesuffix("_2").removesuffix("_attention"))
    draft.flag("fused_norm", shape.get("_fused_rms_norm"))


def _read_experts(draft: Draft, experts: Tree) -> None:
    if not as_count(experts.get("num_experts"), least=2):
        return
    draft.count("num_experts", experts.get("num_experts"))
    draft.count("moe_top_k", experts.get("top_k"))
    if "top_k" not in experts:
        draft.values.pop("moe_top_k", None)
        draft.default("moe_top_k", 2)
    draft.count("moe_ffn_hidden_size", first(experts, "moe_intermediate_size", "moe_hidden_size"))
    draft.put("num_shared_experts", int(as_flag(experts.get("enable_shared_expert")) or False))
    draft.put("moe_dispatcher", as_text(experts.get("token_dispatcher_type")))
    listed = experts.get("layers")
    if isinstance(listed, list) and -1 not in listed and (layers := draft.integer("num_layers")):
        draft.put("num_dense_layers", max(0, layers - len(set(map(str, listed)))))
    complete_experts(draft)


def _read_layout(draft: Draft, parallelism: Tree) -> None:
    for column, name in {"tp": "tp", "pp": "pp", "cp": "context_parallel_size", "ep": "expert_parallel_size"}.items():
        draft.count(column, parallelism.get(name))
    for column in ("cp", "ep"):
        draft.default(column, 1)
    dp = as_count(parallelism.get("dp"))
    if dp is not None:
        # nanotron's world is ep x pp x dp x cp x tp; in the runs table expert ranks are among the data-parallel ones
        draft.put("dp", dp * (draft.integer("ep") or 1))
    mode = (as_text(parallelism.get("tp_mode")) or "").upper()
    draft.put("sequence_parallel", mode.endswith("REDUCE_SCATTER") if mode else None)
    draft.default("sequence_parallel", False)
    draft.flag("tp_comm_overlap", parallelism.get("tp_linear_async_communication"))
    draft.default("tp_comm_overlap", False)
    if draft.integer("num_experts"):
        draft.default("expert_tp", draft.integer("tp"))
    if (draft.integer("pp") or 1) > 1:
        draft.put("pipeline_schedule", _ENGINES.get((as_text(parallelism.get("pp_engine")) or "1f1b").lower()))
    complete_pipeline(draft)
    _read_recompute(draft, parallelism)


def _read_recompute(draft: Draft, parallelism: Tree) -> None:
    older = (as_text(parallelism.get("recompute_granularity")) or "").lower()
    if older == "selective":
        draft.put("recompute", "selective")
        draft.put("recompute_kind", "core-attention")
    elif older == "full" or as_flag(parallelism.get("recompute_layer")):
        draft.put("recompute", "full")
        draft.put("recompute_kind", "full")
    draft.default("recompute", "none")


def _read_batch(draft: Draft, tokens: Tree) -> None:
    draft.count("seq_len", tokens.get("sequence_length"))
    micro = draft.count("micro_batch_size", tokens.get("micro_batch_size"))
    steps = as_count(tokens.get("batch_accumulation_per_replica")) or 1
    draft.batch_rule = BatchRule(per_rank_batch_size=micro * steps if micro else None, accumulation_steps=steps)
    if (ep := draft.integer("ep") or 1) > 1 and micro and (dp := draft.integer("dp")):
        draft.put("global_batch_size", micro * steps * dp // ep)


def _read_training(draft: Draft, tree: Tree) -> None:
    dtype = (as_text(lookup(tree, "model.dtype")) or "").lower().removeprefix("torch.")
    draft.put("precision", _PRECISION.get(dtype))
    draft.ask("precision", f"model.dtype {dtype!r} is not one this program knows")
    draft.count("zero_stage", lookup(tree, "optimizer.zero_stage"), least=0)
    wide = as_flag(lookup(tree, "optimizer.accumulate_grad_in_fp32"))
    if wide is not None:
        draft.put("grad_reduce_dtype", "fp32" if wide else str(draft.values.get("precision", "bf16")))
    name = as_text(lookup(tree, "optimizer.optimizer_factory.name")) or "adamW"
    draft.put("optimizer", "adam" if name.lower().startswith("adam") else name.lower())
    draft.default("cpu_offload", "none")
    draft.default("cuda_graphs", "none")
