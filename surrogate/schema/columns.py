"""The runs table: one row is one steady-state training configuration, measured, tried or planned.

Every column is declared here once and nowhere else. `COLUMNS` is the order of every table this package writes.
"""

from __future__ import annotations

from typing import Final

from surrogate.schema.column import Column, Kind, PublishedUnit, count, flag, fraction, quantity, text
from surrogate.units import BYTES_PER_S_PER_GBIT_PER_S, GIB, GIGA, TERA

IDENTITY: Final = (
    text("run_id", "unique name of the row; source and number for published runs"),
    text("source", "publication (one release or paper) that the row comes from"),
    text("publisher_family", "who measures: same stack and machines over successive releases"),
    text("source_ref", "citation: repository, path, commit and heading, or paper and table"),
    text("date", "year and month of publication or measurement, yyyy-mm"),
    text("framework", "training framework, as published"),
    text("framework_version", "version, commit or container, as published"),
    text("stack", "framework family by shared performance core, see data/README.md"),
)

ARCHITECTURE: Final = (
    text("arch_from", "where the architecture comes from when the source itself does not print it"),
    text("model_name", "model, for people: predictions read the sizes below"),
    count("num_layers", "transformer layers", required=True),
    count("hidden_size", "width of the residual stream", required=True),
    count("ffn_hidden_size", "width of a dense layer's MLP; 0 when every layer is an expert layer", lower=0),
    count("num_heads", "attention query heads", required=True),
    count("num_kv_heads", "key/value heads"),
    count("head_dim", "width of one attention head"),
    count("vocab_size", "vocabulary entries, as trained (padded if known)"),
    count("seq_len", "tokens per sequence", required=True),
    flag("gated_mlp", "the MLP has three matrices (SwiGLU, GeGLU) instead of two"),
    flag("tied_embeddings", "input and output embedding share one table"),
    count("num_experts", "routed experts per layer, 0 for dense models", lower=0),
    count("moe_top_k", "experts per token, 0 for dense models", lower=0),
    count("moe_ffn_hidden_size", "width of one expert's MLP", lower=0),
    count("num_shared_experts", "experts that every token visits", lower=0),
    count("num_dense_layers", "dense layers of a mixture-of-experts model", lower=0),
    text("attention", "multi-head, grouped-query, multi-query or latent attention", "mha", "gqa", "mqa", "mla"),
    count("q_lora_rank", "latent attention: width of the query latent, 0 without query compression", lower=0),
    count("kv_lora_rank", "latent attention: width of the key/value latent", lower=0),
    count("qk_nope_head_dim", "latent attention: query/key width per head without position", lower=0),
    count("qk_rope_head_dim", "latent attention: query/key width per head with position", lower=0),
    count("v_head_dim", "latent attention: value width per head", lower=0),
    count("sliding_window", "tokens a windowed (or chunked) layer attends to"),
    fraction("windowed_layers_fraction", "share of the layers whose attention is windowed"),
    count("num_mtp_layers", "extra multi-token-prediction layers trained along", lower=0),
    quantity(
        "published_params",
        "",
        "total parameters as published",
        published=PublishedUnit(name="params_b", unit="billions", factor=GIGA),
    ),
    quantity(
        "published_active_params",
        "",
        "parameters active per token as published",
        published=PublishedUnit(name="active_params_b", unit="billions", factor=GIGA),
    ),
    text("arch_caveat", "what the architecture columns cannot express"),
)

HARDWARE: Final = (
    text("accelerator", "catalogue name or alias of the accelerator", required=True),
    count("num_gpus", "accelerators in the run (chips on TPUs, cores on Trainium)", required=True),
    count("gpus_per_node", "accelerators per host"),
    text("intra_node", "link inside a node with its marketed, bidirectional bandwidth per accelerator"),
    quantity(
        "inter_node_bytes_per_s",
        "B/s",
        "network bandwidth per node, one direction, nominal",
        published=PublishedUnit(name="inter_node_gbps", unit="Gbit/s", factor=BYTES_PER_S_PER_GBIT_PER_S),
    ),
    text("inter_node_from", "where the network bandwidth comes from: row, or how close the statement is"),
    text("fabric", "network technology as published"),
    count("nvlink_domain_gpus", "accelerators that share the fast link (72 on NVL72, the pod on a TPU)"),
    text("cluster", "cluster on which the source measured"),
    text("network_confidence", "how sure the cluster's network bandwidth is"),
)

LAYOUT: Final = (
    count("tp", "tensor parallel size", required=True),
    count("pp", "pipeline parallel size", required=True),
    count("cp", "context parallel size"),
    count("dp", "data parallel size, num_gpus / (tp*pp*cp); derived when absent"),
    count("ep", "expert parallel size"),
    count("vp", "virtual pipeline stages (model chunks) per device, 1 = none"),
    count("expert_tp", "tensor parallel size inside the experts"),
    flag("sequence_parallel", "norms and dropout are split along the sequence over the tensor parallel group"),
    count("zero_stage", "0 plain DDP, 1 distributed optimizer, 2 + gradients, 3 + parameters (FSDP)", lower=0, upper=3),
    text(
        "fsdp",
        "which sharded data parallelism holds the parameters",
        "none",
        "fsdp1",
        "fsdp2",
        "megatron-fsdp",
        "deepspeed",
        "gspmd",
    ),
    count("hsdp_shard", "ranks in one sharding group when it is smaller than dp*cp"),
    text(
        "pipeline_schedule",
        "order of the micro-batches in the pipeline",
        "1f1b",
        "interleaved-1f1b",
        "gpipe",
        "zb-h1",
        "zb-h2",
        "zb-v",
        "dualpipe",
        "v-half",
        "v-min",
    ),
    text("pipeline_layout", "layers per stage when the split is uneven, in the framework's notation"),
)

SETTINGS: Final = (
    count("micro_batch_size", "sequences per micro-batch and data parallel rank"),
    count("global_batch_size", "sequences per optimizer step", required=True),
    text(
        "precision",
        "precision of the matrix products",
        "fp32",
        "tf32",
        "fp16",
        "bf16",
        "int8",
        "fp8",
        "mxfp8",
        "nvfp4",
    ),
    text("fp8_recipe", "scaling recipe: delayed, current, rowwise, blockwise, mxfp8, nvfp4"),
    text("recompute", "activation recomputation", "none", "selective", "full"),
    text(
        "recompute_kind",
        "what is recomputed: attention core, cheap operators, listed modules, whole layers",
        "core-attention",
        "op-selective",
        "modules",
        "full",
    ),
    count("recompute_layers", "layers of each pipeline stage that are recomputed when not all are", lower=0),
    text("recompute_modules", "recomputed modules, or the policy's name with its framework (maxtext:..., pax:...)"),
    flag("flash_attention", "attention without the score matrix in memory"),
    text("attention_backend", "attention kernel: torch, megatron, flash, flash1, flash2, cudnn, auto, flex"),
    flag("fused_norm", "a fused kernel computes the norm"),
    flag("overlap_grad_reduce", "gradient reduction overlaps the backward pass"),
    flag("overlap_param_gather", "parameter gathering overlaps the forward pass"),
    flag("tp_comm_overlap", "tensor parallel communication overlaps the matrix products"),
    text("moe_dispatcher", "token dispatcher: alltoall, allgather, deepep, hybridep, megablox, dropping"),
    flag("ep_overlap", "expert parallel communication overlaps computation"),
    flag("moe_force_balance", "routing is forced to balance, as benchmarks do"),
    Column(
        name="moe_capacity_factor",
        kind=Kind.FLOAT,
        lower=0.0,
        meaning="expert capacity factor; 0 = no token is dropped",
    ),
    text("cuda_graphs", "captured scope: none, local, full, or te:module+module"),
    flag("compiled", "torch.compile or XLA compiles the model"),
    text("cp_comm_type", "context parallel exchange: p2p, all_gather, a2a"),
    text("optimizer", "state layout: adam (fp32 states), adam-bf16 (bf16 gradients and moments), adam-8bit, muon"),
    text("param_gather_dtype", "type in which parameters are gathered", "fp32", "bf16", "fp16", "fp8"),
    text("grad_reduce_dtype", "type in which gradients are reduced", "fp32", "bf16", "fp16"),
    text("cpu_offload", "what is kept in host memory", "none", "optimizer", "activations", "params"),
    count("cpu_offload_layers", "layers whose activations are offloaded when not all are"),
)

MEASURED: Final = (
    text("status", "ok, or oom when the run did not fit; absent means ok", "ok", "oom"),
    quantity("step_time_s", "s", "measured seconds per optimizer step"),
    quantity("step_time_p95_s", "s", "95th percentile of the step time"),
    Column(
        name="step_time_cv",
        kind=Kind.FLOAT,
        lower=0.0,
        meaning="coefficient of variation of the step time inside the run",
    ),
    count("n_steps", "steps behind the measured time"),
    quantity("tokens_per_s_per_gpu", "1/s", "measured tokens per second and accelerator"),
    quantity("samples_per_s", "1/s", "measured sequences per second, whole run"),
    quantity(
        "achieved_flops_per_s",
        "FLOP/s",
        "reported achieved rate per accelerator, by the convention of tflops_kind",
        published=PublishedUnit(name="tflops_per_gpu", unit="TFLOP/s", factor=TERA),
    ),
    fraction("stated_rel_rounding", "relative rounding of the published figure where its printed digits do not tell"),
    text("tflops_kind", "model or hardware FLOPs, and the formula behind the reported rate or utilisation"),
    Column(name="mfu", kind=Kind.FLOAT, positive=True, upper=1.0, meaning="reported model FLOPs utilisation"),
    quantity(
        "peak_memory_bytes",
        "B",
        "reported peak device memory",
        published=PublishedUnit(name="peak_memory_gb", unit="GiB", factor=GIB),
    ),
    text("peak_memory_kind", "what the allocator's figure counts", "allocated", "reserved"),
)

PROVENANCE: Final = (
    text("notes", "what a modeller must know about the row"),
    text("variant", "settings that no column holds"),
    text("missing_fields", "fields a model needs that the source does not publish"),
    text("knobs_from", "recipe file and commit that filled settings which the source's table does not print"),
    text("knobs_confidence", "how close that recipe is to the run"),
    text("knobs_notes", "further settings of the recipe"),
    text("audit", "verdict of the data audit on the source", "clean", "low-weight", "do-not-train"),
    text("audit_note", "reason for the verdict"),
    text(
        "quality",
        "a exact configuration and time, b some inferred, c rounded, utilisation only or noisy",
        "a",
        "b",
        "c",
    ),
    text("repeat_group", "rows of identical configuration, whatever the software version"),
    text("split_group", "rows identical up to kernel, framework and unknown fields: never split across folds"),
)

DERIVED: Final = (
    quantity("measured_step_time_s", "s", "the target: step time by the source's own convention", derived=True),
    text("time_from", "figure behind the target", "step", "tokens", "samples", "tflops", "mfu", derived=True),
    fraction("time_rel_rounding", "half a unit of the last printed digit, relative", derived=True),
    quantity("step_time_alt_s", "s", "the target from TFLOP/s where the printed token rate is coarse", derived=True),
    quantity("num_params", "", "parameters without biases, norms and position tables", derived=True),
    quantity("model_flops_per_token", "FLOP", "model FLOPs, attention not halved, no recompute", derived=True),
    quantity("peak_flops_per_s", "FLOP/s", "dense peak of the accelerator at the row's precision", derived=True),
    quantity("mfu_computed", "", "utilisation that follows from the target", derived=True),
    text("duplicate_of", "first row with the same configuration and the same time", derived=True),
)

COLUMNS: Final[tuple[Column, ...]] = (
    *IDENTITY,
    *ARCHITECTURE,
    *HARDWARE,
    *LAYOUT,
    *SETTINGS,
    *MEASURED,
    *PROVENANCE,
    *DERIVED,
)
COLUMN_BY_NAME: Final = {column.name: column for column in COLUMNS}
BY_PUBLISHED_NAME: Final = {column.published.name: column for column in COLUMNS if column.published}
INPUT_COLUMNS: Final = tuple(column.name for column in COLUMNS if not column.derived)
REQUIRED_COLUMNS: Final = tuple(column.name for column in COLUMNS if column.required)
