"""Layout, batch, precision, recomputation and tuning settings out of Megatron-LM arguments."""

from __future__ import annotations

from typing import Final

from surrogate.ingest.configs.arguments import Arguments
from surrogate.ingest.configs.derive import BatchRule
from surrogate.ingest.configs.report import Draft, why_unknown
from surrogate.ingest.configs.scalars import as_count, as_float
from surrogate.ingest.configs.shape import complete_pipeline, layout_stages

_SHARDING_STAGE: Final = {"no_shard": 0, "optim": 1, "optim_grads": 2, "optim_grads_params": 3}
_FP8_RECIPES: Final = {"tensorwise": "current", "delayed": "delayed", "blockwise": "blockwise", "mxfp8": "mxfp8"}
_RECOMPUTE_OFF: Final = ("none", "null", "false")


def read_layout(draft: Draft, arguments: Arguments) -> None:
    """Read the parallel sizes, sharding stage and pipeline schedule."""
    for column, names in {
        "tp": ("tensor_model_parallel_size", "model_parallel_size"),
        "pp": ("pipeline_model_parallel_size", "transformer_pipeline_model_parallel_size", "pipe_parallel_size"),
        "cp": ("context_parallel_size", "ds_sequence_parallel_size"),
        "ep": ("expert_model_parallel_size", "moe_expert_parallel_size"),
    }.items():
        draft.count(column, arguments.raw(*names))
        draft.default(column, 1)
    draft.count("num_gpus", arguments.raw("world_size"))
    if draft.integer("num_experts") and draft.count("expert_tp", arguments.raw("expert_tensor_parallel_size")) is None:
        draft.default("expert_tp", draft.integer("tp"))
    sequence = arguments.on("sequence_parallel")
    (draft.put if "sequence_parallel" in arguments else draft.default)("sequence_parallel", sequence)
    if sequence and draft.integer("tp") == 1:
        draft.note("sequence_parallel has no effect at tp = 1")
    _read_virtual_stages(draft, arguments)
    _read_sharding(draft, arguments)
    if arguments.on("enable_zero_bubble", "zero_bubble_v_schedule"):
        draft.put("pipeline_schedule", "zb-v" if arguments.on("zero_bubble_v_schedule") else "zb-h1")
    complete_pipeline(draft)


def _read_virtual_stages(draft: Draft, arguments: Arguments) -> None:
    layers, pp = draft.integer("num_layers"), draft.integer("pp")
    if draft.count("vp", arguments.raw("virtual_pipeline_model_parallel_size", "num_virtual_stages_per_pipeline_rank")):
        return
    layout = arguments.text("pipeline_model_parallel_layout")
    if layout:
        draft.put("pipeline_layout", layout)
        if pp and (stages := layout_stages(layout)) % pp == 0:
            draft.put("vp", stages // pp)
            return
    raw = arguments.raw("num_layers_per_virtual_pipeline_stage")
    per_stage = as_float(raw)
    if per_stage and layers and pp and layers % (pp * per_stage) == 0:
        draft.put("vp", int(layers / (pp * per_stage)))
    elif raw is not None:
        draft.ask(
            "vp", why_unknown(raw) or f"{raw} layers per virtual stage do not divide {layers} layers over pp = {pp}"
        )


def _read_sharding(draft: Draft, arguments: Arguments) -> None:
    if arguments.on("use_torch_fsdp2"):
        draft.put("zero_stage", 3)
        draft.put("fsdp", "fsdp2")
        return
    is_fsdp = arguments.on("use_megatron_fsdp", "use_custom_fsdp")
    strategy = arguments.text("data_parallel_sharding_strategy")
    if is_fsdp:
        draft.put("fsdp", "megatron-fsdp")
        draft.put("zero_stage", _SHARDING_STAGE.get(strategy or "no_shard", 0))
    elif draft.count("zero_stage", arguments.raw("zero_stage"), least=0) is None or not arguments.on("deepspeed"):
        distributed = arguments.on("use_distributed_optimizer")
        draft.values.pop("zero_stage", None)
        (draft.put if "use_distributed_optimizer" in arguments else draft.default)("zero_stage", int(distributed))


def read_batch(draft: Draft, arguments: Arguments) -> None:
    """Read sequence length and batch sizes."""
    draft.count("seq_len", arguments.raw("seq_length", "encoder_seq_length"))
    micro = draft.count("micro_batch_size", arguments.raw("micro_batch_size", "batch_size"))
    draft.count("global_batch_size", arguments.raw("global_batch_size"))
    if draft.integer("global_batch_size") is None and micro:
        steps = as_count(arguments.raw("gas", "gradient_accumulation_steps")) or 1
        draft.batch_rule = BatchRule(per_rank_batch_size=micro * steps, accumulation_steps=steps)
        draft.ask("global_batch_size", f"not given: {steps} x {micro} sequences times the data-parallel size")
    if arguments.items("rampup_batch_size") or arguments.raw("rampup_batch_size", "step_batch_size_schedule"):
        draft.note("the global batch size ramps up; the final one is taken")


def read_precision(draft: Draft, arguments: Arguments) -> None:
    """Read the training precision, the FP8 recipe and the data types of communication."""
    dtype = (arguments.text("params_dtype") or "").removeprefix("torch.")
    base = (
        "bf16"
        if arguments.on("bf16") or dtype == "bfloat16"
        else "fp16"
        if arguments.on("fp16") or dtype == "float16"
        else "fp32"
    )
    low = _low_precision(draft, arguments)
    draft.put("precision", low or base)
    if arguments.on("fp8_param_gather", "fp8_param"):
        draft.put("param_gather_dtype", "fp8")
    elif base != "fp32":
        draft.default("param_gather_dtype", base)
    if arguments.on("grad_reduce_in_bf16"):
        draft.put("grad_reduce_dtype", "bf16")
    elif arguments.on("accumulate_allreduce_grads_in_fp32"):
        draft.put("grad_reduce_dtype", "fp32")
    else:
        draft.default("grad_reduce_dtype", "fp16" if base == "fp16" else "fp32")


def _low_precision(draft: Draft, arguments: Arguments) -> str | None:
    if arguments.text("fp4_format", "fp4"):
        draft.put("fp8_recipe", arguments.text("fp4_recipe") or "nvfp4")
        return "nvfp4"
    given = arguments.text("fp8_format", "fp8") or arguments.on("fp8_hybrid", "fp8_e4m3")
    if not given or given in ("False", "false"):
        return None
    recipe = (arguments.text("fp8_recipe") or "delayed").lower()
    draft.put("fp8_recipe", _FP8_RECIPES.get(recipe, recipe))
    return "mxfp8" if recipe == "mxfp8" else "fp8"


def read_recompute(draft: Draft, arguments: Arguments) -> None:
    """Read activation recomputation: kind, how many layers, which modules."""
    granularity = (arguments.text("recompute_granularity") or "").lower()
    old_full = arguments.on("checkpoint_activations") or arguments.text("activations_checkpoint_method") is not None
    if granularity in _RECOMPUTE_OFF:
        granularity = ""
    if not granularity:
        granularity = "selective" if arguments.on("recompute_activations") else "full" if old_full else ""
    if granularity == "full":
        _full(draft, arguments)
    elif granularity == "selective":
        draft.put("recompute", "selective")
        modules = arguments.items("recompute_modules") or ["core_attn"]
        draft.put("recompute_modules", ";".join(modules))
        draft.put("recompute_kind", "core-attention" if modules == ["core_attn"] else "modules")
    elif granularity:
        draft.ask("recompute", why_unknown(granularity) or f"granularity {granularity!r} is not full or selective")
    else:
        draft.default("recompute", "none")


def _full(draft: Draft, arguments: Arguments) -> None:
    draft.put("recompute", "full")
    draft.put("recompute_kind", "full")
    method = arguments.text("recompute_method", "activations_checkpoint_method")
    raw = arguments.raw("recompute_num_layers", "activations_checkpoint_num_layers")
    if method == "block" and draft.count("recompute_layers", raw, least=0) is not None:
        draft.note("recompute_layers counts layers per pipeline stage (per model chunk when interleaved)")


def read_knobs(draft: Draft, arguments: Arguments) -> None:
    """Read overlap, kernels, dispatcher, graphs, optimizer and offload."""
    for column, name in {
        "overlap_grad_reduce": "overlap_grad_reduce",
        "overlap_param_gather": "overlap_param_gather",
        "tp_comm_overlap": "tp_comm_overlap",
    }.items():
        (draft.put if name in arguments else draft.default)(column, arguments.on(name))
    _read_attention_kernel(draft, arguments)
    _read_dispatch(draft, arguments)
    _read_graphs(draft, arguments)
    _read_optimizer(draft, arguments)
    draft.put("cp_comm_type", next(iter(arguments.items("cp_comm_type")), None))
    if draft.integer("cp") and draft.values["cp"] != 1:
        draft.default("cp_comm_type", "p2p")


def _read_attention_kernel(draft: Draft, arguments: Arguments) -> None:
    backend = (arguments.text("attention_backend") or "").lower().removeprefix("attnbackend.")
    draft.put("attention_backend", backend or None)
    if arguments.on("use_flash_attn", "use_flash_attn_v2", "use_flash_attn_v1", "use_flash_attn_triton"):
        draft.put("flash_attention", True)
        draft.default("attention_backend", "flash")
    elif backend in ("flash", "fused"):
        draft.put("flash_attention", True)
    elif backend in ("unfused", "local") or arguments.text("transformer_impl") == "local":
        draft.put("flash_attention", False)
    elif backend == "auto":
        draft.default("flash_attention", True)
    elif arguments.on("deepspeed") or "checkpoint_activations" in arguments:
        draft.default("flash_attention", False)


def _read_dispatch(draft: Draft, arguments: Arguments) -> None:
    if not draft.integer("num_experts"):
        return
    kind = arguments.text("moe_token_dispatcher_type")
    backend = arguments.text("moe_flex_dispatcher_backend")
    if arguments.on("moe_enable_deepep") or kind == "flex":
        kind = "hybridep" if backend == "hybridep" else "flex-deepep"
    draft.put("moe_dispatcher", kind)
    draft.default("moe_dispatcher", "allgather" if "moe_router_topk" in arguments else None)
    draft.default("ep_overlap", arguments.on("overlap_moe_expert_parallel_comm", "moe_shared_expert_overlap_ep"))
    draft.default("moe_force_balance", arguments.on("moe_router_force_load_balancing"))
    draft.put("moe_capacity_factor", as_float(arguments.raw("moe_expert_capacity_factor", "moe_train_capacity_factor")))


def _read_graphs(draft: Draft, arguments: Arguments) -> None:
    implementation = arguments.text("cuda_graph_impl")
    if arguments.on("enable_cuda_graph") or implementation == "local":
        kind = "local"
    elif arguments.on("external_cuda_graph") or implementation == "transformer_engine":
        kind = "te"
    else:
        draft.default("cuda_graphs", "none")
        return
    scope = "+".join(arguments.items("cuda_graph_scope"))
    draft.put("cuda_graphs", f"{kind}:{scope}" if scope else kind)


def _read_optimizer(draft: Draft, arguments: Arguments) -> None:
    parts = [arguments.text("optimizer") or "adam"]
    if draft.values.get("zero_stage") == 1 and arguments.on("use_distributed_optimizer"):
        parts.append("distributed")
    if arguments.on("use_precision_aware_optimizer"):
        names = {"main_params": "main_params_dtype", "main_grads": "main_grads_dtype", "exp_avg": "exp_avg_dtype"}
        types = {
            key: arguments.text(name) or "fp32" for key, name in {**names, "exp_avg_sq": "exp_avg_sq_dtype"}.items()
        }
        parts.append("precision_aware(" + ",".join(f"{key}={value}" for key, value in types.items()) + ")")
    draft.put("optimizer", ";".join(parts))
    if arguments.on("optimizer_cpu_offload", "cpu_optimizer"):
        draft.put("cpu_offload", "optimizer")
    elif as_count(arguments.raw("cpu_offloading_num_layers")):
        draft.put("cpu_offload", "activations")
    else:
        draft.default("cpu_offload", "none")
