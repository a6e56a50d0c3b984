"""Plans and predictions joined."""

from __future__ import annotations

from dataclasses import replace

import pandas as pd
import pytest

from surrogate.errors import InputError
from surrogate.forecast import training_plans
from surrogate.plan import Plan, parse_plan

PLAN = {
    "model": "llama3-70b",
    "accelerator": "H100-80GB",
    "num_gpus": 512,
    "gpus_per_node": 8,
    "inter_node_gbps": 3200,
    "seq_len": 8192,
    "global_batch_size": 512,
    "tp": 4,
    "pp": 4,
    "cp": 2,
}


def _plan(**values: object) -> Plan:
    return parse_plan(PLAN | values, "plan")


def _predictions(*, step: float = 20.0, **columns: float) -> pd.DataFrame:
    limits = {"step_time_lower_s": step * 0.9, "step_time_upper_s": step * 1.1}
    return pd.DataFrame([{"step_time_s": step} | limits | columns])


def test_quantities_come_from_the_plan_and_the_prediction() -> None:
    joined = training_plans([_plan()], _predictions(), [1e12])
    assert joined.num_nodes.tolist() == [64]
    assert list(joined.data_parallel) == [512 / 16]
    assert list(joined.node_bytes_per_s) == [400e9]
    assert list(joined.num_params) == [pytest.approx(70.55e9, rel=1e-3)]
    assert joined.steps.tolist() == [-(-(10**12) // (512 * 8192))]


def test_predicted_size_wins_and_an_unknown_one_is_named() -> None:
    assert list(training_plans([_plan()], _predictions(num_params=71e9), [1e12]).num_params) == [71e9]
    plan = _plan()
    nameless = replace(plan, model=replace(plan.model, published_params=None))
    with pytest.raises(InputError, match="published_params"):
        training_plans([nameless], _predictions(), [1e12])


def test_an_unsaid_network_gets_the_default() -> None:
    plan = _plan()
    silent = replace(plan, cluster=replace(plan.cluster, inter_node_bytes_per_s=None))
    assert list(training_plans([silent], _predictions(), [1e12]).node_bytes_per_s) == [50e9]


def test_unsharded_optimizers_are_seen() -> None:
    assert not training_plans([_plan(zero_stage=0)], _predictions(), [1e12]).sharded[0]
    assert training_plans([_plan(zero_stage=1)], _predictions(), [1e12]).sharded[0]


def test_a_missing_prediction_is_named() -> None:
    with pytest.raises(InputError, match="must be predicted for plan"):
        training_plans([_plan()], _predictions(step=float("nan")), [1e12])
