"""Step time from terms and coefficients: one sum, kept in parts.

Notation: F, B one forward and backward pass of a stage for one micro-batch, m micro-batches, p stages, v chunks.
``T = (m S + bubble + exposed data parallelism + optimizer + offload + fixed) (1 + stragglers log2 nodes)`` with
``S`` the pace of the slowest stage.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np

from surrogate.analytic.coefficients import INDEX
from surrogate.analytic.software import AttentionKernel
from surrogate.analytic.step_terms import StepTerms
from surrogate.analytic.workload import FloatArray, Precision, Schedule

_LAUNCH_SHARPNESS = 4.0
"""Exponent of the smooth maximum of device and host time of a layer: 4 adds 19 % where they are equal."""
_SMALLEST_S = 1e-12


@dataclass(frozen=True, kw_only=True, slots=True)
class StepTimeBreakdown:
    """Seconds of a step by cause, every array of shape (n,); they sum to `total_s`."""

    compute_s: FloatArray
    """Matrix products, attention and element-wise work of the layers, forward and backward."""
    recompute_s: FloatArray
    head_s: FloatArray
    host_s: FloatArray
    """Time by which kernel launches exceed device time."""
    tp_s: FloatArray
    cp_s: FloatArray
    ep_s: FloatArray
    pp_s: FloatArray
    dp_s: FloatArray
    """Exposed gradient and parameter traffic, ZeRO-3 included."""
    bubble_s: FloatArray
    imbalance_s: FloatArray
    """Layers of the largest stage beyond the average."""
    optimizer_s: FloatArray
    offload_s: FloatArray
    fixed_s: FloatArray
    straggler_s: FloatArray

    @property
    def total_s(self) -> FloatArray:
        """Sum of the parts."""
        parts: FloatArray = sum(getattr(self, field.name) for field in fields(self))
        return parts


@dataclass(frozen=True, kw_only=True, slots=True)
class _Layer:
    """One average layer and one micro-batch, forward and backward, seconds."""

    device: FloatArray
    recompute: FloatArray
    host: FloatArray
    tp: FloatArray
    cp: FloatArray
    ep: FloatArray

    @property
    def total(self) -> FloatArray:
        return self.device + self.recompute + self.host + self.tp + self.cp + self.ep


class _Values:
    """Coefficients by name: numbers, or one array of shape (n,) each."""

    def __init__(self, log_coefficients: FloatArray) -> None:
        self._values = np.exp(np.moveaxis(log_coefficients, -1, 0))

    def __getattr__(self, name: str) -> FloatArray:
        value: FloatArray = self._values[INDEX[name]]
        return value


def step_time(terms: StepTerms, log_coefficients: FloatArray) -> StepTimeBreakdown:
    """Return the step time in parts.

    Parameters
    ----------
    terms : StepTerms
        n configurations.
    log_coefficients : ndarray, shape (k,) or (n, k)
        Logarithms in the order of `coefficients.NAMES`, common to all rows or one vector per row.

    Returns
    -------
    StepTimeBreakdown
        Seconds of shape (n,).

    Notes
    -----
    A layer takes the smooth maximum of device and launch time. Traffic t that overlaps a window w of compute is
    exposed by ``t^2 / (t + w)``: t when there is nothing to hide behind, little while t is small against w.

    References
    ----------
    Pipelines arXiv 2104.04473 section 2.2 and 2401.10241; overlap of collectives arXiv 2304.11277.
    """
    c = _Values(log_coefficients)
    layer = _layer_time(terms, c)
    m, layers = terms.num_microbatches, terms.layers_per_stage
    stage = layers * layer.total
    zero3 = _zero3_exposed(terms, c, stage)
    head = (terms.head_s * c.matmul * 3.0 + terms.logits_s * c.logits) * (1.0 + terms.num_mtp_layers)
    paced_head = np.where(terms.pp > 1.0, c.head_imbalance, 1.0) * head
    sends = terms.pp_s * c.pp
    bubble = terms.bubble_passes * (stage + zero3 + 2.0 * sends) * _bubble_factor(terms, c)
    data = zero3 * m + _reduction_exposed(terms, c, stage)
    offload = terms.offload_s * c.offload + terms.activation_offload_s * c.offload_activations
    parts = {
        "compute_s": m * layers * layer.device,
        "recompute_s": m * layers * layer.recompute,
        "head_s": m * paced_head,
        "host_s": m * layers * layer.host,
        "tp_s": m * layers * layer.tp,
        "cp_s": m * layers * layer.cp,
        "ep_s": m * layers * layer.ep,
        "pp_s": m * sends,
        "dp_s": data,
        "bubble_s": bubble,
        "imbalance_s": m * terms.extra_layers * c.layer_imbalance * layer.total,
        "optimizer_s": terms.optimizer_s * c.optimizer,
        "offload_s": offload,
        "fixed_s": c.fixed_s * np.ones(len(terms)),
    }
    together = sum(parts.values(), start=np.zeros(len(terms)))
    return StepTimeBreakdown(**parts, straggler_s=together * c.stragglers * terms.log2_nodes)


def log_step_time(terms: StepTerms, log_coefficients: FloatArray) -> FloatArray:
    """Return the logarithm of the step time in seconds, shape (n,)."""
    return np.log(step_time(terms, log_coefficients).total_s)


def log_step_time_jacobian(terms: StepTerms, log_coefficients: FloatArray, *, step: float = 0.02) -> FloatArray:
    """Return the derivative of log time by each log coefficient, by central differences, shape (n, k)."""
    columns = []
    for position in range(log_coefficients.shape[-1]):
        ahead, behind = log_coefficients.copy(), log_coefficients.copy()
        ahead[..., position] += step
        behind[..., position] -= step
        columns.append((log_step_time(terms, ahead) - log_step_time(terms, behind)) / (2.0 * step))
    return np.stack(columns, axis=-1)


def _layer_time(t: StepTerms, c: _Values) -> _Layer:
    products = _matmul_factor(t, c)
    dense = t.matmul_s * products + t.num_matmuls * c.small_matmul * t.s_per_gflop
    dense = dense + t.matmul_traffic_s * c.matmul_traffic
    progress = np.exp(-c.moe_progress * t.years_of_software)
    experts = t.experts_s * c.experts * (products / c.matmul) + t.expert_traffic_s * c.expert_traffic
    experts = experts + t.num_expert_matmuls * c.expert_launch_s * progress
    experts = experts * np.where((t.moe_share > 0.0) & ~t.routing_balanced, c.imbalance, 1.0)
    attention = _attention_time(t, c)
    elementwise = _elementwise_time(t, c)
    forward = dense + experts + attention + elementwise
    attention_backward = c.backward * np.where(t.fused, 1.25, 1.0)
    device = forward + c.backward * (dense + experts) + attention_backward * attention + 1.2 * elementwise
    core = np.where(t.fused, 0.3, 1.0) * attention + 0.5 * elementwise
    recompute = t.recompute_full * c.recompute_full * forward
    recompute = recompute + t.recompute_core * c.recompute_core * core
    recompute = recompute + t.recompute_operators * c.recompute_operators * forward
    launches = c.launch_s * t.launch_share * (2.6 + t.recompute_full)
    moe_host = c.moe_layer_s * progress * (3.0 + t.recompute_full) * (1.0 - 0.6 * t.cuda_graphs)
    launches = launches + t.moe_share * moe_host
    busy = device + recompute
    q = _LAUNCH_SHARPNESS
    longest = (busy**q + launches**q) ** (1.0 / q)
    passes = 2.0 + t.recompute_full
    grow = 1.0 + t.mtp_share
    ring = t.tp_s * c.tp_ring * np.where(t.tp_crosses, c.tp_across, 1.0) + t.tp_steps * c.tp_latency_s
    exposed = t.tp_overlap * c.tp_overlapped + (1.0 - t.tp_overlap) * c.tp_exposed
    all_to_all = t.ep_intra_s * c.ep_intra + t.ep_inter_s * c.ep_inter
    return _Layer(
        device=grow * device,
        recompute=grow * recompute,
        host=grow * (longest - busy),
        tp=grow * passes * ring * exposed,
        cp=grow * t.cp_s * c.cp,
        ep=grow * passes * all_to_all * (1.0 - t.ep_overlap * (1.0 - c.ep_overlapped)),
    )


def _matmul_factor(t: StepTerms, c: _Values) -> FloatArray:
    """Return peak over achieved rate at the row's precision."""
    factor = np.where((t.precision == Precision.FP8) | (t.precision == Precision.MXFP8), c.matmul_fp8, c.matmul)
    factor = np.where(t.precision == Precision.FP4, c.matmul_fp4, factor)
    return np.where(t.precision == Precision.INT8, c.matmul_int8, factor)


def _attention_time(t: StepTerms, c: _Values) -> FloatArray:
    generation = np.where(t.attention_kernel == AttentionKernel.FLASH_1, c.flash_1, 1.0)
    generation = np.where(t.attention_kernel == AttentionKernel.FLASH_3, c.flash_3, generation)
    wide = np.exp(-c.head_dim_power * t.log_head_width)
    return t.attention_s * c.attention * wide * generation + t.score_s * c.score_bytes


def _elementwise_time(t: StepTerms, c: _Values) -> FloatArray:
    moved = t.norm_s * c.norm + t.activation_s * c.activation + t.cast_s * c.cast + t.routing_s * c.routing
    moved = moved * np.where(t.compiled, c.compiled, 1.0)
    moved = moved * np.where(t.fused_norm == 1.0, c.fused_norm, 1.0)
    return moved * np.where(t.attention_kernel == AttentionKernel.UNFUSED, c.unfused_kernels, 1.0)


def _exposed(traffic: FloatArray, window: FloatArray) -> FloatArray:
    return traffic * traffic / (traffic + window + _SMALLEST_S)


def _zero3_exposed(t: StepTerms, c: _Values, stage: FloatArray) -> FloatArray:
    ring = t.zero3_s * c.zero3_ring * np.where(t.deepspeed_zero3, c.zero3_deepspeed, 1.0)
    return _exposed(ring, c.zero3_window * stage)


def _reduction_exposed(t: StepTerms, c: _Values, stage: FloatArray) -> FloatArray:
    """Return exposed gradient reduction (behind the last backward) and parameter gathering (the first forward)."""
    link = np.where(t.dp_crosses, c.dp_inter, c.dp_intra)
    window = 0.5 * c.dp_window * stage
    reduce, gather = t.reduce_s * link, t.gather_s * link
    reduce = t.reduce_overlap * _exposed(reduce, window) + (1.0 - t.reduce_overlap) * reduce
    gather = t.gather_overlap * _exposed(gather, 0.5 * window) + (1.0 - t.gather_overlap) * gather
    return reduce + gather + 0.5 * t.replica_s + t.dp_starts * c.collective_start_s


def _bubble_factor(t: StepTerms, c: _Values) -> FloatArray:
    zero = (t.schedule == Schedule.ZB_H2) | (t.schedule == Schedule.ZB_V) | (t.schedule == Schedule.DUALPIPE)
    half = (t.schedule == Schedule.V_HALF) | (t.schedule == Schedule.V_MIN)
    factor = np.where(t.schedule == Schedule.ZB_H1, c.bubble_zb1, 1.0)
    factor = np.where(zero, c.bubble_zb2, np.where(half, c.bubble_v, factor))
    return c.bubble * factor
