"""Memory item by item, and the nearest layouts when a plan does not fit."""

from __future__ import annotations

from pathlib import Path

import pytest

from surrogate import api
from surrogate.api.explanation import account_for_memory
from surrogate.plan import plans_to_frame

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture(scope="module")
def predictor():
    return api.load_predictor()


def account(predictor, name, **changes):
    return account_for_memory(plans_to_frame([api.read_plan(EXAMPLES / name, changes)]), predictor)


def test_a_plan_that_fits_has_room_and_no_other_layouts(predictor):
    memory = account(predictor, "llama2-7b-8-a100.yaml")
    assert memory.head_room_bytes > 0
    assert not memory.nearest_layouts


def test_a_plan_that_does_not_fit_names_layouts_that_do(predictor):
    memory = account(predictor, "llama3-70b-512-h100.yaml", micro_batch_size=2, cp=1)
    assert memory.head_room_bytes < 0
    assert memory.nearest_layouts
    assert all(layout.oom_probability <= 0.05 for layout in memory.nearest_layouts)
    assert [item.bytes for item in memory.items] == sorted((item.bytes for item in memory.items), reverse=True)
