"""Runs table -> the analytic model's input, with every missing cell filled by rule and flagged."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from surrogate.analytic.software import AttentionKernel, SoftwareTraits
from surrogate.analytic.workload import (
    BoolArray,
    FloatArray,
    IntArray,
    Offload,
    OptimizerKind,
    Recompute,
    Schedule,
    Workload,
)
from surrogate.features import imputation
from surrogate.features.columns import lookup, numbers, texts
from surrogate.features.hardware import Hardware, hardware_of
from surrogate.features.imputation import Imputer
from surrogate.features.stacks import StackTraits, stack_traits

_SCHEDULES = {
    "1f1b": Schedule.ONE_F_ONE_B,
    "interleaved-1f1b": Schedule.INTERLEAVED,
    "gpipe": Schedule.GPIPE,
    "zb-h1": Schedule.ZB_H1,
    "zb-h2": Schedule.ZB_H2,
    "zb-v": Schedule.ZB_V,
    "dualpipe": Schedule.DUALPIPE,
    "v-half": Schedule.V_HALF,
    "v-min": Schedule.V_MIN,
}
_OFFLOADS = {
    "optimizer": Offload.OPTIMIZER,
    "activations": Offload.ACTIVATIONS,
    "params": Offload.PARAMS,
}
_OPTIMIZERS = {
    "adam-bf16": OptimizerKind.ADAM_BF16,
    "adam-8bit": OptimizerKind.ADAM_8BIT,
    "muon": OptimizerKind.MUON,
}
_MLA_DEFAULTS = {
    "q_lora_rank": 1536.0,
    "kv_lora_rank": 512.0,
    "qk_nope_head_dim": 128.0,
    "qk_rope_head_dim": 64.0,
    "v_head_dim": 128.0,
}
"""DeepSeek-V3's widths, which every published latent-attention model of this size kept."""

FLASH_YEAR = 2023.2
"""From here on a run that does not say so is taken to use a fused attention kernel."""
_MEGATRON_FLASH_YEAR = 2024.25
"""Until here Megatron-LM used a fused attention kernel only when told to (--use-flash-attn)."""
RECOMPUTE_YEAR = 2022.0
"""Until here a run that does not say so is taken to recompute fully."""
_OVERLAP_YEAR = 2022.8
_GATHER_OVERLAP_YEAR = 2023.0
_TP_OVERLAP_YEAR = 2023.4
_FLASH_2_YEAR = 2023.5
_FLASH_3_YEAR = 2024.7
_PLAIN_TORCH_STACKS = ("torchtitan", "nanotron", "deepspeed-zero", "composer-fsdp-torch2")
"""Stacks that call torch's attention or the flash-attn package, whose kernels are FlashAttention-2 on Hopper too."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PreparedRuns:
    """n rows ready for the analytic model."""

    workload: Workload
    software: SoftwareTraits
    hardware: Hardware
    stack: StackTraits
    imputer: Imputer

    def __len__(self) -> int:
        return len(self.workload)


def prepare_runs(runs: pd.DataFrame) -> PreparedRuns:
    """Return the analytic model's input for a validated runs table.

    Parameters
    ----------
    runs : DataFrame of shape (n, columns)
        Canonical columns as `schema.validate_runs` returns them; optional ones may be missing.

    Raises
    ------
    UnknownNameError, InputError
        If an accelerator or a rate of it is unknown to the catalogue.
    """
    imputer = Imputer(runs)
    stack = stack_traits(runs)
    hardware = hardware_of(runs, imputer)
    model = _architecture(runs, imputer)
    layout = _layout(runs, imputer, stack, hardware, model)
    training = _training(runs, imputer, stack, hardware, layout)
    workload = Workload(
        **model,
        **{name: getattr(hardware, name) for name in _HARDWARE_FIELDS},
        **layout,
        **training,
    )
    _flag_texts(runs, imputer, workload)
    return PreparedRuns(
        workload=workload,
        software=_software(runs, stack, hardware, workload),
        hardware=hardware,
        stack=stack,
        imputer=imputer,
    )


def _flag_texts(runs: pd.DataFrame, imputer: Imputer, w: Workload) -> None:
    """Flag named settings that a row does not say, where they bear on its step time."""
    concerned = {
        "pipeline_schedule": w.pp > 1.0,
        "grad_reduce_dtype": w.dp * w.cp > 1.0,
        "attention_backend": w.flash_attention,
        "cuda_graphs": w.num_gpus > 0.0,
        "optimizer": w.num_gpus > 0.0,
    }
    for column, rows in concerned.items():
        imputer.flag(column, rows & np.asarray(texts(runs, column) == "", dtype=np.bool_))
    nothing = np.asarray(texts(runs, "framework") == "", dtype=np.bool_)
    imputer.flag("stack", nothing & np.asarray(texts(runs, "stack") == "", dtype=np.bool_))


_HARDWARE_FIELDS = (
    "peak_flops_per_s",
    "peak_16bit_flops_per_s",
    "hbm_bytes",
    "hbm_bytes_per_s",
    "fast_link_bytes_per_s",
    "fast_domain_gpus",
    "gpus_per_node",
    "network_bytes_per_s",
    "host_link_bytes_per_s",
    "precision",
)

Arrays = dict[str, Any]
"""Arrays of shape (n,) by field of `Workload`: floats, flags and codes."""


def _architecture(runs: pd.DataFrame, imputer: Imputer) -> Arrays:
    """Sizes; a dense MLP that is not given is 4h wide, or has as many weights behind a gate (8/3 h)."""
    layers, hidden, heads, seq = (numbers(runs, name) for name in ("num_layers", "hidden_size", "num_heads", "seq_len"))
    kv_heads = imputer.fill("num_kv_heads", heads)
    gated = imputer.fill("gated_mlp", np.where(kv_heads < heads, 1.0, 0.0)) > 0.5
    experts = imputer.fill("num_experts", 0.0)
    is_moe = experts > 0.0
    dense_layers = np.where(is_moe, imputer.fill("num_dense_layers", 0.0), layers)
    ffn = imputer.fill("ffn_hidden_size", np.where(gated, 8.0 / 3.0, 4.0) * hidden)
    is_mla = np.asarray(texts(runs, "attention") == "mla", dtype=np.bool_)
    widths = {name: np.where(is_mla, imputer.fill(name, value), 0.0) for name, value in _MLA_DEFAULTS.items()}
    window = imputer.fill("sliding_window", seq)
    return {
        "num_layers": layers,
        "hidden_size": hidden,
        "ffn_hidden_size": np.where(is_moe & (dense_layers == 0.0), 0.0, ffn),
        "num_heads": heads,
        "num_kv_heads": kv_heads,
        "head_dim": imputer.fill("head_dim", hidden / heads),
        "vocab_size": imputer.fill("vocab_size", imputation.DEFAULT_VOCAB_SIZE),
        "seq_len": seq,
        "gated_mlp": gated,
        "tied_embeddings": imputer.fill("tied_embeddings", np.where(gated, 0.0, 1.0)) > 0.5,
        "is_mla": is_mla,
        **widths,
        "num_experts": experts,
        "moe_top_k": is_moe * imputer.fill("moe_top_k", 2.0),
        "moe_ffn_hidden_size": is_moe * imputer.fill("moe_ffn_hidden_size", ffn),
        "num_shared_experts": is_moe * imputer.fill("num_shared_experts", 0.0),
        "num_dense_layers": dense_layers,
        "sliding_window": np.minimum(window, seq),
        "windowed_layers_fraction": np.where(window < seq, imputer.fill("windowed_layers_fraction", 1.0), 0.0),
        "num_mtp_layers": imputer.fill("num_mtp_layers", 0.0),
    }


def _rough_params(model: Arrays) -> FloatArray:
    """Return parameters to two digits, enough to tell a small model from a large one."""
    attention = 2.0 * model["head_dim"] * (model["num_heads"] + model["num_kv_heads"])
    moe_layers = model["num_layers"] - model["num_dense_layers"]
    dense = model["num_dense_layers"] * 3.0 * model["ffn_hidden_size"]
    experts = moe_layers * model["num_experts"] * 3.0 * model["moe_ffn_hidden_size"]
    params: FloatArray = model["hidden_size"] * (model["num_layers"] * attention + dense + experts)
    return params


def _layout(runs: pd.DataFrame, imputer: Imputer, stack: StackTraits, hardware: Hardware, model: Arrays) -> Arrays:
    gpus, tp, pp = (numbers(runs, name) for name in ("num_gpus", "tp", "pp"))
    cp = imputer.fill("cp", 1.0)
    dp = gpus / (tp * pp * cp)
    sequences = numbers(runs, "global_batch_size") / dp
    small = imputation.default_micro_batch_size(num_params=_rough_params(model), sequences_per_rank=sequences)
    micro_batch = np.minimum(imputer.fill("micro_batch_size", small), np.maximum(sequences, 1.0))
    ep_default = imputation.default_expert_parallel_size(num_experts=model["num_experts"], ranks=dp * cp)
    ep = np.where(model["num_experts"] > 0.0, imputer.fill("ep", ep_default), 1.0)
    expert_tp = imputer.fill("expert_tp", imputation.default_expert_tensor_size(ep=ep, tp=tp))
    interleaves = stack.is_megatron & (stack.year > 2022.5) & ~stack.is_classic_megatron
    vp_default = imputation.default_virtual_stages(num_layers=model["num_layers"], pp=pp, interleaves=interleaves)
    named = texts(runs, "pipeline_schedule")
    vp_default = np.where(np.asarray(named == "interleaved-1f1b"), np.maximum(vp_default, 2.0), vp_default)
    vp_default = np.where(np.asarray(named == "1f1b"), 1.0, vp_default)
    vp = np.where(pp > 1.0, imputer.fill("vp", vp_default), 1.0)
    sp_default = (stack.is_xla | (stack.is_megatron & (stack.year > 2023.0))) * 1.0
    zero_default = np.where(
        stack.is_xla | stack.is_torch_fsdp, 3.0, np.where(stack.is_megatron & (stack.year < _OVERLAP_YEAR), 0.0, 1.0)
    )
    zero = imputer.fill("zero_stage", zero_default)
    ranks = dp * cp
    slice_ranks = np.where(hardware.is_tpu & (gpus > hardware.fast_domain_gpus), hardware.fast_domain_gpus / tp, ranks)
    return {
        "num_gpus": gpus,
        "tp": tp,
        "pp": pp,
        "cp": cp,
        "dp": dp,
        "ep": ep,
        "expert_tp": np.where(model["num_experts"] > 0.0, expert_tp, 1.0),
        "vp": vp,
        "sequence_parallel": (imputer.fill("sequence_parallel", sp_default) > 0.5) & (tp > 1.0),
        "zero_stage": zero.astype(np.int64),
        "shard_size": np.clip(np.minimum(imputer.fill("hsdp_shard", slice_ranks), ranks), 1.0, None),
        "schedule": _schedule(runs, pp, vp),
        "micro_batch_size": micro_batch,
        "global_batch_size": numbers(runs, "global_batch_size"),
    }


def _schedule(runs: pd.DataFrame, pp: FloatArray, vp: FloatArray) -> IntArray:
    named = texts(runs, "pipeline_schedule")
    codes = np.asarray(lookup(named, lambda text: int(_SCHEDULES.get(text, -1)), int), dtype=np.int64)
    usual = np.where(vp > 1.0, int(Schedule.INTERLEAVED), int(Schedule.ONE_F_ONE_B))
    return np.where((codes < 0) | (pp <= 1.0), usual, codes).astype(np.int64)


def _recompute(runs: pd.DataFrame, imputer: Imputer, stack: StackTraits, stage_layers: FloatArray) -> Arrays:
    kind = texts(runs, "recompute")
    missing = np.asarray(kind == "", dtype=np.bool_)
    imputer.flag("recompute", missing)
    default = np.where(stack.year < RECOMPUTE_YEAR, int(Recompute.FULL), int(Recompute.NONE))
    full = np.asarray(kind == "full", dtype=np.bool_)
    selective = np.asarray(kind == "selective", dtype=np.bool_)
    finer = texts(runs, "recompute_kind")
    selective_codes = lookup(
        finer,
        lambda text: int(Recompute.OP_SELECTIVE if text in ("op-selective", "modules") else Recompute.SELECTIVE),
        int,
    )
    by_stack = np.where(stack.is_xla | stack.is_torch_fsdp, int(Recompute.OP_SELECTIVE), int(Recompute.SELECTIVE))
    chosen = np.where(np.asarray(finer == ""), by_stack, selective_codes)
    code = np.where(full, int(Recompute.FULL), np.where(selective, chosen, int(Recompute.NONE)))
    code = np.where(missing, default, code)
    layers = numbers(runs, "recompute_layers")
    modules = texts(runs, "recompute_modules")

    def names(*parts: str) -> BoolArray:
        return np.asarray(lookup(modules, lambda text: any(p in text for p in parts), bool), dtype=np.bool_)

    return {
        "recompute": code.astype(np.int64),
        "recompute_layers": np.where(
            code == 0, 0.0, np.where(np.isnan(layers), stage_layers, np.minimum(layers, stage_layers))
        ),
        "recompute_mlp": names("mlp") & ~names(":"),
        "recompute_norm": names("norm") & ~names(":"),
        "recompute_moe": names("moe") & ~names("moe_act", ":"),
    }


def _training(runs: pd.DataFrame, imputer: Imputer, stack: StackTraits, hardware: Hardware, layout: Arrays) -> Arrays:
    zero3 = np.asarray(layout["zero_stage"]) == 3
    modern = stack.year > _OVERLAP_YEAR
    reduce_default = np.where(zero3 | modern, 1.0, 0.3)
    gather_default = np.where(zero3, 1.0, np.where(stack.year > _GATHER_OVERLAP_YEAR, 0.8, 0.2))
    tp_default = np.where(stack.named("megatron-core") & (stack.year > _TP_OVERLAP_YEAR), 0.7, 0.0)
    graphs = texts(runs, "cuda_graphs")
    reduce_type = texts(runs, "grad_reduce_dtype")
    offload = texts(runs, "cpu_offload")
    opt_in = np.asarray(texts(runs, "framework") == "megatron-lm", dtype=np.bool_) & (stack.year < _MEGATRON_FLASH_YEAR)
    flash_default = ((stack.year > FLASH_YEAR) & ~opt_in) * 1.0
    flash = imputer.fill("flash_attention", flash_default) > 0.5
    layers = numbers(runs, "num_layers")
    offloaded = numbers(runs, "cpu_offload_layers")
    compiled_default = (stack.is_xla | hardware.whole_program) * 1.0
    return {
        "grad_bytes": _grad_bytes(reduce_type, stack),
        **_recompute(runs, imputer, stack, layers / layout["pp"]),
        "flash_attention": flash,
        "fused_norm": imputer.fill("fused_norm", 1.0) > 0.5,
        "overlap_grad_reduce": imputer.fill("overlap_grad_reduce", reduce_default),
        "overlap_param_gather": imputer.fill("overlap_param_gather", gather_default),
        "tp_comm_overlap": imputer.fill("tp_comm_overlap", tp_default),
        "ep_overlap": imputer.fill("ep_overlap", 0.0),
        "cuda_graphs": np.asarray(lookup(graphs, _captured_share), dtype=np.float64),
        "compiled": imputer.fill("compiled", compiled_default),
        "capacity_factor": imputer.fill("moe_capacity_factor", 0.0),
        "optimizer": np.asarray(
            lookup(texts(runs, "optimizer"), lambda text: int(_OPTIMIZERS.get(text, 0)), int), dtype=np.int64
        ),
        "offload": np.asarray(lookup(offload, lambda text: int(_OFFLOADS.get(text, 0)), int), dtype=np.int64),
        "offload_fraction": np.where(np.isnan(offloaded), 1.0, np.minimum(offloaded / layers, 1.0)),
    }


def _grad_bytes(reduce_type: pd.Categorical, stack: StackTraits) -> FloatArray:
    """Return 4 where gradients are reduced in fp32 (torchtitan's default when nothing is said), else 2."""
    given = np.asarray(lookup(reduce_type, lambda text: 4.0 if text == "fp32" else 2.0), dtype=np.float64)
    unsaid = np.asarray(reduce_type == "", dtype=np.bool_)
    return np.where(unsaid & stack.named("torchtitan"), 4.0, given)


def _captured_share(scope: str) -> float:
    """Return the share of a layer's launches that CUDA graphs take away."""
    if scope in ("", "none"):
        return 0.0
    return 1.0 if scope in ("local", "full") else 0.6


def _software(runs: pd.DataFrame, stack: StackTraits, hardware: Hardware, workload: Workload) -> SoftwareTraits:
    fused_norm = numbers(runs, "fused_norm")
    balanced = (numbers(runs, "moe_force_balance") == 1.0) | (workload.capacity_factor > 0.0)
    return SoftwareTraits(
        attention_kernel=_attention_kernel(runs, stack, hardware, workload.flash_attention),
        whole_program=hardware.whole_program,
        compiled=workload.compiled > 0.5,
        fused_norm=np.where(np.isnan(fused_norm), 0.5, fused_norm),
        deepspeed_zero3=stack.named("deepspeed-zero", "megatron-deepspeed") & (workload.zero_stage == 3),
        routing_balanced=balanced,
        years_of_software=stack.year - 2023.5,
    )


def _attention_kernel(runs: pd.DataFrame, stack: StackTraits, hardware: Hardware, flash: BoolArray) -> IntArray:
    """Return the kernel: named ones as named, other fused ones by date and device."""
    named = texts(runs, "attention_backend")
    table = {
        "torch": AttentionKernel.UNFUSED,
        "megatron": AttentionKernel.FUSED_SOFTMAX,
        "flash1": AttentionKernel.FLASH_1,
        "flash2": AttentionKernel.FLASH_2,
    }
    codes = np.asarray(lookup(named, lambda text: int(table.get(text, -1)), int), dtype=np.int64)
    new_device = np.asarray(hardware.family.isin(["H100", "Blackwell"]), dtype=np.bool_)
    new_device &= ~stack.named(*_PLAIN_TORCH_STACKS)
    by_date = np.where(
        (stack.year > _FLASH_3_YEAR) & new_device,
        int(AttentionKernel.FLASH_3),
        np.where(stack.year > _FLASH_2_YEAR, int(AttentionKernel.FLASH_2), int(AttentionKernel.FLASH_1)),
    )
    unfused = int(AttentionKernel.FUSED_SOFTMAX)
    usual = np.where(flash, by_date, unfused)
    return np.where((codes < 0) | (flash & (codes < int(AttentionKernel.FLASH_1))), usual, codes).astype(np.int64)
