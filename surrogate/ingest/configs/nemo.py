"""NeMo (Framework Launcher, NeMo 1) YAML: `trainer`, `model`, `model.optim`, with resolvers."""

from __future__ import annotations

from typing import Final

from surrogate.ingest.configs.derive import BatchRule
from surrogate.ingest.configs.interpolation import resolve
from surrogate.ingest.configs.known_names import vocabulary_of
from surrogate.ingest.configs.report import ConfigReport, Draft, why_unknown
from surrogate.ingest.configs.scalars import as_count, as_flag, as_float, as_text
from surrogate.ingest.configs.script_cluster import ask_accelerator
from surrogate.ingest.configs.shape import complete_attention, complete_experts, complete_pipeline, dense_layers
from surrogate.ingest.configs.tree import Tree, first, lookup, section

_GATED: Final = frozenset({"swiglu", "fast-swiglu", "geglu", "fast-geglu", "reglu", "fast-reglu"})
_REDUCE_DTYPE: Final = {"32": "fp32", "16": "fp16", "float32": "fp32", "float16": "fp16", "bfloat16": "bf16"}
_SHARDING_STAGE: Final = {"full": 3, "hybrid": 3, "grad": 2}


def read_nemo(tree: Tree) -> ConfigReport:
    """Read a NeMo training configuration."""
    whole = resolve(tree, package="training")
    model = section(whole, "model")
    draft = Draft()
    draft.put("framework", "nemo")
    _read_model(draft, model)
    _read_layout(draft, model)
    _read_cluster(draft, section(whole, "trainer"))
    _read_batch(draft, model, section(whole, "trainer"))
    _read_precision(draft, model, section(whole, "trainer"))
    _read_recompute(draft, model)
    _read_knobs(draft, model)
    _note_other_files(draft, whole)
    name = as_text(lookup(whole, "run.name")) or ""
    ask_accelerator(draft, name, str(lookup(whole, "defaults")))
    return draft.finish("nemo")


def _read_model(draft: Draft, model: Tree) -> None:
    layers = draft.count("num_layers", model.get("num_layers"))
    hidden = draft.count("hidden_size", model.get("hidden_size"))
    draft.count("num_heads", model.get("num_attention_heads"))
    draft.count("num_kv_heads", model.get("num_query_groups"))
    draft.count("head_dim", model.get("kv_channels"))
    draft.count("seq_len", first(model, "encoder_seq_length", "data.seq_length", "seq_length"))
    draft.count("ffn_hidden_size", model.get("ffn_hidden_size"))
    draft.default("ffn_hidden_size", 4 * hidden if hidden else None)
    activation = as_text(model.get("activation"))
    (draft.put if activation else draft.default)("gated_mlp", (activation or "gelu").lower() in _GATED)
    draft.flag("tied_embeddings", model.get("share_embeddings_and_output_weights"))
    draft.default("tied_embeddings", True)
    _read_vocabulary(draft, model)
    complete_attention(draft)
    if as_count(first(model, "num_moe_experts"), least=2):
        draft.count("num_experts", model.get("num_moe_experts"))
        draft.count("moe_top_k", model.get("moe_router_topk"))
        draft.default("moe_top_k", 2)
        draft.count("moe_ffn_hidden_size", model.get("moe_ffn_hidden_size"))
        pattern = as_text(model.get("moe_layer_freq"))
        draft.put("num_dense_layers", dense_layers(pattern, layers) if pattern and layers else None)
    complete_experts(draft)
    draft.count("sliding_window", first(model, "window_size", "sliding_window"))


def _read_vocabulary(draft: Draft, model: Tree) -> None:
    if draft.count("vocab_size", first(model, "override_vocab_size", "tokenizer.vocab_size")) is not None:
        return
    name = as_text(lookup(model, "tokenizer.type")) or ""
    size = vocabulary_of(name) or vocabulary_of(as_text(lookup(model, "tokenizer.model")) or "")
    draft.default("vocab_size", size)
    if size:
        draft.note(f"vocab_size {size} is the tokenizer's ({name}), the file does not give it")
    draft.ask("vocab_size", "it comes from the tokenizer, which the file does not size")


def _read_layout(draft: Draft, model: Tree) -> None:
    for column, name in {
        "tp": "tensor_model_parallel_size",
        "pp": "pipeline_model_parallel_size",
        "cp": "context_parallel_size",
        "ep": "expert_model_parallel_size",
        "vp": "virtual_pipeline_model_parallel_size",
    }.items():
        draft.count(column, model.get(name))
        draft.default(column, 1)
    if draft.integer("num_experts"):
        draft.count("expert_tp", model.get("expert_tensor_parallel_size"))
        draft.default("expert_tp", draft.integer("tp"))
    draft.flag("sequence_parallel", model.get("sequence_parallel"))
    draft.default("sequence_parallel", False)
    complete_pipeline(draft)
    _read_sharding(draft, model)


def _read_sharding(draft: Draft, model: Tree) -> None:
    optimizer = (as_text(lookup(model, "optim.name")) or "").lower()
    if as_flag(model.get("fsdp")):
        strategy = (as_text(model.get("fsdp_sharding_strategy")) or "full").lower()
        draft.put("zero_stage", _SHARDING_STAGE.get(strategy, 3))
        draft.put("fsdp", "fsdp1")
        if strategy == "hybrid":
            draft.ask("hsdp_shard", "hybrid sharding: the shard group is one node")
    elif optimizer:
        distributed = "distributed" in optimizer
        draft.put("zero_stage", int(distributed))
        draft.put("optimizer", "adam;distributed" if distributed else "adam" if "adam" in optimizer else optimizer)


def _read_cluster(draft: Draft, trainer: Tree) -> None:
    nodes, devices = as_count(trainer.get("num_nodes")), as_count(trainer.get("devices"))
    draft.put("gpus_per_node", devices)
    if nodes and devices:
        draft.put("num_gpus", nodes * devices)
    raw = trainer.get("num_nodes") if nodes is None else trainer.get("devices")
    draft.ask("num_gpus", why_unknown(raw) or "trainer.num_nodes or trainer.devices is not given")


def _read_batch(draft: Draft, model: Tree, trainer: Tree) -> None:
    micro = draft.count("micro_batch_size", model.get("micro_batch_size"))
    steps = as_count(trainer.get("accumulate_grad_batches")) or 1
    if draft.count("global_batch_size", model.get("global_batch_size")) is None and micro:
        draft.batch_rule = BatchRule(per_rank_batch_size=micro * steps, accumulation_steps=steps)
    draft.ask("global_batch_size", "not given: micro_batch_size times accumulation and the data-parallel size")
    if as_text(model.get("rampup_batch_size")) is not None:
        draft.note("the global batch size ramps up; the final one is taken")


def _read_precision(draft: Draft, model: Tree, trainer: Tree) -> None:
    raw = first(trainer, "precision") or first(model, "precision")
    text = (as_text(raw) or "32").lower().removesuffix("-mixed").removesuffix("-true")
    base = {"bf16": "bf16", "16": "fp16", "fp16": "fp16", "32": "fp32", "transformer-engine": "fp8"}.get(text)
    if as_flag(model.get("fp8")):
        recipe = (as_text(model.get("fp8_recipe")) or "delayed").lower()
        base = "mxfp8" if recipe == "mxfp8" else "fp8"
        draft.put("fp8_recipe", {"tensorwise": "current"}.get(recipe, recipe))
    draft.put("precision", base)
    draft.ask("precision", why_unknown(raw) or f"precision {text!r} is not one this program knows")
    if as_flag(model.get("fp8_params")) and as_flag(model.get("fp8")):
        draft.put("param_gather_dtype", "fp8")
    grads = as_text(lookup(model, "optim.grad_sync_dtype")) or as_text(model.get("fsdp_grad_reduce_dtype"))
    if grads and (draft.values.get("fsdp") or "grad_sync_dtype" in section(model, "optim")):
        draft.put("grad_reduce_dtype", _REDUCE_DTYPE.get(grads, grads))


def _read_recompute(draft: Draft, model: Tree) -> None:
    raw = first(model, "activations_checkpoint_granularity", "recompute_granularity")
    kind = (as_text(raw) or "none").lower()
    if kind not in ("none", "full", "selective"):
        draft.ask("recompute", why_unknown(raw) or f"granularity {kind!r} is not full or selective")
        return
    (draft.default if kind == "none" else draft.put)("recompute", kind)
    if kind == "selective":
        draft.put("recompute_kind", "core-attention")
    elif kind == "full":
        draft.put("recompute_kind", "full")
        if as_text(first(model, "activations_checkpoint_method", "recompute_method")) == "block":
            draft.count(
                "recompute_layers", first(model, "activations_checkpoint_num_layers", "recompute_num_layers"), least=0
            )


def _read_knobs(draft: Draft, model: Tree) -> None:
    for column, path in {
        "overlap_grad_reduce": "optim.overlap_grad_sync",
        "overlap_param_gather": "optim.overlap_param_sync",
        "tp_comm_overlap": "ub_tp_comm_overlap",
        "flash_attention": "use_flash_attention",
        "fused_norm": "persist_layer_norm",
    }.items():
        draft.flag(column, lookup(model, path))
    for column in ("overlap_grad_reduce", "overlap_param_gather", "tp_comm_overlap"):
        draft.default(column, False)
    if draft.integer("num_experts"):
        draft.put("moe_dispatcher", as_text(model.get("moe_token_dispatcher_type")))
        draft.put("moe_capacity_factor", as_float(model.get("moe_expert_capacity_factor")))
    offload = as_flag(model.get("cpu_offloading"))
    draft.put("cpu_offload", "activations" if offload else None)
    draft.default("cpu_offload", "none")
    graphs = as_flag(model.get("enable_cuda_graph"))
    draft.put("cuda_graphs", "local" if graphs else None)
    draft.default("cuda_graphs", "none")


def _note_other_files(draft: Draft, tree: Tree) -> None:
    defaults = tree.get("defaults")
    entries = defaults if isinstance(defaults, list) else []
    others = [str(entry)[:80] for entry in entries if entry != "_self_"]
    if others:
        draft.note(f"Hydra defaults name other files, which were not read: {'; '.join(others[:5])}")
