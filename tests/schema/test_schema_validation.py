"""Every rule of the runs table, broken one at a time and all at once."""

from __future__ import annotations

import time

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from surrogate.errors import InputError, TableError
from surrogate.schema import check_runs, split_bad_rows, validate_runs


def problems_of(table):
    return [(problem.row, problem.column, problem.rule) for problem in check_runs(table).problems]


def test_valid_table_passes(make_table):
    runs = validate_runs(make_table())
    assert runs.loc[0, "dp"] == 8
    assert runs.loc[0, "step_time_s"] == 12.5


@pytest.mark.parametrize(
    ("change", "column", "rule"),
    [
        ({"num_layers": -1}, "num_layers", "at least 1"),
        ({"hidden_size": 0}, "hidden_size", "at least 1"),
        ({"seq_len": 8192.5}, "seq_len", "whole number"),
        ({"seq_len": "long"}, "seq_len", "must be a number"),
        ({"seq_len": None, "notes": "kept"}, "seq_len", "required"),
        ({"step_time_s": 0.0}, "step_time_s", "above 0"),
        ({"step_time_s": -2.0}, "step_time_s", "above 0"),
        ({"step_time_s": np.inf}, "step_time_s", "finite"),
        ({"mfu": 45.0}, "mfu", "not percent"),
        ({"precision": "bfloat"}, "precision", "one of"),
        ({"recompute": "some"}, "recompute", "none, selective, full"),
        ({"sequence_parallel": "maybe"}, "sequence_parallel", "true or false"),
        ({"zero_stage": 4}, "zero_stage", "at most 3"),
        ({"accelerator": "H10O-80GB"}, "accelerator", "did you mean H100-80GB"),
        ({"dp": 4}, "num_gpus", "equal tp*pp*cp*dp"),
        ({"dp": None, "num_gpus": 60}, "num_gpus", "multiple of tp*pp*cp"),
        ({"global_batch_size": 100}, "global_batch_size", "multiple of dp"),
        ({"global_batch_size": 136}, "global_batch_size", "multiple of dp*micro_batch_size"),
        ({"num_heads": 30, "num_kv_heads": 10}, "num_heads", "multiple of tp"),
        ({"num_kv_heads": 5}, "num_heads", "multiple of num_kv_heads"),
        ({"num_layers": 1, "pp": 4, "dp": 4}, "pp", "exceed num_layers"),
        ({"pp": 1, "dp": 16, "vp": 2}, "vp", "without a pipeline"),
        ({"ep": 64, "num_experts": 128}, "ep", "exceed dp*cp*tp"),
        ({"ep": 8, "num_experts": 4}, "ep", "exceed num_experts"),
        ({"moe_top_k": 9, "num_experts": 8}, "moe_top_k", "exceed num_experts"),
        ({"recompute_layers": 33}, "recompute_layers", "exceed num_layers"),
        ({"hsdp_shard": 3}, "hsdp_shard", "divide dp*cp"),
        ({"tokens_per_s_per_gpu": 1.3}, "step_time_s", "agree with tokens_per_s_per_gpu"),
        ({"samples_per_s": 0.0128}, "step_time_s", "agree with samples_per_s"),
        ({"status": "oom"}, "status", "ok where a time"),
        ({"status": "failed"}, "status", "one of ok, oom"),
    ],
)
def test_each_rule_names_column_and_rule(make_table, change, column, rule):
    found = problems_of(make_table(change))
    assert any(name == column and rule in text for _, name, text in found), found


def test_out_of_memory_without_a_time_is_fine(make_table):
    validate_runs(make_table({"status": "oom", "step_time_s": None}, {}))


def test_rates_that_agree_pass(make_table):
    # 128 sequences of 8192 tokens in 12.5 s on 64 GPUs: 1310.72 tokens/s per GPU, 10.24 sequences/s
    validate_runs(make_table({"tokens_per_s_per_gpu": 1311, "samples_per_s": 10.2}))


def test_all_bad_rows_are_listed_at_once(make_table):
    table = make_table({}, {"tp": 3}, {"mfu": 45.0}, {"run_id": "mine-1"}, {"accelerator": "abacus", "pp": 0})
    with pytest.raises(TableError) as caught:
        validate_runs(table, "mine.csv")
    message = str(caught.value)
    assert message.startswith("mine.csv: ")
    assert {problem.row for problem in caught.value.problems} == {1, 2, 3, 4, 5}
    assert "row 3 (mine-3): `mfu` must be at most 1 (a fraction, not percent), got 45" in message
    assert "row 2 (mine-2): `num_gpus` must equal tp*pp*cp*dp, got num_gpus=64, tp=3, pp=2, cp=NA, dp=8" in message
    assert [problem.row for problem in caught.value.problems] == sorted(p.row for p in caught.value.problems)


def test_duplicate_run_id_names_every_row(make_table):
    found = problems_of(make_table({"run_id": "x"}, {}, {"run_id": "x"}))
    assert found == [(1, "run_id", "must be unique in the table"), (3, "run_id", "must be unique in the table")]


def test_missing_required_columns_are_all_named(make_table):
    table = make_table().drop(columns=["tp", "seq_len"])
    assert [(column, row) for row, column, _ in problems_of(table)] == [("seq_len", 0), ("tp", 0)]


def test_misspelt_column_is_named_with_the_right_one(make_table):
    found = problems_of(make_table().rename(columns={"micro_batch_size": "micro_batchsize"}))
    assert found == [(0, "micro_batchsize", "is not a column of the runs table: did you mean `micro_batch_size`?")]


def test_misspelt_required_column_is_one_problem(make_table):
    assert len(problems_of(make_table().rename(columns={"global_batch_size": "global_batchsize"}))) == 1


def test_own_columns_are_kept(make_table):
    runs = validate_runs(make_table({"loss": 2.1, "owner": "me"}))
    assert runs[["loss", "owner"]].iloc[0].tolist() == [2.1, "me"]


def test_quantity_given_in_two_units_is_refused(make_table):
    with pytest.raises(InputError, match="given once"):
        validate_runs(make_table({"peak_memory_gb": 40.0, "peak_memory_bytes": 4e10}))


def test_bad_value_in_published_units_is_shown_as_written(make_table):
    (problem,) = check_runs(make_table({"peak_memory_gb": -40})).problems
    assert (problem.column, problem.value) == ("peak_memory_gb", "-40")


def test_rows_without_run_id_are_numbered(make_table):
    runs = validate_runs(make_table({}, {}).drop(columns="run_id"))
    assert runs["run_id"].tolist() == ["row-1", "row-2"]


def test_the_argument_is_not_changed(make_table):
    table = make_table({"inter_node_gbps": 400.0})
    before = table.copy()
    validate_runs(table)
    pd.testing.assert_frame_equal(table, before)


def test_split_keeps_places(make_table):
    good, problems = split_bad_rows(make_table({}, {"tp": 3}, {}, {"seq_len": "x"}))
    assert good.index.tolist() == [0, 2]
    assert {problem.row for problem in problems} == {2, 4}


def test_split_of_only_bad_rows_is_empty(make_table):
    good, problems = split_bad_rows(make_table({"tp": 3}))
    assert good.empty
    assert problems


def test_split_refuses_an_unusable_table(make_table):
    with pytest.raises(TableError, match="required column"):
        split_bad_rows(make_table().drop(columns="pp"))


def test_checked_runs_check_again_to_the_same(make_table):
    runs = validate_runs(make_table({"inter_node_gbps": 400.0, "sequence_parallel": True}))
    pd.testing.assert_frame_equal(validate_runs(runs), runs)


@settings(max_examples=25, deadline=None)
@given(st.permutations(range(4)))
def test_problems_follow_their_rows(order):
    changes = [{}, {"tp": 3}, {"mfu": 45.0}, {"precision": "bf8"}]
    base = {"num_layers": 4, "hidden_size": 64, "num_heads": 4, "seq_len": 64, "accelerator": "A100-80GB"}
    layout = {"num_gpus": 8, "global_batch_size": 16, "tp": 2, "pp": 1, "mfu": 0.4, "precision": "bf16"}
    table = pd.DataFrame([base | layout | change for change in changes])
    straight = {(p.row - 1, p.column) for p in check_runs(table).problems}
    shuffled = {(order[p.row - 1], p.column) for p in check_runs(table.iloc[list(order)]).problems}
    assert shuffled == straight


def test_text_and_numbers_read_alike(make_table):
    table = make_table({}, {"mfu": 0.5}, {"tp": 3}, {"step_time_s": -1.0})
    as_text = table.astype("str").where(table.notna())
    assert problems_of(as_text) == problems_of(table)
    pd.testing.assert_frame_equal(check_runs(as_text).good, check_runs(table).good)


def test_a_hundred_thousand_rows_take_less_than_two_seconds(make_table):
    table = make_table().loc[np.zeros(100_000, dtype=int)].reset_index(drop=True)
    table["run_id"] = [f"r{place}" for place in range(len(table))]
    start = time.process_time()
    validate_runs(table)
    assert time.process_time() - start < 2.0
