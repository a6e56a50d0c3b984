"""The coefficients of the step-time model: textbook value, how far it may move, meaning and source.

A coefficient multiplies one physical term of `step_terms`. Calibration works on the logarithm of the value with a
normal prior around the textbook value; `log_sd` is the prior's standard deviation, so 0.5 allows a factor of about
2.7 either way at two standard deviations.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

import numpy as np

from surrogate.analytic.workload import FloatArray


class Group(StrEnum):
    """What a coefficient belongs to."""

    COMPUTE = "compute"
    MOE = "moe"
    HOST = "host"
    COMMUNICATION = "communication"
    PIPELINE = "pipeline"


@dataclass(frozen=True, kw_only=True, slots=True)
class Coefficient:
    """One coefficient with its prior."""

    name: str
    value: float
    log_sd: float
    group: Group
    meaning: str
    source: str


def _c(name: str, value: float, log_sd: float, group: Group, meaning: str, source: str) -> Coefficient:  # noqa: PLR0913
    return Coefficient(name=name, value=value, log_sd=log_sd, group=group, meaning=meaning, source=source)


_X = "textbook range"
_N = "nccl-tests bus bandwidth against nominal"

COEFFICIENTS: Final = (
    _c("matmul", 1 / 0.72, 0.12, Group.COMPUTE, "peak over achieved rate of large 16-bit products", "arXiv 2205.05198"),
    _c("matmul_fp8", 1 / 0.80, 0.20, Group.COMPUTE, "the same against the FP8 peak", _X),
    _c("matmul_fp4", 1 / 0.55, 0.30, Group.COMPUTE, "the same against the FP4 peak", _X),
    _c("matmul_int8", 1 / 0.75, 0.30, Group.COMPUTE, "the same against the INT8 peak", _X),
    _c("small_matmul", 3.0, 0.70, Group.COMPUTE, "GFLOP at which a product reaches half its rate", _X),
    _c("matmul_traffic", 0.6, 0.70, Group.COMPUTE, "operand bytes of products not hidden by arithmetic", _X),
    _c("attention", 1 / 0.45, 0.35, Group.COMPUTE, "peak over achieved rate of fused attention", "arXiv 2307.08691"),
    _c("head_dim_power", 0.3, 0.50, Group.COMPUTE, "gain of attention with wider heads, power of width/128", _X),
    _c("flash_1", 1.25, 0.25, Group.COMPUTE, "FlashAttention-1 against -2", "arXiv 2307.08691"),
    _c("flash_3", 0.75, 0.25, Group.COMPUTE, "Hopper and later kernels against FlashAttention-2", "arXiv 2407.08608"),
    _c("score_bytes", 11.0, 0.40, Group.COMPUTE, "bytes moved per score of unfused attention", _X),
    _c("unfused_kernels", 1.25, 0.30, Group.COMPUTE, "element-wise work without fused softmax", _X),
    _c(
        "norm",
        1.0,
        0.50,
        Group.COMPUTE,
        "bytes of norms and residuals over 20 h per token",
        "count of reads and writes",
    ),
    _c("fused_norm", 0.8, 0.30, Group.COMPUTE, "element-wise work with a fused norm kernel", _X),
    _c("activation", 1.0, 0.50, Group.COMPUTE, "bytes of activations and rotation", "count of reads and writes"),
    _c("compiled", 0.6, 0.40, Group.COMPUTE, "element-wise work under a compiler", _X),
    _c("cast", 1.0, 0.70, Group.COMPUTE, "quantisation traffic of FP8 and FP4", "count of reads and writes"),
    _c("logits", 1.0, 0.70, Group.COMPUTE, "bytes of logits and cross-entropy", "count of reads and writes"),
    _c("backward", 2.0, 0.08, Group.COMPUTE, "backward over forward of products", "arXiv 2104.04473"),
    _c("recompute_full", 1.0, 0.15, Group.COMPUTE, "repeated forward pass", "arXiv 2205.05198"),
    _c("recompute_core", 1.0, 0.50, Group.COMPUTE, "repeated attention core", "arXiv 2205.05198"),
    _c("recompute_operators", 0.35, 0.50, Group.COMPUTE, "forward share repeated by operator checkpointing", _X),
    _c("experts", 1 / 0.60, 0.25, Group.MOE, "peak over achieved rate of grouped products", _X),
    _c("expert_traffic", 1.0, 0.60, Group.MOE, "weights and tokens of grouped products", "count of reads and writes"),
    _c("expert_launch_s", 3e-6, 0.50, Group.MOE, "seconds per local expert and product", _X),
    _c("routing", 2.0, 0.60, Group.MOE, "bytes of permutation over 4 k h per token", "count of reads and writes"),
    _c("moe_layer_s", 0.5e-3, 0.60, Group.MOE, "host seconds per expert layer and pass", _X),
    _c("moe_progress", 0.15, 0.40, Group.MOE, "yearly decline of the two fixed costs", _X),
    _c("imbalance", 1.15, 0.15, Group.MOE, "busiest expert rank over the mean, free routing", "arXiv 2101.03961"),
    _c("ep_intra", 1.6, 0.50, Group.MOE, "all-to-all inside the fast domain against the link", _N),
    _c("ep_inter", 1.5, 0.60, Group.MOE, "all-to-all across nodes against the network", _N),
    _c("ep_overlapped", 0.5, 0.50, Group.MOE, "exposed share of overlapped all-to-all", _X),
    _c("launch_s", 0.35e-3, 0.80, Group.HOST, "host seconds per layer and pass", "about 50 kernels of 7 us"),
    _c("fixed_s", 12e-3, 0.90, Group.HOST, "seconds per step: data, logging, clipping", _X),
    _c("collective_start_s", 25e-6, 1.00, Group.HOST, "seconds per start-up of a data-parallel collective", _X),
    _c("optimizer", 1.2, 0.50, Group.HOST, "optimizer traffic against HBM bandwidth", _X),
    _c("offload", 1.0, 0.60, Group.HOST, "optimizer or parameter offload against the host link", _X),
    _c("offload_activations", 0.3, 0.80, Group.HOST, "exposed share of activation offload", _X),
    _c("tp_ring", 1 / 0.75, 0.30, Group.COMMUNICATION, "tensor-parallel rings against the link", _N),
    _c("tp_across", 1 / 0.70, 0.40, Group.COMMUNICATION, "further factor when they leave the fast domain", _N),
    _c("tp_latency_s", 3e-6, 0.80, Group.COMMUNICATION, "seconds per hop", _N),
    _c("tp_exposed", 0.95, 0.15, Group.COMMUNICATION, "exposed share without overlap", _X),
    _c("tp_overlapped", 0.55, 0.40, Group.COMMUNICATION, "exposed share with overlap", _X),
    _c("cp", 0.35, 0.80, Group.COMMUNICATION, "exposed context-parallel traffic", "arXiv 2310.01889"),
    _c("pp", 0.6, 0.80, Group.COMMUNICATION, "exposed sends between stages", _X),
    _c("dp_intra", 1 / 0.75, 0.40, Group.COMMUNICATION, "gradient rings inside the fast domain", _N),
    _c("dp_inter", 1 / 0.65, 0.35, Group.COMMUNICATION, "gradient rings across nodes", _N),
    _c("dp_window", 0.8, 0.70, Group.COMMUNICATION, "share of the last backward pass that hides them", _X),
    _c("zero3_ring", 1 / 0.60, 0.35, Group.COMMUNICATION, "parameter rings of ZeRO-3 and FSDP", _N),
    _c("zero3_window", 0.8, 0.70, Group.COMMUNICATION, "share of a stage's pass that hides them", _X),
    _c("zero3_deepspeed", 1.8, 0.60, Group.COMMUNICATION, "the same rings under DeepSpeed", _X),
    _c("stragglers", 0.012, 0.80, Group.COMMUNICATION, "slow-down per doubling of nodes", _X),
    _c("bubble", 1.0, 0.15, Group.PIPELINE, "bubble against its formula", "arXiv 2104.04473"),
    _c("bubble_zb1", 0.42, 0.40, Group.PIPELINE, "ZB-H1 against 1F1B", "arXiv 2401.10241"),
    _c("bubble_zb2", 0.35, 0.60, Group.PIPELINE, "ZB-H2, ZB-V and DualPipe against 1F1B", "arXiv 2401.10241"),
    _c("bubble_v", 0.6, 0.40, Group.PIPELINE, "V-Half and V-Min against 1F1B", "arXiv 2405.15362"),
    _c("head_imbalance", 0.55, 0.60, Group.PIPELINE, "share of the head's time that sets the pace", _X),
    _c("layer_imbalance", 0.7, 0.40, Group.PIPELINE, "share of the largest stage's extra layers that does", _X),
)
"""Every coefficient, in the order of the log-coefficient vector."""

NAMES: Final = tuple(coefficient.name for coefficient in COEFFICIENTS)
INDEX: Final = {name: position for position, name in enumerate(NAMES)}
LOG_TEXTBOOK: Final[FloatArray] = np.log([coefficient.value for coefficient in COEFFICIENTS])
LOG_SD: Final[FloatArray] = np.array([coefficient.log_sd for coefficient in COEFFICIENTS])
