"""What is enumerated exists, and what exists is enumerated."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import numpy as np
import pytest

from surrogate.analytic.memory import NO_RULE_BROKEN, first_broken_rule
from surrogate.errors import InputError, UnknownNameError
from surrogate.features.workload import prepare_runs
from surrogate.plan import row_to_plan
from surrogate.search.domains import LAYOUT_COLUMNS, divisors
from surrogate.search.enumeration import (
    block_length,
    candidate_blocks,
    count_candidates,
    require_candidates,
)
from surrogate.search.evaluation import join, take
from surrogate.search.preparation import candidate_frame
from surrogate.search.rules import RULES
from surrogate.search.space import Conditions, build_space, meets


def all_codes(space):  # type: ignore[no-untyped-def]
    return join(list(candidate_blocks(space)))


@pytest.mark.parametrize("name", ["small_space", "moe_space"])
def test_every_candidate_is_a_plan_that_predict_would_take(name: str, request: pytest.FixtureRequest) -> None:
    space = request.getfixturevalue(name)
    codes = all_codes(space)
    rows = np.random.default_rng(0).choice(block_length(codes), 300, replace=False)
    frame = candidate_frame(space, take(codes, rows))
    for row in frame.to_dict("records"):
        row_to_plan(row)
    assert (first_broken_rule(prepare_runs(frame).workload) == NO_RULE_BROKEN).all()


def test_enumeration_is_the_filtered_product(make_plan, small_plan) -> None:  # type: ignore[no-untyped-def]
    plan = {**small_plan, "num_gpus": 8, "num_layers": 6, "num_heads": 8, "hidden_size": 1024, "global_batch_size": 8}
    space = build_space(make_plan(plan))
    names = list(space.domains)
    whole = np.array(list(product(*(range(len(domain)) for domain in space.domains.values()))), dtype=np.int16)
    codes = dict(zip(names, whole.T, strict=True))
    columns = space.columns(codes)
    kept = np.ones(len(whole), dtype=bool)
    for rule in space.rules:
        kept &= meets(rule, columns, len(whole))
    expected = {tuple(row) for row in whole[kept].tolist()}
    got = np.column_stack([all_codes(space)[name] for name in names]).tolist()
    assert {tuple(row) for row in got} == expected
    assert len(got) == len(expected) > 50


def test_blocks_are_bounded_and_ordered(moe_space) -> None:  # type: ignore[no-untyped-def]
    blocks = list(candidate_blocks(moe_space, rows=1000))
    assert max(map(block_length, blocks)) <= 1000
    whole = np.column_stack([join(blocks)[name] for name in moe_space.domains])
    assert (np.lexsort(whole.T[::-1]) == np.arange(len(whole))).all()
    assert len(np.unique(whole, axis=0)) == len(whole)
    assert count_candidates(moe_space) == len(whole)
    assert count_candidates(moe_space, at_most=10) > 10


def test_layouts_are_completed_to_all_their_settings(small_space) -> None:  # type: ignore[no-untyped-def]
    layouts = join(list(candidate_blocks(small_space, columns=LAYOUT_COLUMNS)))
    completed = sum(map(block_length, candidate_blocks(small_space, start=layouts)))
    assert completed == count_candidates(small_space)


@pytest.mark.parametrize(
    ("num_layers", "there", "not_there"),
    [
        pytest.param(
            61, {(16, 1), (2, 1), (4, 1)}, {(16, 4), (4, 4), (2, 3), (32, 1)}, id="DeepSeek-V3: 3 of 64 missing"
        ),
        pytest.param(126, {(16, 8), (16, 4), (2, 21)}, {(8, 6), (4, 5)}, id="Llama 3 405B: 126 + 2 in 16 x 8 chunks"),
        pytest.param(32, {(4, 8), (4, 2), (8, 4)}, {(4, 3), (4, 16), (8, 8)}, id="even"),
    ],
)
def test_uneven_splits_are_those_frameworks_take(make_plan, small_plan, num_layers, there, not_there) -> None:  # type: ignore[no-untyped-def]
    """Embedding and loss may take a place each; without chunks the first and last stage may be shorter."""
    plan = {**small_plan, "num_layers": num_layers, "num_gpus": 64, "global_batch_size": 1024, "tp": 1}
    space = build_space(make_plan(plan))
    frame = candidate_frame(space, all_codes(space))
    split = set(zip(frame["pp"].astype(int), frame["vp"].astype(int), strict=True))
    assert there <= split
    assert not not_there & split


def test_plans_keep_what_they_fix(make_plan, small_plan) -> None:  # type: ignore[no-untyped-def]
    space = build_space(make_plan({**small_plan, "tp": 4, "recompute": "selective", "micro_batch_size": 2}))
    frame = candidate_frame(space, all_codes(space))
    assert (
        set(frame["tp"]) == {4} and set(frame["recompute"]) == {"selective"} and set(frame["micro_batch_size"]) == {2}
    )
    assert "tp" not in space.open_columns and "pp" in space.open_columns


def test_given_values_are_searched_on_request(make_plan, small_plan) -> None:  # type: ignore[no-untyped-def]
    vary = {"num_gpus": (8, 16), "accelerator": ("A100-80GB", "H100-80GB"), "global_batch_size": (32, 64)}
    space = build_space(make_plan(small_plan), vary=vary)
    frame = candidate_frame(space, all_codes(space))
    assert set(frame["num_gpus"]) == {8, 16} and set(frame["global_batch_size"]) == {32, 64}
    assert set(frame["accelerator"]) == {"A100-80GB", "H100-80GB"}


def test_fp8_is_only_offered_where_it_is_faster(make_plan, gpt_7b) -> None:  # type: ignore[no-untyped-def]
    assert build_space(make_plan(gpt_7b)).domains["precision"].values == ("bf16",)
    assert build_space(make_plan({**gpt_7b, "accelerator": "H100"})).domains["precision"].values == ("bf16", "fp8")
    assert build_space(make_plan({**gpt_7b, "accelerator": "V100"})).domains["precision"].values == ("fp16",)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"tp": 16, "num_heads": 12, "hidden_size": 1536}, "`tp` must divide num_heads"),
        ({"tp": 8, "pp": 4}, "num_gpus"),
        ({"pp": 1, "vp": 2}, "`vp` must be 1 without pipeline parallelism"),
        ({"ep": 2}, "`ep` must be 1 for a model without experts"),
        ({"pp": 2, "zero_stage": 3}, "`zero_stage` must be at most 1"),
        ({"tp": 2, "pp": 2, "dp": 8}, "`dp` must make"),
        ({"recompute": "none", "recompute_layers": 4}, None),
        ({"pp": 2, "recompute": "full", "recompute_layers": 17}, "`recompute_layers` must be at most the layers of a"),
    ],
)
def test_contradictions_are_named(make_plan, small_plan, changes, words) -> None:  # type: ignore[no-untyped-def]
    plan = make_plan({**small_plan, **changes})
    if words is None:
        build_space(plan)
        return
    with pytest.raises(InputError, match=words):
        build_space(plan)


def test_missing_sizes_are_named_at_once(make_plan) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(InputError, match="num_gpus, global_batch_size"):
        build_space(make_plan({"model": "llama3-8b", "accelerator": "H100", "seq_len": 4096}))


def test_an_empty_space_blames_a_rule(make_plan, small_plan) -> None:  # type: ignore[no-untyped-def]
    space = build_space(make_plan(small_plan), conditions=Conditions(require=("tp > 100",)))
    with pytest.raises(InputError, match=r"`tp` must meet tp > 100, got .no layout that does.: loosen --require"):
        require_candidates(space)
    odd = build_space(make_plan({**small_plan, "global_batch_size": 7, "tp": 1, "num_layers": 3}))
    with pytest.raises(InputError, match="global_batch_size"):
        require_candidates(odd)


@pytest.mark.parametrize(
    ("conditions", "words"),
    [
        (Conditions(require=("tp <",)), "`--require` must be a condition"),
        (Conditions(forbid=("tpp > 2",)), "`--forbid` must be a known name"),
        (Conditions(forbid=("tp ** 2 > 4",)), "`--forbid` may use"),
    ],
)
def test_a_condition_that_cannot_be_read_is_named_by_its_option(make_plan, small_plan, conditions, words) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(InputError, match=words):
        build_space(make_plan(small_plan), conditions=conditions)


def test_own_conditions_bind(make_plan, small_plan) -> None:  # type: ignore[no-untyped-def]
    conditions = Conditions(require=("tp <= 4", "dp >= 2"), forbid=("pp > 2 and recompute == 'full'",))
    space = build_space(make_plan(small_plan), conditions=conditions)
    frame = candidate_frame(space, all_codes(space))
    assert (frame["tp"] <= 4).all() and (frame["dp"] >= 2).all()
    assert not ((frame["pp"] > 2) & (frame["recompute"] == "full")).any()


def test_habits_yield_and_rules_do_not(make_plan, gpt_7b) -> None:  # type: ignore[no-untyped-def]
    usual = build_space(make_plan(gpt_7b))
    waived = build_space(make_plan(gpt_7b), conditions=Conditions(waive=("tp-in-fast-domain",)))
    assert candidate_frame(usual, all_codes(usual))["tp"].max() == 8
    assert candidate_frame(waived, all_codes(waived))["tp"].max() == 16
    fixed = build_space(make_plan({**gpt_7b, "tp": 16}))
    assert count_candidates(fixed) > 0
    with pytest.raises(InputError, match="habit"):
        build_space(make_plan(gpt_7b), conditions=Conditions(waive=("heads",)))
    with pytest.raises(UnknownNameError, match="tp-in-fast-domain"):
        build_space(make_plan(gpt_7b), conditions=Conditions(waive=("tp-in-fast-domian",)))


def test_equal_spaces_have_equal_digests(make_plan, small_plan) -> None:  # type: ignore[no-untyped-def]
    one, same = build_space(make_plan(small_plan)), build_space(make_plan(small_plan))
    assert one.digest == same.digest
    assert one.digest != build_space(make_plan({**small_plan, "seq_len": 2048})).digest
    assert one.digest != build_space(make_plan(small_plan), conditions=Conditions(require=("tp <= 4",))).digest


def test_rules_are_named_once_and_say_what_they_mean() -> None:
    names = [rule.name for rule in RULES]
    assert len(names) == len(set(names))
    assert all(rule.says for rule in RULES)


def test_divisors() -> None:
    assert divisors(12) == (1, 2, 3, 4, 6, 12)
    assert divisors(1) == (1,)
    assert divisors(49) == (1, 7, 49)


def test_the_manual_lists_every_rule() -> None:
    manual = (Path(__file__).parents[2] / "docs" / "search.md").read_text(encoding="utf-8")
    for rule in RULES:
        assert f"| `{rule.name}` | `{rule.requires}` | {'habit' if rule.is_habit else 'rule'} |" in manual
