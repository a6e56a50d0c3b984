"""What one pipeline stage holds: its layers, its ends of the model, and its micro-batches in flight.

Notation: L layers, p stages, i stage from 0, v chunks per stage, m micro-batches.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from surrogate.analytic.pipeline import microbatches_in_flight
from surrogate.analytic.workload import BoolArray, FloatArray, Schedule, Workload


@dataclass(frozen=True, kw_only=True, slots=True)
class Stage:
    """One pipeline stage per row; every array of shape (n,)."""

    index: FloatArray
    layers: FloatArray
    """Transformer layers whose activations one micro-batch leaves here."""
    dense_layers: FloatArray
    """Those of them with a dense MLP."""
    weight_copies: FloatArray
    """2 under DualPipe, which keeps two stages' weights on each device; else 1."""
    has_embedding: BoolArray
    has_head: BoolArray
    microbatches_in_flight: FloatArray
    """Micro-batches of the whole stage (all chunks) whose activations live together at the peak."""

    @property
    def expert_layers(self) -> FloatArray:
        """Layers with a mixture of experts."""
        return self.layers - self.dense_layers


def num_microbatches(w: Workload) -> FloatArray:
    """Micro-batches per step and data-parallel rank, at least 1."""
    return np.maximum(1.0, w.global_batch_size / (w.dp * w.micro_batch_size))


def build_stage(w: Workload, index: FloatArray) -> Stage:
    """Describe stage `index` of every row.

    Parameters
    ----------
    w : Workload
        n rows.
    index : array of shape (n,)
        Stage number from 0 to pp - 1.

    Notes
    -----
    Layers that do not divide go where published runs put them: the stages of the head and of the embedding are
    the first to lack one. Dense layers of a mixture-of-experts model come first when they fit into one chunk per
    stage and are spread evenly otherwise (alternating designs). Extra token-prediction layers sit with the head.
    """
    last = index >= w.pp - 1
    both_ends = np.isin(w.schedule, (Schedule.DUALPIPE, Schedule.ZB_V, Schedule.V_HALF, Schedule.V_MIN)) & (w.pp > 1)
    dualpipe = (w.schedule == Schedule.DUALPIPE) & (w.pp > 1)
    first = index == 0
    has_head = np.where(both_ends, first | (last & dualpipe), last)
    layers = _main_layers(w, index)
    dense = np.where(w.num_experts > 0, _leading_dense_layers(w, index, layers), layers)
    return Stage(
        index=index,
        layers=layers + np.where(has_head, w.num_mtp_layers, 0.0),
        dense_layers=dense + np.where(has_head & (w.num_experts == 0), w.num_mtp_layers, 0.0),
        weight_copies=np.where(dualpipe, 2.0, 1.0),
        has_embedding=first | (last & dualpipe),
        has_head=has_head,
        microbatches_in_flight=_microbatches_in_flight(w, index),
    )


def _main_layers(w: Workload, index: FloatArray) -> FloatArray:
    whole = np.floor(w.num_layers / w.pp)
    rest = w.num_layers - whole * w.pp
    start = np.where(rest <= w.pp - 2, 1.0, 0.0)
    return whole + ((index >= start) & (index < start + rest))


def _leading_dense_layers(w: Workload, index: FloatArray, layers: FloatArray) -> FloatArray:
    chunk = w.num_layers / (w.pp * w.vp)
    leading = np.clip(w.num_dense_layers - index * chunk, 0.0, np.minimum(chunk, layers))
    spread = layers * w.num_dense_layers / w.num_layers
    return np.where(w.num_dense_layers <= chunk * w.pp, leading, spread)


def _microbatches_in_flight(w: Workload, index: FloatArray) -> FloatArray:
    interleaved_once = (w.schedule == Schedule.INTERLEAVED) & (w.vp <= 1)
    held = microbatches_in_flight(
        schedule=np.where(interleaved_once, Schedule.ONE_F_ONE_B, w.schedule),
        stage=index,
        num_microbatches=num_microbatches(w),
        pp=w.pp,
        vp=w.vp,
    )
    return np.where(w.pp > 1, held, 1.0)
