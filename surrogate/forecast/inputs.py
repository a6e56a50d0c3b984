"""What a forecast starts from: predicted step times with their plans, and how the run is operated."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Final, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from surrogate.errors import InputError
from surrogate.reliability import recovery
from surrogate.reliability.arrays import FloatArray, real
from surrogate.reliability.failures import ComponentRates
from surrogate.reliability.goodput import WhenShort
from surrogate.reliability.priors import Maturity

_Z_95: Final = 1.6448536269514722
_ROUNDING: Final = 1e-9


@dataclass(frozen=True, kw_only=True, slots=True)
class TrainingPlans:
    """One row per plan: candidates to compare, or the phases of one run; arrays of shape (n,).

    Parameters
    ----------
    step_time_s, log_sd : array_like
        Predicted median seconds per step, and the standard deviation of its logarithm.
    tokens, tokens_per_step : array_like
        Tokens to train on and per optimizer step.
    num_gpus, gpus_per_node : array_like
        Accelerators of the job and per node.
    accelerator : str or sequence of str
        Catalogue names.
    num_params : array_like
        Parameters, experts included.
    tp, pp, data_parallel : array_like
        Layout; ``data_parallel`` includes context-parallel ranks.
    sharded : array_like of bool
        Whether each data-parallel rank writes its slice of the checkpoint.
    node_bytes_per_s : array_like
        Network of one node, one direction.
    """

    step_time_s: ArrayLike
    log_sd: ArrayLike
    tokens: ArrayLike
    tokens_per_step: ArrayLike
    num_gpus: ArrayLike
    gpus_per_node: ArrayLike
    accelerator: str | Sequence[str]
    num_params: ArrayLike
    tp: ArrayLike = 1
    pp: ArrayLike = 1
    data_parallel: ArrayLike = 1
    sharded: ArrayLike = True
    node_bytes_per_s: ArrayLike = recovery.NODE_NETWORK_BYTES_PER_S

    def __post_init__(self) -> None:
        positive = ("step_time_s", "tokens", "tokens_per_step", "num_gpus", "gpus_per_node", "num_params")
        for name in (*positive, "tp", "pp", "data_parallel", "node_bytes_per_s"):
            real(name, getattr(self, name), strict=True)
        real("log_sd", self.log_sd)

    def broadcast(self) -> TrainingPlans:
        """Return the same plans with every field an array of shape (n,)."""
        names = [field.name for field in fields(self)]
        arrays = np.broadcast_arrays(*(np.atleast_1d(np.asarray(getattr(self, name))) for name in names))
        columns: dict[str, Any] = dict(zip(names, arrays, strict=True))
        return replace(self, **columns)

    @property
    def steps(self) -> FloatArray:
        """Whole optimizer steps that cover the tokens."""
        per_step = np.asarray(self.tokens_per_step, dtype=np.float64)
        steps: FloatArray = np.ceil(np.asarray(self.tokens, dtype=np.float64) / per_step - _ROUNDING)
        return steps

    @property
    def num_nodes(self) -> FloatArray:
        """Nodes of the job."""
        per_node = np.asarray(self.gpus_per_node, dtype=np.float64)
        nodes: FloatArray = np.ceil(np.asarray(self.num_gpus, dtype=np.float64) / per_node)
        return nodes


@dataclass(frozen=True, kw_only=True, slots=True)
class RunPolicy:
    """How a run is operated; numbers or arrays of shape (n,), seconds unless named.

    Parameters
    ----------
    rates : ComponentRates, optional
        A site's own failure rates; published ones by accelerator family when absent.
    maturity : {"tuned", "young"}
        Which published clusters to resemble.
    failure_rate_factor : array_like
        Multiplies every failure rate.
    checkpoint_interval_s : array_like, optional
        Useful time between checkpoints; the best one when absent.
    asynchronous : array_like of bool
        Write checkpoints behind training.
    memory_copies : int
        Nodes that hold each piece of the latest state in memory, its owner included; 1 for storage only.
    replicated_reads : array_like of bool
        Whether every data-parallel replica reads the checkpoint from storage on a restart.
    write_bytes_per_s, read_bytes_per_s, host_link_bytes_per_s, barrier_s : array_like
        Checkpoint paths.
    storage_duty_fraction : array_like
        Share of the time checkpoints may keep the storage busy.
    persist_slowdown_fraction : array_like
        Share by which training slows while a checkpoint is written behind it.
    detection_s, restart_s : array_like
        From failure to notice, and to running again; ``restart_s`` from the published table when absent.
    repair_s : array_like
        How long a broken node is out.
    silent_latency_s : array_like
        How late silent corruption is noticed.
    spares : array_like, optional
        Warm spare nodes; enough for ``spare_risk`` when absent.
    spare_risk : float
        Accepted share of the time with too few nodes.
    when_short : {"wait", "elastic"}
        Wait for a node, or run on with fewer.
    planned_downtime_fraction : float
        Share of calendar time for maintenance, evaluations and other planned stops.
    price_per_gpu_hour : float, optional
        Money per accelerator and hour, spares included.
    """

    rates: ComponentRates | None = None
    maturity: Maturity = "tuned"
    failure_rate_factor: ArrayLike = 1.0
    checkpoint_interval_s: ArrayLike | None = None
    asynchronous: ArrayLike = True
    memory_copies: int = 1
    replicated_reads: ArrayLike = False
    write_bytes_per_s: ArrayLike = recovery.STORAGE_WRITE_BYTES_PER_S
    read_bytes_per_s: ArrayLike = recovery.STORAGE_READ_BYTES_PER_S
    host_link_bytes_per_s: ArrayLike = recovery.HOST_LINK_BYTES_PER_S
    barrier_s: ArrayLike = recovery.BARRIER_S
    storage_duty_fraction: ArrayLike = 0.25
    persist_slowdown_fraction: ArrayLike = 0.0
    detection_s: ArrayLike = recovery.DETECTION_S
    restart_s: ArrayLike | None = None
    repair_s: ArrayLike = recovery.NODE_REPAIR_S
    silent_latency_s: ArrayLike = 0.0
    spares: ArrayLike | None = None
    spare_risk: float = 0.01
    when_short: WhenShort = "wait"
    planned_downtime_fraction: float = 0.0
    price_per_gpu_hour: float | None = None

    def __post_init__(self) -> None:
        for name, kinds in (("maturity", get_args(Maturity)), ("when_short", get_args(WhenShort))):
            if getattr(self, name) not in kinds:
                raise InputError(name, f"must be one of {', '.join(kinds)}", getattr(self, name))
        if float(real("planned_downtime_fraction", self.planned_downtime_fraction)) >= 1.0:
            raise InputError("planned_downtime_fraction", "must lie in [0, 1)", self.planned_downtime_fraction)
        real("memory_copies", self.memory_copies, minimum=1.0)
        if self.price_per_gpu_hour is not None:
            real("price", self.price_per_gpu_hour)


def log_sd_of_interval(lower_s: ArrayLike, upper_s: ArrayLike) -> NDArray[np.float64]:
    """Return the log standard deviation whose 90 % interval is as wide as [lower, upper].

    Examples
    --------
    >>> round(float(log_sd_of_interval(1.0, 1.2)), 4)
    0.0554
    """
    lower, upper = real("lower_s", lower_s, strict=True), real("upper_s", upper_s, strict=True)
    return np.maximum(np.log(upper / lower), 0.0) / (2.0 * _Z_95)
