"""The knobs of a configuration as one point in space: logarithms of sizes, and settings.

Distances between these points say how far a configuration is from the measured ones. Factors of e in a size count 1.
"""

from __future__ import annotations

import numpy as np

from surrogate.analytic.communication import num_microbatches
from surrogate.analytic.workload import FloatArray, Precision, Recompute
from surrogate.features.workload import PreparedRuns

KNOBS = (
    "num_layers",
    "hidden_size",
    "seq_len",
    "micro_batch_size",
    "num_microbatches",
    "tp",
    "pp",
    "cp",
    "dp",
    "ep",
    "vp",
    "num_experts",
    "num_gpus",
    "optimizer_shard",
    "zero_stage",
    "full_recompute",
    "sequence_parallel",
    "flash_attention",
    "fp8",
    "fp4",
    "mxfp8",
    "selective_recompute",
    "tp_comm_overlap",
    "overlap_grad_reduce",
    "ep_overlap",
    "cuda_graphs",
    "fused_dispatch",
    "peak_flops_per_s",
)
OTHER_DEVICE = 2.0
"""Distance added between accelerators, beside that of their peaks: as much as a factor of 7 in one size."""
_SMALLEST = 1e-9


def knob_matrix(prepared: PreparedRuns) -> FloatArray:
    """Return the knobs of n rows in the order of `KNOBS`, shape (n, 28)."""
    w = prepared.workload
    sizes = (
        w.num_layers,
        w.hidden_size,
        w.seq_len,
        w.micro_batch_size,
        num_microbatches(w),
        w.tp,
        w.pp,
        w.cp,
        w.dp,
        w.ep,
        w.vp,
        w.num_experts + 1.0,
        w.num_gpus,
        np.where(w.zero_stage >= 1.0, w.shard_size, 1.0),
    )
    settings = (
        w.zero_stage,
        2.0 * (w.recompute == Recompute.FULL),
        w.sequence_parallel,
        w.flash_attention,
        w.precision == Precision.FP8,
        w.precision == Precision.FP4,
        w.precision == Precision.MXFP8,
        (w.recompute == Recompute.SELECTIVE) | (w.recompute == Recompute.OP_SELECTIVE),
        w.tp_comm_overlap,
        w.overlap_grad_reduce,
        w.ep_overlap,
        w.cuda_graphs,
        2.0 * (prepared.stack.fused_dispatch & (w.ep > 1.0)),
    )
    columns = [np.log(np.maximum(size, _SMALLEST)) for size in sizes]
    columns += [np.asarray(setting, dtype=np.float64) for setting in settings]
    columns += [np.log(w.peak_16bit_flops_per_s)]
    return np.stack(columns, axis=1)
