"""Weights, gradients and optimizer states, by ZeRO stage, precision and optimizer.

References
----------
ZeRO arXiv 1910.02054 (2 + 2 + 12 bytes per parameter and what each stage divides); Megatron-LM's theoretical
memory (18, or 6 + 12/Z with the distributed optimizer and fp32 gradients). Megatron-Core's table of the distributed
optimizer counts 20, or 4 + 16/Z, with 16-bit gradients: the fp32 copy the step reads, here apart.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from surrogate.analytic.memory._coefficients import MemoryCoefficients
from surrogate.analytic.memory._parameters import HeldParameters
from surrogate.analytic.workload import FloatArray, Offload, OptimizerKind, Precision, Workload

MASTER_BYTES = 4.0
"""fp32 master copy, where weights are kept in 16 bits."""

MATRIX_STATE_BYTES = {
    OptimizerKind.ADAM_FP32_MASTER: 8.0,
    OptimizerKind.ADAM_BF16: 4.0,
    OptimizerKind.ADAM_8BIT: 2.0,
    OptimizerKind.MUON: 4.0,
}
"""Moments per matrix parameter: two of fp32, two of bf16, two of 8 bits, one momentum of fp32."""

MUON_OTHER_STATE_BYTES = 8.0
"""Muon leaves embeddings, head and norms to Adam: two fp32 moments."""


@dataclass(frozen=True, kw_only=True, slots=True)
class StaticBytes:
    """Bytes per GPU that live through the whole step; arrays of shape (n,)."""

    weights: FloatArray
    gradients: FloatArray
    optimizer: FloatArray
    step_gradients: FloatArray
    """fp32 copy of 16-bit gradients: lives only inside the optimizer step, when activations are gone."""
    host: FloatArray


def weight_bytes_per_parameter(w: Workload) -> FloatArray:
    """Bytes of a trained weight: 4 in fp32, 2 otherwise (array of shape (n,))."""
    return np.where(w.precision == Precision.FP32, 4.0, 2.0)


def static_bytes(w: Workload, parameters: HeldParameters, coefficients: MemoryCoefficients) -> StaticBytes:
    """Weights, gradients and optimizer states on one GPU, and what offload moves to the host.

    Notes
    -----
    An offloaded optimizer takes sharded gradients (ZeRO 2 and 3) along; offloaded parameters take both along.
    """
    low_bits = np.isin(w.precision, (Precision.FP8, Precision.FP4, Precision.MXFP8)) & (w.zero_stage < 3)
    copies = low_bits * coefficients.fp8_weight_copy_bytes * (parameters.matrices + parameters.experts)
    weights = weight_bytes_per_parameter(w) * _held(w, parameters.dense, parameters.experts, 3) + copies
    gradients = w.grad_bytes * _held(w, parameters.dense, parameters.experts, 2)
    optimizer = _optimizer_bytes(w, parameters)
    away = w.offload_fraction
    states_away = np.where(np.isin(w.offload, (Offload.OPTIMIZER, Offload.PARAMS)), away, 0.0)
    gradients_away = np.where(w.zero_stage >= 2, states_away, 0.0)
    weights_away = np.where(w.offload == Offload.PARAMS, away, 0.0)
    copied = w.grad_bytes < MASTER_BYTES
    return StaticBytes(
        weights=(1.0 - weights_away) * weights,
        gradients=(1.0 - gradients_away) * gradients,
        optimizer=(1.0 - states_away) * optimizer,
        step_gradients=copied * MASTER_BYTES * (1.0 - states_away) * _held(w, parameters.dense, parameters.experts, 1),
        host=states_away * optimizer + gradients_away * gradients + weights_away * weights,
    )


def expert_shard_size(w: Workload) -> FloatArray:
    """Ranks over which ZeRO shards the experts: what is left of the data-parallel group after expert parallelism."""
    return np.maximum(1.0, w.shard_size * w.tp / (w.ep * w.expert_tp))


def _held(w: Workload, dense: FloatArray, experts: FloatArray, from_stage: int) -> FloatArray:
    """Sum what one rank holds of dense and expert quantities that ZeRO shards from stage `from_stage` on."""
    on = w.zero_stage >= from_stage
    held: FloatArray = dense / np.where(on, np.maximum(1.0, w.shard_size), 1.0)
    return held + experts / np.where(on, expert_shard_size(w), 1.0)


def _optimizer_bytes(w: Workload, parameters: HeldParameters) -> FloatArray:
    moments = np.select([w.optimizer == kind for kind in MATRIX_STATE_BYTES], list(MATRIX_STATE_BYTES.values()))
    other_moments = np.where(w.optimizer == OptimizerKind.MUON, MUON_OTHER_STATE_BYTES, moments)
    master = np.where(w.precision == Precision.FP32, 0.0, MASTER_BYTES)
    others = (master + other_moments) * (parameters.replicated + parameters.embedding)
    return _held(w, (master + moments) * parameters.matrices + others, (master + moments) * parameters.experts, 1)
