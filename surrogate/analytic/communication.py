"""Bytes that the busiest GPU of a workload sends, per parallel axis, split by link.

Per micro-batch: tensor, vocabulary, context, expert, expert-tensor, pipeline, and the weights of fully sharded
data parallelism. Per step: gradients and weights of data parallelism, experts' data parallelism, tied embedding.
Formulas are in `traffic`, links in `groups`; the GPU is one of the largest stage.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from surrogate.analytic import traffic
from surrogate.analytic.arrays import FloatLike, as_floats
from surrogate.analytic.collectives import all_reduce_ring_bytes
from surrogate.analytic.groups import Group, ParallelGroups, parallel_groups
from surrogate.analytic.model_parameters import ParametersPerGpu, parameters_per_gpu
from surrogate.analytic.recompute import repeated_forward_fraction
from surrogate.analytic.stages import largest_stage_layers
from surrogate.analytic.traffic import ACTIVATION_BYTES
from surrogate.analytic.workload import FloatArray, Schedule, Workload

LOSS_BYTES_PER_TOKEN = 12.0
"""Three all-reduces of one fp32 number per token: maximum, sum and target logit of the parallel cross entropy."""


class AxisTraffic(NamedTuple):
    """What one GPU sends along one axis, each of shape (n,)."""

    intra_bytes: FloatArray
    """Inside the fast domain."""
    inter_bytes: FloatArray
    """Between fast domains."""
    latency_steps: FloatArray
    """Messages that wait for one another: the factor of alpha."""

    @property
    def total_bytes(self) -> FloatArray:
        """Wire bytes on both links."""
        return self.intra_bytes + self.inter_bytes

    def scaled(self, factor: FloatLike) -> AxisTraffic:
        """Return the traffic of `factor` such operations."""
        return AxisTraffic(self.intra_bytes * factor, self.inter_bytes * factor, self.latency_steps * factor)


class MicroBatchTraffic(NamedTuple):
    """Traffic of one micro-batch through a GPU of the largest stage, forward and backward."""

    tp: AxisTraffic
    vocabulary: AxisTraffic
    """Embedding and parallel cross entropy; only the first and the last stage pay their half of it."""
    cp: AxisTraffic
    ep: AxisTraffic
    expert_tp: AxisTraffic
    pp: AxisTraffic
    data: AxisTraffic
    """Weights and gradients of fully sharded data parallelism (ZeRO-3), dense and expert."""


class StepTraffic(NamedTuple):
    """Traffic once per step, whatever the number of micro-batches."""

    data: AxisTraffic
    """Gradients and weights of dense layers, embedding and head, ZeRO stages 0 to 2; HSDP's all-reduce."""
    expert_data: AxisTraffic
    embedding: AxisTraffic
    """All-reduce of a tied matrix between the first and the last stage."""


def ring_traffic(group: Group, *, wire_bytes: FloatArray, latency_steps: FloatArray) -> AxisTraffic:
    """Return wire bytes of ring collectives split over the links of a group.

    Parameters
    ----------
    group : Group
        Ranks and links.
    wire_bytes, latency_steps : ndarray, shape (n,)
        Bytes that a rank sends in all, and steps.

    Returns
    -------
    AxisTraffic
        Split traffic.

    Notes
    -----
    Of the r hops of a ring inside a domain one leaves it: ``1 / r`` of the bytes per rank cross.
    """
    inter = wire_bytes * group.ring_inter_fraction
    return AxisTraffic(wire_bytes - inter, inter, (group.size > 1.0) * latency_steps)


def pairwise_traffic(group: Group, *, wire_bytes: FloatArray, latency_steps: FloatArray) -> AxisTraffic:
    """Return wire bytes of all-to-alls split over the links of a group, every peer receiving as much.

    Parameters
    ----------
    group, wire_bytes, latency_steps
        As for `ring_traffic`.

    Returns
    -------
    AxisTraffic
        Split traffic.
    """
    inter = wire_bytes * group.pairwise_inter_fraction
    return AxisTraffic(wire_bytes - inter, inter, (group.size > 1.0) * latency_steps)


def num_microbatches(w: Workload) -> FloatArray:
    """Return the micro-batches per step, ``m = Bg / (d b)``, at least 1.

    Parameters
    ----------
    w : Workload
        n configurations.

    Returns
    -------
    ndarray, shape (n,)
        Micro-batches per pipeline.
    """
    return np.maximum(w.global_batch_size / (w.dp * w.micro_batch_size), 1.0)


def tokens_per_micro_batch(w: Workload) -> FloatArray:
    """Return the local tokens of a micro-batch, ``n = b s / c``.

    Parameters
    ----------
    w : Workload
        n configurations.

    Returns
    -------
    ndarray, shape (n,)
        Tokens on one context parallel rank, not divided by tensor parallelism.
    """
    return w.micro_batch_size * w.seq_len / w.cp


def micro_batch_traffic(
    w: Workload, *, groups: ParallelGroups | None = None, per_gpu: ParametersPerGpu | None = None
) -> MicroBatchTraffic:
    """Return what one GPU of the largest stage sends for one micro-batch, forward and backward.

    Parameters
    ----------
    w : Workload
        n configurations.
    groups, per_gpu : optional
        `parallel_groups(w)` and `parameters_per_gpu(w)` where the caller has them already.

    Returns
    -------
    MicroBatchTraffic
        Bytes and latency steps of shape (n,) per axis.

    Notes
    -----
    Section references are in `traffic`. Expert layers have tensor parallel traffic for attention, and for their
    MLP half only with shared experts. Full recomputation repeats forward collectives on the recomputed layers.
    """
    groups = groups or parallel_groups(w)
    per_gpu = per_gpu or parameters_per_gpu(w)
    repeated = repeated_forward_fraction(w)
    return MicroBatchTraffic(
        tp=_tensor_traffic(w, groups, repeated),
        vocabulary=_vocabulary_traffic(w, groups),
        cp=_context_traffic(w, groups, repeated),
        ep=_expert_traffic(w, groups, repeated),
        expert_tp=_expert_tensor_traffic(w, groups, repeated),
        pp=_pipeline_traffic(w, groups),
        data=_sharded_traffic(w, groups, per_gpu),
    )


def step_traffic(
    w: Workload, *, groups: ParallelGroups | None = None, per_gpu: ParametersPerGpu | None = None
) -> StepTraffic:
    """Return what the busiest GPU sends once per step.

    Parameters
    ----------
    w : Workload
        n configurations.
    groups, per_gpu : optional
        `parallel_groups(w)` and `parameters_per_gpu(w)` where the caller has them already.

    Returns
    -------
    StepTraffic
        Bytes and latency steps of shape (n,) per axis.

    Notes
    -----
    Context parallel ranks hold the same weights, so gradients are reduced over ``d c`` ranks, experts' over
    ``N / (p e t_e)``. Fully sharded rows have here only HSDP's all-reduce of ``x_g P' / z`` over the replicas.
    """
    groups = groups or parallel_groups(w)
    per_gpu = per_gpu or parameters_per_gpu(w)
    dense, expert = _busiest_dense(per_gpu), _busiest_expert(per_gpu)
    matrix = w.grad_bytes * w.vocab_size * w.hidden_size / w.tp
    tied = w.tied_embeddings & (w.pp > 1.0)
    crosses = groups.pp.num_domains > 1.0
    wire = tied * matrix
    return StepTraffic(
        data=_reduction_traffic(
            w, whole=groups.data, shard=groups.data_shard, replica=groups.data_replica, parameters=dense
        ),
        expert_data=_reduction_traffic(
            w, whole=groups.expert_data, shard=groups.expert_shard, replica=groups.expert_replica, parameters=expert
        ),
        embedding=AxisTraffic(~crosses * wire, crosses * wire, 2.0 * as_floats(tied)),
    )


def _tensor_traffic(w: Workload, groups: ParallelGroups, repeated: FloatArray) -> AxisTraffic:
    layers = largest_stage_layers(w)
    blocks = layers.total + layers.dense + (w.num_shared_experts > 0.0) * layers.moe
    per_layer = traffic.tensor_parallel_bytes_per_layer(
        hidden_state_bytes=ACTIVATION_BYTES * tokens_per_micro_batch(w) * w.hidden_size,
        tp=w.tp,
        sequence_parallel=w.sequence_parallel,
        repeated_forward=repeated,
    )
    steps = blocks * (4.0 + w.sequence_parallel + 2.0 * repeated) * (w.tp - 1.0)
    return ring_traffic(groups.tp, wire_bytes=0.5 * blocks * per_layer, latency_steps=steps)


def _vocabulary_traffic(w: Workload, groups: ParallelGroups) -> AxisTraffic:
    tokens = tokens_per_micro_batch(w)
    hidden = ACTIVATION_BYTES * tokens * w.hidden_size
    wire = (w.tp - 1.0) / w.tp * (4.0 * hidden + 2.0 * LOSS_BYTES_PER_TOKEN * tokens)
    return ring_traffic(groups.tp, wire_bytes=wire, latency_steps=10.0 * (w.tp - 1.0))


def _context_traffic(w: Workload, groups: ParallelGroups, repeated: FloatArray) -> AxisTraffic:
    latent_width = w.num_heads * (w.qk_nope_head_dim + w.qk_rope_head_dim + w.v_head_dim)
    heads = np.maximum(w.num_kv_heads, w.tp)
    width = (latent_width + ~w.is_mla * 2.0 * heads * w.head_dim) / w.tp
    forward = traffic.context_parallel_ring_bytes_per_layer(
        num_tokens=tokens_per_micro_batch(w), key_value_width=width, cp=w.cp, element_bytes=ACTIVATION_BYTES
    )
    passes = largest_stage_layers(w).total * (3.0 + repeated)
    return ring_traffic(groups.cp, wire_bytes=passes * forward, latency_steps=passes * (w.cp - 1.0))


def _expert_traffic(w: Workload, groups: ParallelGroups, repeated: FloatArray) -> AxisTraffic:
    padding = w.capacity_factor + (w.capacity_factor == 0.0)
    one = traffic.expert_all_to_all_bytes(
        num_tokens=_dispatched_tokens(w),
        hidden_size=w.hidden_size,
        copies_per_token=w.moe_top_k * padding,
        ep=w.ep,
        element_bytes=ACTIVATION_BYTES,
    )
    again = np.maximum(w.recompute_moe, repeated)
    calls = largest_stage_layers(w).moe * (4.0 + 2.0 * again)
    return pairwise_traffic(groups.ep, wire_bytes=calls * one, latency_steps=calls)


def _expert_tensor_traffic(w: Workload, groups: ParallelGroups, repeated: FloatArray) -> AxisTraffic:
    gathered = ACTIVATION_BYTES * _dispatched_tokens(w) * w.moe_top_k * w.hidden_size * w.expert_tp
    calls = largest_stage_layers(w).moe * (4.0 + 2.0 * repeated)
    wire = calls * gathered * (w.expert_tp - 1.0) / w.expert_tp
    return ring_traffic(groups.expert_tp, wire_bytes=wire, latency_steps=calls * (w.expert_tp - 1.0))


def _dispatched_tokens(w: Workload) -> FloatArray:
    return tokens_per_micro_batch(w) / (1.0 + w.sequence_parallel * (w.tp - 1.0))


def _pipeline_traffic(w: Workload, groups: ParallelGroups) -> AxisTraffic:
    boundary = traffic.pipeline_boundary_bytes(
        num_tokens=tokens_per_micro_batch(w),
        hidden_size=w.hidden_size,
        tp=w.tp,
        scattered=w.sequence_parallel,
        element_bytes=ACTIVATION_BYTES,
    )
    v_shaped = (w.schedule == Schedule.ZB_V) | (w.schedule == Schedule.V_HALF) | (w.schedule == Schedule.V_MIN)
    sends = (w.pp > 1.0) * 2.0 * np.maximum(w.vp, 2.0 * v_shaped)
    inter = (groups.pp.num_domains > 1.0) * sends * boundary
    return AxisTraffic(sends * boundary - inter, inter, sends)


def _sharded_traffic(w: Workload, groups: ParallelGroups, per_gpu: ParametersPerGpu) -> AxisTraffic:
    parts = ((groups.data_shard, _busiest_dense(per_gpu)), (groups.expert_shard, _busiest_expert(per_gpu)))
    sharded = w.gathers_each_pass
    layers = largest_stage_layers(w).total
    both = []
    for group, parameters in parts:
        wire = traffic.fully_sharded_bytes_per_micro_batch(
            parameters=sharded * parameters,
            num_ranks=group.size,
            grad_bytes=w.grad_bytes,
            weight_gathers=2.0,
        )
        steps = (sharded & (parameters > 0.0)) * 3.0 * layers * (group.size - 1.0)
        both.append(ring_traffic(group, wire_bytes=wire, latency_steps=steps))
    return _sum(*both)


def _reduction_traffic(
    w: Workload, *, whole: Group, shard: Group, replica: Group, parameters: FloatArray
) -> AxisTraffic:
    """Return the traffic of ZeRO stages 0 to 2 over `whole`, or of HSDP's all-reduce over `replica`."""
    sharded = w.gathers_each_pass
    plain = _data_ring(w, whole, ~sharded * parameters)
    wire = all_reduce_ring_bytes(payload_bytes=w.grad_bytes * parameters / shard.size, num_ranks=replica.size)
    hybrid = ring_traffic(
        replica,
        wire_bytes=sharded * wire,
        latency_steps=(sharded & (parameters > 0.0)) * 2.0 * (replica.size - 1.0),
    )
    return _sum(plain, hybrid)


def _data_ring(w: Workload, group: Group, parameters: FloatArray) -> AxisTraffic:
    wire = traffic.data_parallel_bytes_per_step(
        parameters=parameters, num_ranks=group.size, zero_stage=w.zero_stage, grad_bytes=w.grad_bytes
    )
    return ring_traffic(group, wire_bytes=wire, latency_steps=(parameters > 0.0) * 2.0 * (group.size - 1.0))


def _busiest_dense(per_gpu: ParametersPerGpu) -> FloatArray:
    first, middle, last = per_gpu
    ends = np.maximum(first.dense + first.embedding, last.dense + last.embedding)
    return np.maximum(ends, middle.dense)


def _busiest_expert(per_gpu: ParametersPerGpu) -> FloatArray:
    return np.maximum(np.maximum(per_gpu.first.expert, per_gpu.middle.expert), per_gpu.last.expert)


def _sum(one: AxisTraffic, other: AxisTraffic) -> AxisTraffic:
    return AxisTraffic(
        one.intra_bytes + other.intra_bytes,
        one.inter_bytes + other.inter_bytes,
        one.latency_steps + other.latency_steps,
    )
