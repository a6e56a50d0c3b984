"""Impossible placements: the rule, the value and the way out instead of a number."""

from __future__ import annotations

import pytest

from surrogate.analytic.memory import NO_RULE_BROKEN, RULES, check_memory_rules, first_broken_rule
from surrogate.analytic.workload import Recompute, Schedule
from surrogate.errors import InputError

BROKEN = {
    "more stages than layers": ({"pp": 40.0}, "pp"),
    "chunks without a pipeline": ({"vp": 2.0}, "vp"),
    "more chunks than layers": ({"pp": 8.0, "vp": 8.0}, "vp"),
    "heads that tp does not divide": ({"tp": 3.0}, "num_heads"),
    "kv heads neither divided nor replicated": ({"tp": 16.0, "num_heads": 48.0, "num_kv_heads": 6.0}, "num_kv_heads"),
    "expert parallelism of a dense model": ({"ep": 8.0, "dp": 8.0}, "ep"),
    "experts that ep does not divide": ({"num_experts": 6.0, "ep": 4.0, "dp": 8.0}, "num_experts"),
    "expert groups beyond the ranks": ({"num_experts": 8.0, "ep": 8.0, "dp": 2.0}, "ep"),
    "recomputing more than the stage": (
        {"pp": 4.0, "recompute": int(Recompute.FULL), "recompute_layers": 9.0},
        "recompute_layers",
    ),
    "sharded gradients under a split backward": (
        {"pp": 4.0, "zero_stage": 2, "schedule": int(Schedule.ZB_H1)},
        "zero_stage",
    ),
    "odd dualpipe": ({"pp": 3.0, "schedule": int(Schedule.DUALPIPE)}, "pp"),
}


@pytest.mark.parametrize(("values", "field"), BROKEN.values(), ids=BROKEN)
def test_broken_rules_name_field_and_way_out(make_workload, values, field) -> None:
    w = make_workload(**values)
    with pytest.raises(InputError) as error:
        check_memory_rules(w)
    assert error.value.field == field
    assert str(getattr(w, field)[0].item()) in str(error.value)
    assert RULES[first_broken_rule(w)[0]].way_out in str(error.value)


def test_published_layouts_pass(make_workload) -> None:
    bloom = {"num_layers": 70.0, "pp": 72.0, "num_heads": 112.0, "num_kv_heads": 112.0, "tp": 4.0}
    replicated_heads = {"num_kv_heads": 8.0, "tp": 16.0}
    fully_sharded_pipeline = {"zero_stage": 3, "pp": 8.0}
    for values in ({}, bloom, replicated_heads, fully_sharded_pipeline):
        check_memory_rules(make_workload(**values))


def test_columns_get_one_answer_per_row(make_workload) -> None:
    first = first_broken_rule(make_workload(tp=[1.0, 3.0, 2.0], vp=[1.0, 1.0, 2.0]))
    assert first[0] == NO_RULE_BROKEN
    assert [RULES[index].field for index in first[1:]] == ["num_heads", "vp"]
