"""Peak memory of the worst pipeline stage for columns of configurations, and of every stage of one plan."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields

import numpy as np

from surrogate.analytic.memory._activations import activation_bytes
from surrogate.analytic.memory._breakdown import MemoryBreakdown
from surrogate.analytic.memory._buffers import buffer_bytes
from surrogate.analytic.memory._coefficients import TEXTBOOK, MemoryCoefficients
from surrogate.analytic.memory._parameters import held_parameters
from surrogate.analytic.memory._stages import build_stage
from surrogate.analytic.memory._static import static_bytes
from surrogate.analytic.workload import FloatArray, IntArray, Offload, Workload
from surrogate.errors import InputError

ROWS_PER_BLOCK = 16_384
"""Rows evaluated at once: temporaries stay in cache and memory is flat in the number of rows."""


def peak_memory(w: Workload, coefficients: MemoryCoefficients = TEXTBOOK) -> MemoryBreakdown:
    """Itemise the peak bytes per GPU of each row's worst pipeline stage.

    Parameters
    ----------
    w : Workload
        n rows.
    coefficients : MemoryCoefficients
        Calibration constants.

    Returns
    -------
    MemoryBreakdown
        Arrays of shape (n,); `stage` says which stage is the worst.

    Notes
    -----
    Candidates are the first stage (most micro-batches in flight, embedding), the second (a layer more where layers do
    not divide), the middle and the last (head and logits).
    """
    blocks = [
        _worst_stage(w.take(slice(start, start + ROWS_PER_BLOCK)), coefficients)
        for start in range(0, max(1, len(w)), ROWS_PER_BLOCK)
    ]
    if len(blocks) == 1:
        return blocks[0]
    return _combine(lambda name: np.concatenate([getattr(block, name) for block in blocks]))


def stage_memory(w: Workload, coefficients: MemoryCoefficients = TEXTBOOK) -> MemoryBreakdown:
    """Itemise the peak bytes per GPU of every pipeline stage of one plan.

    Parameters
    ----------
    w : Workload
        Exactly one row.
    coefficients : MemoryCoefficients
        Calibration constants.

    Returns
    -------
    MemoryBreakdown
        Arrays of shape (pp,), first stage first.

    Raises
    ------
    InputError
        If `w` does not hold one row.
    """
    if len(w) != 1:
        raise InputError("workload", "must hold one row", len(w), "use peak_memory for columns")
    stages = np.arange(int(w.pp[0]), dtype=np.float64)
    return memory_at(w.take(np.zeros(len(stages), dtype=np.int64)), stages, coefficients)


def memory_at(w: Workload, index: FloatArray, coefficients: MemoryCoefficients = TEXTBOOK) -> MemoryBreakdown:
    """Itemise the peak bytes per GPU of stage `index` (shape (n,), from 0) of every row."""
    stage = build_stage(w, index)
    parameters = held_parameters(w, stage)
    static = static_bytes(w, parameters, coefficients)
    acts = activation_bytes(w, stage, coefficients)
    buffers = buffer_bytes(w, stage, parameters, coefficients)
    kept = np.where(w.offload == Offload.ACTIVATIONS, 1.0 - w.offload_fraction, 1.0)
    # the layer being rebuilt and the logits are never alive together, nor the step's gradient copy and activations:
    # of each pair only the larger counts
    live = np.maximum(0.0, acts.live_layer - buffers.logits)
    saved = acts.norms + acts.attention + acts.mlp + acts.experts + acts.gathered_inputs + acts.checkpoints
    moving = kept * saved + live + buffers.logits + buffers.transient + buffers.communication
    return MemoryBreakdown(
        stage=index,
        weights_bytes=static.weights,
        gradients_bytes=static.gradients,
        optimizer_bytes=static.optimizer,
        optimizer_step_bytes=np.maximum(0.0, static.step_gradients - moving),
        norm_activations_bytes=kept * acts.norms,
        attention_activations_bytes=kept * acts.attention,
        mlp_activations_bytes=kept * acts.mlp,
        expert_activations_bytes=kept * acts.experts,
        gathered_inputs_bytes=kept * acts.gathered_inputs,
        recomputation_bytes=kept * acts.checkpoints + live,
        embedding_bytes=buffers.embedding_mask,
        logits_bytes=buffers.logits,
        transient_bytes=buffers.transient,
        communication_bytes=buffers.communication,
        gathered_parameters_bytes=buffers.gathered_parameters,
        fragmentation_bytes=coefficients.fragmentation * (moving + buffers.gathered_parameters),
        context_bytes=buffers.context,
        host_bytes=static.host + (1.0 - kept) * saved,
    )


def _worst_stage(w: Workload, coefficients: MemoryCoefficients) -> MemoryBreakdown:
    """Keep the fullest of each row's candidate stages; a candidate is evaluated where it is not one of the earlier."""
    last = w.pp - 1.0
    first, *others = np.zeros_like(last), np.minimum(1.0, last), np.floor(last / 2.0), last
    worst = memory_at(w, first, coefficients)
    seen = [first]
    for index in others:
        rows = np.flatnonzero(np.all([index != earlier for earlier in seen], axis=0))
        seen.append(index)
        if rows.size:
            worst = _fuller(worst, memory_at(w.take(rows), index[rows], coefficients), rows)
    return worst


def _fuller(worst: MemoryBreakdown, other: MemoryBreakdown, rows: IntArray) -> MemoryBreakdown:
    """Replace the given rows of `worst` where `other`, a breakdown of those rows only, takes more of the device."""
    more = other.device_bytes > worst.device_bytes[rows]
    chosen = rows[more]

    def column(name: str) -> FloatArray:
        values = np.array(getattr(worst, name))
        values[chosen] = getattr(other, name)[more]
        return values

    return _combine(column)


def _combine(column: Callable[[str], FloatArray]) -> MemoryBreakdown:
    return MemoryBreakdown(**{field.name: column(field.name) for field in fields(MemoryBreakdown)})
