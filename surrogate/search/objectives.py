"""What a search makes small: each objective as an array to minimise, and a bound on it from a bound on step time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

import numpy as np
from numpy.typing import NDArray

from surrogate.analytic.model_parameters import model_parameters
from surrogate.analytic.workload import FloatArray, Workload
from surrogate.errors import InputError
from surrogate.features.workload import PreparedRuns
from surrogate.forecast import RunPolicy, TrainingPlans, expected_time_to_train
from surrogate.units import HOURS_PER_DAY, SECONDS_PER_DAY


class Objective(StrEnum):
    """What is optimised."""

    TOKENS_PER_S_PER_GPU = "tokens_per_s_per_gpu"
    STEP_TIME = "step_time"
    TIME_TO_TRAIN = "time_to_train"
    COST = "cost"
    HEADROOM = "headroom"
    """Share of the device's memory that stays free; only beside another objective."""


COLUMN_OF: Final[Mapping[Objective, str]] = {
    Objective.TOKENS_PER_S_PER_GPU: "tokens_per_s_per_gpu",
    Objective.STEP_TIME: "step_time_s",
    Objective.TIME_TO_TRAIN: "days",
    Objective.COST: "cost",
    Objective.HEADROOM: "memory_headroom_fraction",
}
"""The column of a result that shows each objective."""

IS_MAXIMISED: Final = frozenset({Objective.TOKENS_PER_S_PER_GPU, Objective.HEADROOM})
MAX_OBJECTIVES: Final = 3
_NEED_FORECAST: Final = frozenset({Objective.TIME_TO_TRAIN, Objective.COST})


@dataclass(frozen=True, kw_only=True, slots=True)
class Goal:
    """What is wanted.

    Parameters
    ----------
    objectives : tuple of Objective
        One, or two or three for a Pareto front.
    tokens : float, optional
        Tokens to train on; needed for time to train and cost.
    policy : RunPolicy
        How the run is operated; a price is needed for cost.
    is_robust : bool
        Rank by the pessimistic end of the 90 % interval of step time.

    Raises
    ------
    InputError
        If objectives repeat, are too many, or lack what they need.
    """

    objectives: tuple[Objective, ...] = (Objective.TOKENS_PER_S_PER_GPU,)
    tokens: float | None = None
    policy: RunPolicy = RunPolicy()
    is_robust: bool = False

    def __post_init__(self) -> None:
        names = ", ".join(self.objectives)
        if not 1 <= len(self.objectives) <= MAX_OBJECTIVES or len(set(self.objectives)) < len(self.objectives):
            raise InputError("--objective", f"must be one to {MAX_OBJECTIVES} different objectives", names)
        if self.objectives == (Objective.HEADROOM,):
            raise InputError("--objective", "must name more than headroom", names, "add tokens_per_s_per_gpu")
        if self.needs_forecast and self.tokens is None:
            raise InputError("--tokens", f"must be given for {names}", None, "e.g. --tokens 15e12")
        if Objective.COST in self.objectives and self.policy.price_per_gpu_hour is None:
            raise InputError("--price", "must be given for cost", None, "the price of one accelerator for one hour")

    @property
    def needs_forecast(self) -> bool:
        """Whether failures and checkpoints matter."""
        return bool(_NEED_FORECAST & set(self.objectives))

    @property
    def needs_memory(self) -> bool:
        """Whether memory is an objective beside being a constraint."""
        return Objective.HEADROOM in self.objectives

    @property
    def is_single(self) -> bool:
        """Whether there is one objective."""
        return len(self.objectives) == 1

    def losses(self, prepared: PreparedRuns, step_time_s: FloatArray, peak_bytes: FloatArray) -> FloatArray:
        """Return the objectives of n candidates, all to be made small, shape (n, objectives).

        Parameters
        ----------
        prepared : PreparedRuns
            n candidates.
        step_time_s, peak_bytes : ndarray, shape (n,)
            Their predictions.
        """
        forecast = self._forecast(prepared, step_time_s) if self.needs_forecast else {}
        return np.column_stack(
            [
                forecast[objective]
                if objective in forecast
                else _loss(objective, prepared.workload, step_time_s, peak_bytes)
                for objective in self.objectives
            ]
        )

    def lower_bounds(self, prepared: PreparedRuns, step_time_s: FloatArray, peak_bytes: FloatArray) -> FloatArray:
        """Return what `losses` cannot fall below when step times are at least `step_time_s`, shape (n, objectives).

        Goodput is at most 1 and spare nodes cost at least nothing.
        """
        w = prepared.workload
        columns = []
        for objective in self.objectives:
            if objective in _NEED_FORECAST:
                days = self._steps(w) * step_time_s / SECONDS_PER_DAY
                price = float(self.policy.price_per_gpu_hour or 0.0)
                columns.append(
                    days if objective is Objective.TIME_TO_TRAIN else days * HOURS_PER_DAY * w.num_gpus * price
                )
            else:
                columns.append(_loss(objective, w, step_time_s, peak_bytes))
        return np.column_stack(columns)

    def _steps(self, w: Workload) -> FloatArray:
        return np.asarray(float(self.tokens or 0.0) / (w.global_batch_size * w.seq_len))

    def _forecast(self, prepared: PreparedRuns, step_time_s: FloatArray) -> dict[Objective, FloatArray]:
        expected = expected_time_to_train(
            training_plans_of(prepared, step_time_s, float(self.tokens or 0.0)), self.policy
        )
        cost = expected.gpu_hours if expected.cost is None else expected.cost
        return {Objective.TIME_TO_TRAIN: expected.days, Objective.COST: cost}


def shown(objective: Objective, losses: FloatArray) -> FloatArray:
    """Return an objective's losses (shape (n,)) as users read them, and the other way round: its own inverse."""
    if objective is Objective.TOKENS_PER_S_PER_GPU:
        return 1.0 / losses
    return 1.0 - losses if objective is Objective.HEADROOM else losses


def training_plans_of(prepared: PreparedRuns, step_time_s: FloatArray, tokens: float) -> TrainingPlans:
    """Return candidates as the forecast takes them, without doubt about their step time."""
    w = prepared.workload
    names: NDArray[np.object_] = np.asarray(prepared.hardware.accelerator, dtype=object)
    return TrainingPlans(
        step_time_s=step_time_s,
        log_sd=0.0,
        tokens=tokens,
        tokens_per_step=w.global_batch_size * w.seq_len,
        num_gpus=w.num_gpus,
        gpus_per_node=np.minimum(w.gpus_per_node, w.num_gpus),
        accelerator=list(names),
        num_params=model_parameters(w).total,
        tp=w.tp,
        pp=w.pp,
        data_parallel=w.dp * w.cp,
        sharded=w.zero_stage > 0,
        node_bytes_per_s=w.network_bytes_per_s * w.gpus_per_node,
    )


def _loss(objective: Objective, w: Workload, step_time_s: FloatArray, peak_bytes: FloatArray) -> FloatArray:
    if objective is Objective.HEADROOM:
        return peak_bytes / w.hbm_bytes
    if objective is Objective.STEP_TIME:
        return step_time_s
    return step_time_s * w.num_gpus / (w.global_batch_size * w.seq_len)
