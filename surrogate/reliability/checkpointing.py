"""What a checkpoint weighs and how long it takes to write, to stall on, and to read back.

Notation
--------
P    parameters of the model; P' = P / (tp pp) on one model shard (experts also over ep)
Z    ranks a shard's state is spread over when it is written: dp with a sharded save, 1 otherwise
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from surrogate.reliability.arrays import FloatArray, real

WEIGHT_BYTES: Final = 2.0
"""bf16 copy of the weights, per parameter."""
OPTIMIZER_BYTES: Final = 12.0
"""fp32 master weights (4) and two fp32 Adam moments (8), per parameter (bigscience BLOOM README: 14 in all)."""


@dataclass(frozen=True, kw_only=True, slots=True)
class CheckpointLayout:
    """The plan's quantities a checkpoint depends on, arrays of shape (n,) or numbers.

    Parameters
    ----------
    num_params : array_like
        All parameters, experts included.
    num_gpus, gpus_per_node, tp, pp, dp : array_like
        Layout; context-parallel ranks count as data parallel, as they hold the same state.
    sharded : array_like of bool
        Whether every data-parallel rank writes its own slice (sharded optimizer), or one of them all.
    replicated_reads : array_like of bool
        Whether every replica reads the weights (and unsharded state) from storage, or one reads and passes them on.
    weight_bytes, optimizer_bytes : array_like
        Bytes per parameter; `weight_bytes` 0 when the bf16 copy is left out.
    """

    num_params: ArrayLike
    num_gpus: ArrayLike
    gpus_per_node: ArrayLike
    tp: ArrayLike
    pp: ArrayLike
    dp: ArrayLike
    sharded: ArrayLike = True
    replicated_reads: ArrayLike = False
    weight_bytes: ArrayLike = WEIGHT_BYTES
    optimizer_bytes: ArrayLike = OPTIMIZER_BYTES


@dataclass(frozen=True, kw_only=True, slots=True)
class CheckpointSize:
    """Bytes of a checkpoint, arrays of shape (n,).

    ``rank_bytes`` and ``node_bytes`` are those of the busiest writer; ``load_bytes`` is what all ranks read together.
    """

    total_bytes: FloatArray
    rank_bytes: FloatArray
    node_bytes: FloatArray
    load_bytes: FloatArray
    num_nodes: FloatArray


@dataclass(frozen=True, kw_only=True, slots=True)
class StorageSpec:
    """Bandwidths a checkpoint passes through, bytes per second, arrays or numbers.

    Parameters
    ----------
    write_bytes_per_s, read_bytes_per_s : array_like
        What the shared storage gives the whole job.
    host_link_bytes_per_s : array_like
        Device to host memory, per accelerator.
    node_bytes_per_s : array_like
        Network share of one node towards the storage, or towards another node's memory.
    barrier_s : array_like
        Collective agreement that a checkpoint is complete.
    """

    write_bytes_per_s: ArrayLike
    read_bytes_per_s: ArrayLike
    host_link_bytes_per_s: ArrayLike
    node_bytes_per_s: ArrayLike
    barrier_s: ArrayLike = 0.0


@dataclass(frozen=True, kw_only=True, slots=True)
class CheckpointTimes:
    """Seconds of a checkpoint, arrays of shape (n,).

    ``stall_s`` stops training, ``persist_s`` runs in the background after it, ``load_s`` reads it back.
    """

    stall_s: FloatArray
    persist_s: FloatArray
    load_s: FloatArray

    @property
    def save_s(self) -> FloatArray:
        """Seconds from the start of the stall until the checkpoint is usable."""
        return self.stall_s + self.persist_s


def checkpoint_size(layout: CheckpointLayout) -> CheckpointSize:
    """Return the bytes a plan writes and reads per checkpoint.

    Parameters
    ----------
    layout : CheckpointLayout
        Arrays of shape (n,).

    Returns
    -------
    CheckpointSize

    Raises
    ------
    InputError
        For a quantity that is not positive.

    Notes
    -----
    Total = (weight_bytes + optimizer_bytes) P; per rank = total / (tp pp Z). Pipeline stages are taken as equal:
    the embedding's stage writes more than shown.

    Examples
    --------
    >>> layout = CheckpointLayout(num_params=176e9, num_gpus=384, gpus_per_node=8, tp=4, pp=12, dp=8)
    >>> f"{float(checkpoint_size(layout).total_bytes):.4g}"
    '2.464e+12'
    """
    params = real("num_params", layout.num_params, strict=True)
    gpus, per_node = (real(name, getattr(layout, name), strict=True) for name in ("num_gpus", "gpus_per_node"))
    shards = real("tp", layout.tp, strict=True) * real("pp", layout.pp, strict=True)
    replicas = real("dp", layout.dp, strict=True)
    sharded = np.asarray(layout.sharded, dtype=bool)
    weights = real("weight_bytes", layout.weight_bytes) * params
    optimizer = real("optimizer_bytes", layout.optimizer_bytes) * params
    writers = shards * np.where(sharded, replicas, 1.0)
    rank = (weights + optimizer) / writers
    # unsharded: only one replica writes, and its ranks fill whole nodes
    writers_per_node = np.minimum(np.minimum(per_node, gpus), writers)
    readers = np.where(np.asarray(layout.replicated_reads, dtype=bool), replicas, 1.0)
    load = weights * readers + optimizer * np.where(sharded, 1.0, readers)
    return CheckpointSize(
        total_bytes=weights + optimizer,
        rank_bytes=rank,
        node_bytes=rank * writers_per_node,
        load_bytes=load,
        num_nodes=np.ceil(gpus / per_node),
    )


def checkpoint_times(size: CheckpointSize, storage: StorageSpec, *, asynchronous: ArrayLike = True) -> CheckpointTimes:
    """Return how long a checkpoint stalls training, runs on behind it, and takes to load.

    Parameters
    ----------
    size : CheckpointSize
        As from `checkpoint_size`.
    storage : StorageSpec
        Bandwidths.
    asynchronous : array_like of bool
        Stall only for the copy to host memory and write behind training, or for the whole save.

    Returns
    -------
    CheckpointTimes

    Raises
    ------
    InputError
        For a bandwidth that is not positive.

    Notes
    -----
    copy = rank bytes / host link; write = max(node bytes / node link, total / storage write). A synchronous save
    overlaps the two: max(copy, write) + barrier. Load = max over the same paths with the bytes read.
    """
    names = ("write_bytes_per_s", "read_bytes_per_s", "host_link_bytes_per_s", "node_bytes_per_s")
    write, read, host, node = (real(name, getattr(storage, name), strict=True) for name in names)
    barrier = real("barrier_s", storage.barrier_s)
    copy = size.rank_bytes / host
    written = np.maximum(size.node_bytes / node, size.total_bytes / write)
    background = np.asarray(asynchronous, dtype=bool)
    load = np.maximum(size.load_bytes / size.num_nodes / node, size.load_bytes / read)
    return CheckpointTimes(
        stall_s=np.where(background, copy, np.maximum(copy, written)) + barrier,
        persist_s=np.where(background, written, 0.0),
        load_s=np.maximum(load, size.rank_bytes / host),
    )


def memory_checkpoint_times(size: CheckpointSize, storage: StorageSpec, *, copies: int = 2) -> CheckpointTimes:
    """Return the times of a checkpoint kept in the memory of ``copies`` nodes (GEMINI).

    Parameters
    ----------
    size : CheckpointSize
        As from `checkpoint_size`.
    storage : StorageSpec
        Only the host link, the node link and the barrier are used.
    copies : int
        Nodes that hold each piece, its owner included.

    Returns
    -------
    CheckpointTimes
        ``stall_s`` is the copy to host memory; sending it to the other nodes runs behind training.

    References
    ----------
    GEMINI, SOSP 2023: each node sends m - 1 remote copies.
    """
    remote = real("copies", copies, minimum=1.0) - 1.0
    host = real("host_link_bytes_per_s", storage.host_link_bytes_per_s, strict=True)
    node = real("node_bytes_per_s", storage.node_bytes_per_s, strict=True)
    copy = size.rank_bytes / host
    return CheckpointTimes(
        stall_s=copy + real("barrier_s", storage.barrier_s),
        persist_s=remote * size.node_bytes / node,
        load_s=np.maximum(copy, size.node_bytes / node),
    )


def memory_recovery_probability(*, num_nodes: ArrayLike, copies: ArrayLike, lost: ArrayLike) -> FloatArray:
    """Return the probability that some copy of every piece survives ``lost`` simultaneous node losses.

    Parameters
    ----------
    num_nodes, copies, lost : array_like, shape (n,)
        Nodes N in groups of ``copies`` m; k nodes lost at once.

    Returns
    -------
    ndarray, shape (n,)
        Exact below 2 m losses, a lower bound from there.

    Notes
    -----
    1 if k < m, else max(0, 1 - (N / m) C(N - m, k - m) / C(N, k)).

    References
    ----------
    GEMINI, SOSP 2023: probability of recovery with group placement.

    Examples
    --------
    >>> round(float(memory_recovery_probability(num_nodes=16, copies=2, lost=3)), 4)
    0.8
    """
    nodes, held = real("num_nodes", num_nodes, strict=True), real("copies", copies, minimum=1.0)
    gone = real("lost", lost)
    groups_lost = nodes / held * special.binom(nodes - held, gone - held) / special.binom(nodes, gone)
    return np.where(gone < held, 1.0, np.maximum(0.0, 1.0 - groups_lost))


def stalled_throughput_fraction(*, step_time_s: ArrayLike, steps: ArrayLike, stall_s: ArrayLike) -> FloatArray:
    """Return throughput kept when training stalls ``stall_s`` every ``steps`` steps: n T / (n T + b).

    Examples
    --------
    >>> round(float(stalled_throughput_fraction(step_time_s=4.48, steps=1, stall_s=1.84)), 3)
    0.709
    """
    busy = real("steps", steps, strict=True) * real("step_time_s", step_time_s, strict=True)
    return busy / (busy + real("stall_s", stall_s))


def wasted_per_failure_s(*, save_s: ArrayLike, interval_s: ArrayLike, load_s: ArrayLike) -> FloatArray:
    """Return the time a failure costs on average: the save not yet complete, half an interval, and the load.

    References
    ----------
    GEMINI, SOSP 2023, sec. 2.2; ``interval_s`` cannot be shorter than ``save_s``.

    Examples
    --------
    >>> float(wasted_per_failure_s(save_s=42, interval_s=42, load_s=42))
    105.0
    """
    return real("save_s", save_s) + real("interval_s", interval_s) / 2.0 + real("load_s", load_s)
