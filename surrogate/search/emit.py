"""A chosen layout as launch arguments."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import pandas as pd

from surrogate.errors import UnknownNameError
from surrogate.search.shortage import plain

Row = Mapping[str, Any]

_SIZES: Final = (
    ("num_layers", "--num-layers"),
    ("hidden_size", "--hidden-size"),
    ("ffn_hidden_size", "--ffn-hidden-size"),
    ("num_heads", "--num-attention-heads"),
    ("seq_len", "--seq-length"),
    ("seq_len", "--max-position-embeddings"),
    ("tp", "--tensor-model-parallel-size"),
    ("pp", "--pipeline-model-parallel-size"),
    ("cp", "--context-parallel-size"),
    ("micro_batch_size", "--micro-batch-size"),
    ("global_batch_size", "--global-batch-size"),
)
_SHARDING: Final = {1: "optim", 2: "optim_grads", 3: "optim_grads_params"}
_PRECISIONS: Final[Mapping[str, tuple[str, ...]]] = {
    "bf16": ("--bf16",),
    "fp16": ("--fp16",),
    "fp8": ("--bf16", "--fp8-format hybrid"),
    "mxfp8": ("--bf16", "--fp8-format e4m3", "--fp8-recipe mxfp8"),
    "nvfp4": ("--bf16", "--fp4-format e2m1"),
}


def check_framework(framework: str) -> None:
    """Raise UnknownNameError unless a framework's launch arguments are known."""
    if framework not in FRAMEWORKS:
        raise UnknownNameError("--emit", framework, list(FRAMEWORKS))


def launch_arguments(plans: pd.DataFrame, framework: str, row: int = 0) -> list[str]:
    """Return the launch arguments of one candidate.

    Parameters
    ----------
    plans : DataFrame
        Candidates as rows of the runs table.
    framework : str
        One of `FRAMEWORKS`.
    row : int
        Which of them.

    Raises
    ------
    UnknownNameError
        If the framework's arguments are not known.
    """
    check_framework(framework)
    return FRAMEWORKS[framework]({str(name): plain(value) for name, value in plans.iloc[row].items()})


def megatron_arguments(row: Row) -> list[str]:
    """Return the arguments of Megatron-LM's `pretrain_gpt.py` for one row of the runs table.

    Notes
    -----
    Names as in Megatron-Core 0.15 (`megatron/training/arguments.py`). Data, learning rate and tokenizer are not part
    of a plan and are left to the user.
    """
    return [
        *(f"{option} {row[column]}" for column, option in _SIZES if row.get(column) is not None),
        *_attention(row),
        *_stages(row),
        *_experts(row),
        *_sharding(row),
        *_recomputation(row),
        *_PRECISIONS.get(str(row.get("precision")), ()),
        *_switches(row),
    ]


FRAMEWORKS: Final[Mapping[str, Callable[[Row], list[str]]]] = {"megatron": megatron_arguments}
"""Frameworks whose arguments can be printed."""


def _attention(row: Row) -> list[str]:
    if row.get("attention") == "mla":
        widths = (
            ("q_lora_rank", "--q-lora-rank"),
            ("kv_lora_rank", "--kv-lora-rank"),
            ("qk_nope_head_dim", "--qk-head-dim"),
            ("qk_rope_head_dim", "--qk-pos-emb-head-dim"),
            ("v_head_dim", "--v-head-dim"),
        )
        return ["--multi-latent-attention", *(f"{option} {row[name]}" for name, option in widths if row.get(name))]
    groups, width = row.get("num_kv_heads"), row.get("head_dim")
    arguments = (
        [] if groups in (None, row["num_heads"]) else ["--group-query-attention", f"--num-query-groups {groups}"]
    )
    if width is not None and width * row["num_heads"] != row["hidden_size"]:
        arguments.append(f"--kv-channels {width}")
    return arguments


def _stages(row: Row) -> list[str]:
    """Return interleaving, and how layers are split where stages cannot be equal."""
    pp, vp, layers = int(row["pp"]), int(row.get("vp") or 1), int(row["num_layers"])
    per_chunk = -(-layers // (pp * vp))
    missing = per_chunk * pp * vp - layers
    arguments = [f"--num-virtual-stages-per-pipeline-rank {vp}"] if vp > 1 else []
    if 0 < missing <= 2:
        arguments.append("--account-for-loss-in-pipeline-split")
        arguments += ["--account-for-embedding-in-pipeline-split"] if missing == 2 else []
    elif missing > 2:
        first = per_chunk - missing // 2
        arguments += [
            f"--decoder-first-pipeline-num-layers {first}",
            f"--decoder-last-pipeline-num-layers {layers - first - per_chunk * (pp - 2)}",
        ]
    return arguments


def _experts(row: Row) -> list[str]:
    if not row.get("num_experts"):
        return []
    ep = int(row.get("ep") or 1)
    expert_tp = int(row.get("expert_tp") or (1 if ep > 1 else row["tp"]))
    arguments = [
        f"--num-experts {row['num_experts']}",
        f"--moe-router-topk {row.get('moe_top_k') or 2}",
        f"--expert-model-parallel-size {ep}",
        f"--expert-tensor-parallel-size {expert_tp}",
        "--moe-grouped-gemm",
        *_dispatcher(row),
    ]
    width, shared = row.get("moe_ffn_hidden_size"), row.get("num_shared_experts")
    if width:
        arguments.append(f"--moe-ffn-hidden-size {width}")
    if shared:
        arguments.append(f"--moe-shared-expert-intermediate-size {shared * (width or row['ffn_hidden_size'])}")
    if dense := row.get("num_dense_layers"):
        arguments.append(f"--moe-layer-freq '([0]*{dense}+[1]*{row['num_layers'] - dense})'")
    if capacity := row.get("moe_capacity_factor"):
        arguments.append(f"--moe-expert-capacity-factor {capacity:g}")
    return arguments


def _dispatcher(row: Row) -> list[str]:
    """Return how tokens reach their experts; Megatron has DeepEP and HybridEP behind one flexible dispatcher."""
    named = row.get("moe_dispatcher")
    if named in ("deepep", "hybridep"):
        return ["--moe-token-dispatcher-type flex", f"--moe-flex-dispatcher-backend {named}"]
    return [f"--moe-token-dispatcher-type {'allgather' if named == 'allgather' else 'alltoall'}"]


def _sharding(row: Row) -> list[str]:
    stage = int(row.get("zero_stage") or 0)
    if stage == 0:
        return []
    if stage == 1:
        return ["--use-distributed-optimizer"]
    return [
        "--use-distributed-optimizer",
        "--use-megatron-fsdp",
        f"--data-parallel-sharding-strategy {_SHARDING[stage]}",
    ]


def _recomputation(row: Row) -> list[str]:
    kind, layers = row.get("recompute"), row.get("recompute_layers")
    if kind == "selective":
        return ["--recompute-granularity selective"]
    if kind != "full":
        return []
    if layers is None:
        return ["--recompute-granularity full", "--recompute-method uniform", "--recompute-num-layers 1"]
    per_chunk = -(-int(layers) // int(row.get("vp") or 1))
    return ["--recompute-granularity full", "--recompute-method block", f"--recompute-num-layers {per_chunk}"]


def _switches(row: Row) -> list[str]:
    offload = {"optimizer": ["--optimizer-cpu-offload", "--use-precision-aware-optimizer"]}
    layers = row.get("cpu_offload_layers") or row["num_layers"]
    offload["activations"] = [f"--cpu-offloading-num-layers {layers}"]
    flags = (
        ("sequence_parallel", "--sequence-parallel"),
        ("overlap_grad_reduce", "--overlap-grad-reduce"),
        ("overlap_param_gather", "--overlap-param-gather"),
        ("tp_comm_overlap", "--tp-comm-overlap"),
        ("gated_mlp", "--swiglu"),
    )
    switched = [option for name, option in flags if row.get(name)]
    if row.get("grad_reduce_dtype") == "bf16":
        switched.append("--grad-reduce-in-bf16")
    if extra := row.get("num_mtp_layers"):
        switched.append(f"--mtp-num-layers {extra}")
    if row.get("tied_embeddings") is False:
        switched.append("--untie-embeddings-and-output-weights")
    return switched + offload.get(str(row.get("cpu_offload")), [])
