"""The analytic model's input: one frozen struct of equally long arrays, complete and in SI units.

Nothing here is missing: `surrogate.features` resolves names through the catalogue and imputes what a row
does not say before it builds a `Workload`. A single configuration is a `Workload` of length one.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]
IntArray = NDArray[np.int64]


class Schedule(IntEnum):
    """Pipeline schedules; the code is what `Workload.schedule` holds."""

    ONE_F_ONE_B = 0
    INTERLEAVED = 1
    GPIPE = 2
    ZB_H1 = 3
    ZB_H2 = 4
    ZB_V = 5
    DUALPIPE = 6
    V_HALF = 7
    V_MIN = 8


class Recompute(IntEnum):
    """Activation recomputation kinds.

    SELECTIVE recomputes the attention core (Megatron's default selective), OP_SELECTIVE keeps matrix products
    and recomputes cheap operators (torch's selective activation checkpointing), MODULES recomputes the modules
    listed in `Workload.recompute_mlp` / `recompute_norm` / `recompute_moe`.
    """

    NONE = 0
    SELECTIVE = 1
    FULL = 2
    OP_SELECTIVE = 3


class Offload(IntEnum):
    """What is kept in host memory."""

    NONE = 0
    OPTIMIZER = 1
    ACTIVATIONS = 2
    PARAMS = 3


class OptimizerKind(IntEnum):
    """Optimizer state layouts: bytes per parameter follow in `memory`."""

    ADAM_FP32_MASTER = 0
    ADAM_BF16 = 1
    ADAM_8BIT = 2
    MUON = 3


class Precision(IntEnum):
    """Training precision of the matrix products."""

    BITS_16 = 0
    FP8 = 1
    FP4 = 2
    FP32 = 3
    INT8 = 4
    MXFP8 = 5


@dataclass(frozen=True, kw_only=True, slots=True)
class Workload:
    """A column per quantity, every array of shape (n,).

    Counts are float64 so that ratios need no casts; flags are bool; codes are int64 of the enums above.
    """

    # architecture
    num_layers: FloatArray
    hidden_size: FloatArray
    ffn_hidden_size: FloatArray
    """Width of a dense layer's MLP; 0 when every layer is an expert layer."""
    num_heads: FloatArray
    num_kv_heads: FloatArray
    head_dim: FloatArray
    vocab_size: FloatArray
    seq_len: FloatArray
    gated_mlp: BoolArray
    tied_embeddings: BoolArray
    is_mla: BoolArray
    q_lora_rank: FloatArray
    """Query latent width; 0 without query compression. The five MLA widths are 0 for other attention."""
    kv_lora_rank: FloatArray
    qk_nope_head_dim: FloatArray
    qk_rope_head_dim: FloatArray
    v_head_dim: FloatArray
    num_experts: FloatArray
    """Routed experts; 0 for dense models (then the other expert columns are 0 too)."""
    moe_top_k: FloatArray
    moe_ffn_hidden_size: FloatArray
    num_shared_experts: FloatArray
    num_dense_layers: FloatArray
    """Dense layers of a mixture-of-experts model; `num_layers` for dense models."""
    sliding_window: FloatArray
    """Attention window in tokens on the windowed layers; `seq_len` where there is none."""
    windowed_layers_fraction: FloatArray
    num_mtp_layers: FloatArray
    """Extra multi-token-prediction layers trained along (DeepSeek-V3: 1)."""

    # hardware, per accelerator
    peak_flops_per_s: FloatArray
    """Dense peak at the row's matrix precision."""
    peak_16bit_flops_per_s: FloatArray
    hbm_bytes: FloatArray
    """Usable device memory as the driver reports it."""
    hbm_bytes_per_s: FloatArray
    fast_link_bytes_per_s: FloatArray
    """NVLink / ICI / Infinity Fabric, one direction, per accelerator."""
    fast_domain_gpus: FloatArray
    """Accelerators that share the fast link (8 on a DGX, 72 on NVL72, the slice on a TPU)."""
    gpus_per_node: FloatArray
    network_bytes_per_s: FloatArray
    """Inter-node network, one direction, per accelerator (not per node)."""
    host_link_bytes_per_s: FloatArray
    """Device-host link, one direction, per accelerator."""

    # layout
    num_gpus: FloatArray
    tp: FloatArray
    pp: FloatArray
    cp: FloatArray
    dp: FloatArray
    ep: FloatArray
    expert_tp: FloatArray
    vp: FloatArray
    sequence_parallel: BoolArray
    zero_stage: IntArray
    shard_size: FloatArray
    """Ranks over which ZeRO/FSDP shards dense parameters: dp*cp, or the HSDP shard group."""
    schedule: IntArray

    # training
    micro_batch_size: FloatArray
    global_batch_size: FloatArray
    precision: IntArray
    grad_bytes: FloatArray
    """Bytes of a gradient element in the reduction (2 or 4)."""
    recompute: IntArray
    recompute_layers: FloatArray
    """Layers per pipeline stage that are recomputed; equals the stage's layers when all are."""
    recompute_mlp: BoolArray
    recompute_norm: BoolArray
    recompute_moe: BoolArray
    flash_attention: BoolArray
    fused_norm: BoolArray
    overlap_grad_reduce: FloatArray
    """Probability in [0, 1] that the setting is on: 0 or 1 when the row says so."""
    overlap_param_gather: FloatArray
    tp_comm_overlap: FloatArray
    ep_overlap: FloatArray
    cuda_graphs: FloatArray
    compiled: FloatArray
    capacity_factor: FloatArray
    """Expert capacity factor; 0 when routing is dropless."""
    optimizer: IntArray
    offload: IntArray
    offload_fraction: FloatArray

    def __len__(self) -> int:
        return len(self.num_layers)

    @property
    def gathers_each_pass(self) -> BoolArray:
        """Where parameters are gathered for each pass of a micro-batch: ZeRO-3 without a pipeline, shape (n,).

        Under a pipeline nothing would hide that: they stay gathered over the step and gradients are reduced once, as
        under ZeRO-1 (arXiv 2410.06511).
        """
        return (self.zero_stage >= 3) & (self.pp <= 1.0)

    def take(self, rows: NDArray[np.int64] | NDArray[np.bool_] | slice) -> Workload:
        """Return the selected rows."""
        return Workload(**{field.name: getattr(self, field.name)[rows] for field in fields(self)})
