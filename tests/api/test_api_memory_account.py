"""Memory item by item and stage by stage, and the nearest layouts when a plan does not fit."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import pytest

from surrogate import api
from surrogate.analytic.memory import MemoryBreakdown
from surrogate.api.memory_account import GROUPS, account_for_memory
from surrogate.plan import plans_to_frame

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture(scope="module")
def packaged():
    return api.load_predictor()


def frame(name, **changes):
    return plans_to_frame([api.read_plan(EXAMPLES / name, changes)])


def account(predictor, name, **changes):
    return account_for_memory(frame(name, **changes), predictor)


def test_groups_hold_every_item_once():
    items = [name for names in GROUPS.values() for name in names]
    expected = [field.name for field in fields(MemoryBreakdown) if field.name not in ("stage", "host_bytes")]
    assert sorted(items) == sorted(expected)


def test_a_plan_that_fits_has_room_and_no_other_layouts(packaged):
    memory = account(packaged, "llama2-7b-8-a100.yaml")
    assert memory.fits
    assert memory.head_room_bytes > 0
    assert not memory.nearest_layouts
    assert memory.num_stages == len(memory.stages) == 1


def test_a_plan_that_does_not_fit_names_layouts_that_do(packaged):
    memory = account(packaged, "llama3-70b-512-h100.yaml", micro_batch_size=2, cp=1)
    assert not memory.fits
    assert memory.head_room_bytes < 0
    assert memory.nearest_layouts
    assert all(layout.oom_probability <= 0.05 for layout in memory.nearest_layouts)
    assert [item.bytes for item in memory.items] == sorted((item.bytes for item in memory.items), reverse=True)


def test_figures_agree_with_the_prediction(packaged):
    plan = frame("llama3-70b-512-h100.yaml")
    memory, row = account_for_memory(plan, packaged), packaged.predict_frame(plan).iloc[0]
    assert memory.peak_bytes == row["peak_memory_bytes"]
    assert (memory.peak_lower_bytes, memory.peak_upper_bytes) == (
        row["peak_memory_lower_bytes"],
        row["peak_memory_upper_bytes"],
    )
    assert memory.oom_probability == row["oom_probability"]
    assert memory.peak_lower_bytes < memory.peak_bytes < memory.peak_upper_bytes
    assert sum(memory.groups.values()) == pytest.approx(memory.device_bytes)
    assert memory.usable_bytes - memory.device_bytes == pytest.approx(memory.head_room_bytes)


@pytest.mark.parametrize("changes", [{}, {"vp": 1}, {"pp": 8, "tp": 2}, {"pp": 16, "vp": 1, "tp": 1}])
def test_stages_hold_the_whole_model_and_none_is_worse_than_the_worst(packaged, changes):
    memory = account(packaged, "llama3-70b-512-h100.yaml", **changes)
    assert len(memory.stages) == memory.num_stages
    assert sum(stage.layers for stage in memory.stages) == 80
    worst = memory.stages[memory.worst_stage]
    assert worst.device_bytes == max(stage.device_bytes for stage in memory.stages)
    assert worst.device_bytes == pytest.approx(memory.device_bytes)
    for stage in memory.stages:
        assert sum(stage.items.values()) == pytest.approx(stage.device_bytes)
        assert (stage.items["logits_bytes"] > 0) == (stage.stage == memory.num_stages - 1)


def test_plain_1f1b_holds_one_micro_batch_less_per_stage(packaged):
    memory = account(packaged, "llama3-70b-512-h100.yaml", vp=1, pipeline_schedule="1f1b")
    assert [stage.microbatches_in_flight for stage in memory.stages] == [4, 3, 2, 1]


def test_stages_are_left_out_where_nobody_asks(packaged):
    memory = account_for_memory(frame("llama3-70b-512-h100.yaml"), packaged, with_stages=False)
    assert memory.stages == []
    assert memory.num_stages == 4


@pytest.mark.parametrize("changes", [{"micro_batch_size": 2}, {"pp": 2, "vp": 5}])
def test_a_named_layout_set_on_the_plan_is_what_was_promised(packaged, changes):
    """Whoever sets the changes gets a plan that obeys every rule and exactly the figures of the table."""
    memory = account(packaged, "llama3-70b-512-h100.yaml", **changes)
    assert memory.nearest_layouts
    for layout in memory.nearest_layouts:
        recipe = {**changes, **layout.changes, **layout.consequences}
        row = packaged.predict_frame(frame("llama3-70b-512-h100.yaml", **recipe)).iloc[0]
        assert row["step_time_s"] == pytest.approx(layout.step_time_s, rel=1e-4)
        assert row["peak_memory_bytes"] == pytest.approx(layout.peak_memory_bytes, rel=1e-4)
        assert row["oom_probability"] == pytest.approx(layout.oom_probability, abs=1e-4)
        assert row["feasible"]
