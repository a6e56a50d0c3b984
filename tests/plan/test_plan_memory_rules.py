"""Combinations that no framework can place: the rule and the way out instead of a plan."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import pandas as pd
import pytest

from surrogate.analytic.memory import NO_RULE_BROKEN, first_broken_rule
from surrogate.errors import InputError
from surrogate.features import prepare_runs
from surrogate.plan import Plan, parse_plan, plans_to_frame, row_to_plan

RUNS = Path(__file__).parents[2] / "data" / "runs.parquet"
PLAN = {
    "num_layers": 32, "hidden_size": 4096, "num_heads": 32, "num_kv_heads": 8, "head_dim": 128, "vocab_size": 32000,
    "accelerator": "H100-80GB", "num_gpus": 64, "seq_len": 4096, "global_batch_size": 128, "micro_batch_size": 1,
    "framework": "megatron-lm", "tp": 2, "pp": 4, "zero_stage": 1,
}  # fmt: skip
TORCH = {"framework": "torchtitan"}


def build(**changes: object) -> Plan:
    return parse_plan({**PLAN, **changes}, "plan")


@pytest.mark.parametrize(
    ("changes", "field", "says"),
    [
        ({"recompute": "full", "recompute_layers": 9}, "recompute_layers", r"a pipeline stage \(32/4 = 8\), got 9"),
        ({"num_layers": 30, "recompute_layers": 9}, "recompute_layers", r"\(30/4 = 8\)"),
        ({"recompute_layers": 33, "pipeline_layout": "uneven"}, "recompute_layers", r"at most num_layers \(32\)"),
        ({"zero_stage": 2}, "zero_stage", "at most 1 under pipeline parallelism.*set zero_stage or pp to 1"),
        ({"zero_stage": 3}, "zero_stage", "got 3"),
        ({"zero_stage": 3, "framework": None}, "zero_stage", "unless FSDP"),
        ({"zero_stage": 2, "framework": "megatron-deepspeed"}, "zero_stage", "at most 1"),
        ({"zero_stage": 3, "framework": "torchtitan", "fsdp": "fsdp2", "pipeline_schedule": "zb-h1"},
         "zero_stage", "under zb-h1, which splits the backward pass.*1f1b"),
        ({"zero_stage": 2, "pipeline_schedule": "dualpipe", **TORCH}, "zero_stage", "under dualpipe"),
        ({"pp": 3, "num_gpus": 6, "pipeline_schedule": "dualpipe"}, "pp", "even under dualpipe"),
        ({"vp": 1, "pipeline_schedule": "interleaved-1f1b"}, "vp", "above 1"),
        ({"vp": 2, "pipeline_schedule": "1f1b"}, "vp", "must be 1 under 1f1b, got 2"),
        ({"num_heads": 36, "num_kv_heads": 12, "tp": 9, "num_gpus": 36},
         "tp", r"num_kv_heads \(12\).*1, 2, 3, 4, 6, 12"),
    ],
)  # fmt: skip
def test_impossible_combinations_name_rule_value_and_way_out(changes, field: str, says: str) -> None:
    with pytest.raises(InputError, match=says) as caught:
        build(**changes)
    assert caught.value.field == field
    assert caught.value.way_out


@pytest.mark.parametrize(
    "changes",
    [
        {"recompute": "full", "recompute_layers": 8},
        {"recompute_layers": 12, "pipeline_layout": "first stage 12 layers, the others fewer"},
        {"zero_stage": 3, **TORCH},
        {"zero_stage": 3, "framework": "nemo-automodel"},
        {"zero_stage": 3, "fsdp": "megatron-fsdp"},
        {"zero_stage": 3, "pp": 1},
        {"zero_stage": 1, "pipeline_schedule": "zb-v"},
        {"pipeline_schedule": "interleaved-1f1b"},
        {"vp": 4, "pipeline_schedule": "interleaved-1f1b"},
        {"tp": 16, "pp": 1},
    ],
)
def test_possible_combinations_pass(changes) -> None:
    build(**changes)


def test_every_measured_run_obeys_the_rules() -> None:
    """What ran cannot be impossible: 4,069 published runs, those that went out of memory included."""
    for row in pd.read_parquet(RUNS).to_dict("records"):
        row_to_plan(row)


def test_what_makes_a_plan_also_passes_the_rules_of_columns() -> None:
    """Tables and searches check completed columns (`first_broken_rule`), plans their own values: they must agree."""
    plans, refused = [], 0
    options = product((1, 2, 3, 8, 12), (1, 2, 3, 4), (0, 2, 3), (None, "1f1b", "zb-h1", "dualpipe"), (None, 9))
    for tp, pp, zero_stage, schedule, layers in options:
        layout = {"num_gpus": tp * pp * 4, "num_heads": 24, "tp": tp, "pp": pp, "zero_stage": zero_stage}
        settings = {"pipeline_schedule": schedule, "recompute": "full", "recompute_layers": layers, "fsdp": "fsdp2"}
        try:
            plans.append(build(**layout, **settings))
        except InputError:
            refused += 1
    assert len(plans) > 80
    assert refused > 80
    assert (first_broken_rule(prepare_runs(plans_to_frame(plans)).workload) == NO_RULE_BROKEN).all()
