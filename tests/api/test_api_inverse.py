"""Inverse questions with the packaged predictor: what is answered can be set, obeys every rule, and fits."""

from __future__ import annotations

from pathlib import Path

import pytest

from surrogate import api
from surrogate.feasibility.inverse import MAXIMUM_FIELDS, InverseAnswer, largest_that_fits, smallest_that_fits
from surrogate.plan import plans_to_frame

EXAMPLES = Path(__file__).parents[2] / "examples"
PLANS = ("llama3-70b-512-h100-tp8.yaml", "qwen3-30b-a3b-64-gb200.yaml", "llama2-7b-8-a100.yaml")


@pytest.fixture(scope="module")
def packaged():
    return api.load_predictor()


def check(packaged, name: str, answer: InverseAnswer) -> None:
    """Set what the answer says on the plan file: reading it checks the rules, predicting it the figures."""
    plan = plans_to_frame([api.read_plan(EXAMPLES / name, dict(answer.changes))])
    row = packaged.predict_frame(plan).iloc[0]
    assert row["oom_probability"] == pytest.approx(answer.oom_probability, abs=1e-4)
    assert row["oom_probability"] <= 0.05
    assert row["feasible"]


@pytest.mark.parametrize("field", MAXIMUM_FIELDS)
@pytest.mark.parametrize("name", PLANS)
def test_largest_values_can_be_set(packaged, name: str, field: str):
    answer = largest_that_fits(plans_to_frame([api.read_plan(EXAMPLES / name, {})]), field, packaged.predict_frame)
    assert answer.value is not None
    check(packaged, name, answer)
    assert answer.bounded_by_memory == (answer.limit == "memory") == (answer.next_value is not None)


@pytest.mark.parametrize("name", PLANS)
def test_fewest_accelerators_can_be_set(packaged, name: str):
    answer = smallest_that_fits(
        plans_to_frame([api.read_plan(EXAMPLES / name, {})]), "num_gpus", packaged.predict_frame
    )
    assert answer.value is not None
    check(packaged, name, answer)


def test_more_recomputation_never_lowers_the_largest_sequence(packaged):
    lengths = []
    for recompute in ("none", "full"):
        plan = plans_to_frame([api.read_plan(EXAMPLES / PLANS[0], {"recompute": recompute})])
        lengths.append(largest_that_fits(plan, "seq_len", packaged.predict_frame).value)
    assert lengths[0] < lengths[1]
