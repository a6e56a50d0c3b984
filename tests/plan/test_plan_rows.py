"""Plans and rows of the runs table are two spellings of the same thing."""

from __future__ import annotations

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from surrogate.catalog import load_accelerators, load_models
from surrogate.errors import InputError
from surrogate.plan import Plan, parse_plan, plan_to_row, plans_to_frame, row_to_plan
from surrogate.schema import COLUMN_BY_NAME, INPUT_COLUMNS


@st.composite
def plans(draw: st.DrawFn) -> Plan:
    model = draw(st.sampled_from(sorted(load_models())))
    preset = load_models()[model]
    tp = draw(st.sampled_from([n for n in (1, 2, 4, 8) if preset.num_heads % n == preset.num_kv_heads % n == 0]))
    pp, dp, micro, count = (draw(st.sampled_from([1, 2, 4])) for _ in range(4))
    values = {
        "model": model,
        "accelerator": draw(st.sampled_from(sorted(load_accelerators()))),
        "num_gpus": tp * pp * dp,
        "tp": tp,
        "pp": pp,
        "seq_len": draw(st.sampled_from([512, 2048, 8192])),
        "micro_batch_size": micro,
        "global_batch_size": dp * micro * count,
        "sequence_parallel": draw(st.booleans()),
        "zero_stage": draw(st.sampled_from([None, 0, 1, 2, 3] if pp == 1 else [None, 0, 1])),
        "inter_node_gbps": draw(st.sampled_from([None, 100, 3200])),
        "framework": draw(st.sampled_from([None, "megatron-lm", "torchtitan"])),
        "recompute": draw(st.sampled_from([None, "none", "selective", "full"])),
    }
    return parse_plan(values, draw(st.sampled_from(["a.yaml", "b"])))


@given(plans())
def test_row_and_back(plan: Plan) -> None:
    assert row_to_plan(plan_to_row(plan)) == plan


@settings(max_examples=25)
@given(st.lists(plans(), min_size=1, max_size=3))
def test_frame_has_schema_types_and_goes_back(many: list[Plan]) -> None:
    frame = plans_to_frame(many)
    assert list(frame["run_id"]) == [plan.name for plan in many]
    for column in frame:
        assert str(frame[column].dtype) == COLUMN_BY_NAME[column].kind.value
    assert [row_to_plan(row) for row in frame.to_dict("records")] == many


def test_row_holds_plan_columns_in_the_order_of_the_table() -> None:
    row = plan_to_row(row_to_plan(ROW))
    assert list(row) == [column for column in INPUT_COLUMNS if column in row]
    assert (row["run_id"], row["dp"], row["inter_node_bytes_per_s"]) == ("r-1", 4, 50e9)


ROW = {
    "run_id": "r-1", "num_layers": 4.0, "hidden_size": 512, "num_heads": 8, "seq_len": 128, "accelerator": "a100",
    "num_gpus": 8.0, "global_batch_size": 16, "tp": 2, "pp": 1, "inter_node_gbps": 400, "step_time_s": 1.5, "mfu": 0.4,
    "status": "ok", "precision": float("nan"), "recompute": None, "vp": pd.NA,
}  # fmt: skip


def test_measured_columns_and_missing_cells_are_left_out() -> None:
    plan = row_to_plan(ROW)
    assert (plan.training.precision, plan.training.recompute, plan.parallelism.vp) == (None, None, None)
    assert (plan.cluster.accelerator, plan.model.num_layers, plan.name) == ("A100-80GB", 4, "r-1")


def test_bad_row_names_itself() -> None:
    with pytest.raises(InputError, match=r"r-1: `tp` must be at least 1"):
        row_to_plan({**ROW, "tp": 0})
    with pytest.raises(InputError, match=r"`num_gpus` must be a multiple"):
        row_to_plan({**ROW, "tp": 3})
