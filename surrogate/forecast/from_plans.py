"""Plans and their step-time predictions as forecast inputs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import numpy as np

from surrogate.errors import InputError
from surrogate.forecast.inputs import TrainingPlans, log_sd_of_interval
from surrogate.reliability import recovery

if TYPE_CHECKING:
    import pandas as pd

    from surrogate.plan import Plan

_LIMITS: Final = ("step_time_lower_s", "step_time_upper_s")


def training_plans(plans: Sequence[Plan], predictions: pd.DataFrame, tokens: Sequence[float]) -> TrainingPlans:
    """Join plans, predictions and token counts.

    Parameters
    ----------
    plans : sequence of Plan
        Phases in order, or candidates.
    predictions : pandas.DataFrame
        One row per plan: ``step_time_s``, ``step_time_lower_s``, ``step_time_upper_s`` (90 %), and ``num_params``
        where the plan's model does not publish its size.
    tokens : sequence of float
        Tokens of each plan.

    Returns
    -------
    TrainingPlans

    Raises
    ------
    InputError
        When the numbers of plans and token counts differ, or a prediction is missing.
    """
    if len(tokens) != len(plans):
        way_out = "give --tokens once per plan, in the order of the plans"
        raise InputError("tokens", f"must be given for each of the {len(plans)} plans", len(tokens), way_out)
    columns = [predictions[name].to_numpy(dtype=np.float64) for name in ("step_time_s", *_LIMITS)]
    for plan, step in zip(plans, columns[0], strict=True):
        if not np.isfinite(step):
            raise InputError("step_time_s", f"must be predicted for {plan.name}", float(step))
    parallelism = [plan.parallelism for plan in plans]
    return TrainingPlans(
        step_time_s=columns[0],
        log_sd=log_sd_of_interval(columns[1], columns[2]),
        tokens=np.asarray(tokens, dtype=np.float64),
        tokens_per_step=np.array([plan.tokens_per_step for plan in plans], dtype=np.float64),
        num_gpus=np.array([plan.cluster.num_gpus for plan in plans], dtype=np.float64),
        gpus_per_node=np.array([plan.cluster.num_gpus / plan.num_nodes for plan in plans]),
        accelerator=[plan.cluster.accelerator for plan in plans],
        num_params=np.array([_num_params(plan, predictions, row) for row, plan in enumerate(plans)]),
        tp=np.array([spec.tp for spec in parallelism], dtype=np.float64),
        pp=np.array([spec.pp for spec in parallelism], dtype=np.float64),
        data_parallel=np.array([plan.dp * (plan.parallelism.cp or 1) for plan in plans], dtype=np.float64),
        sharded=np.array([spec.zero_stage is None or spec.zero_stage > 0 for spec in parallelism]),
        node_bytes_per_s=np.array([_node_bytes_per_s(plan) for plan in plans]),
    )


def _num_params(plan: Plan, predictions: pd.DataFrame, row: int) -> float:
    if "num_params" in predictions.columns and np.isfinite(value := float(predictions["num_params"].iloc[row])):
        return value
    if plan.model.published_params is None:
        raise InputError("published_params", f"must be known to size the checkpoints of {plan.name}", None)
    return float(plan.model.published_params)


def _node_bytes_per_s(plan: Plan) -> float:
    return plan.cluster.inter_node_bytes_per_s or recovery.NODE_NETWORK_BYTES_PER_S
