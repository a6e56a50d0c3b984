"""Rules within and between the parts of a plan; the schema and the specs name the same columns."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import get_args, get_type_hints

import pytest

from surrogate.errors import InputError
from surrogate.plan import (
    PLAN_COLUMNS,
    ClusterSpec,
    ModelSpec,
    ParallelismSpec,
    Plan,
    TrainingSpec,
    parse_plan,
)
from surrogate.schema import COLUMN_BY_NAME, REQUIRED_COLUMNS, Kind

SPECS = (ModelSpec, ClusterSpec, ParallelismSpec, TrainingSpec)
TYPE_OF_KIND = {Kind.INTEGER: int, Kind.FLOAT: float, Kind.FLAG: bool, Kind.TEXT: str}

DENSE = Plan(
    name="dense",
    model=ModelSpec(num_layers=32, hidden_size=4096, num_heads=32, num_kv_heads=8),
    cluster=ClusterSpec(accelerator="H100-80GB", num_gpus=64, gpus_per_node=8),
    parallelism=ParallelismSpec(tp=2, pp=4, cp=1),
    training=TrainingSpec(seq_len=8192, global_batch_size=128, micro_batch_size=1),
)
EXPERTS = replace(DENSE, model=replace(DENSE.model, num_experts=16, moe_top_k=2, moe_ffn_hidden_size=1024))


@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: spec.__name__)
def test_spec_has_the_types_of_the_schema(spec: type) -> None:
    hints = get_type_hints(spec)
    for field in fields(spec):
        types = get_args(hints[field.name]) or (hints[field.name],)
        assert TYPE_OF_KIND[COLUMN_BY_NAME[field.name].kind] in types


def test_specs_hold_every_configuration_column_of_the_schema() -> None:
    from surrogate.schema.columns import ARCHITECTURE, HARDWARE, LAYOUT, SETTINGS

    configuration = {column.name for column in (*ARCHITECTURE, *HARDWARE, *LAYOUT, *SETTINGS)}
    not_in_a_plan = {"arch_caveat", "cluster", "network_confidence"}
    assert configuration - not_in_a_plan <= set(PLAN_COLUMNS)
    assert set(REQUIRED_COLUMNS) <= set(PLAN_COLUMNS)


def test_derived_properties() -> None:
    assert (DENSE.dp, DENSE.num_microbatches, DENSE.num_nodes) == (8, 16, 8)
    assert replace(DENSE, training=replace(DENSE.training, micro_batch_size=None)).num_microbatches is None
    assert replace(DENSE, cluster=ClusterSpec(accelerator="GB200", num_gpus=64)).num_nodes == 16


@pytest.mark.parametrize(
    ("changes", "field", "rule"),
    [
        ({"num_layers": 0}, "num_layers", "at least 1"),
        ({"num_layers": 2.0}, "num_layers", "whole number"),
        ({"num_layers": True}, "num_layers", "whole number"),
        ({"hidden_size": 4100}, "hidden_size", "divisible by num_heads"),
        ({"num_kv_heads": 5}, "num_kv_heads", "must divide num_heads"),
        ({"moe_top_k": 2}, "moe_top_k", "at most num_experts"),
        ({"num_experts": 8}, "moe_top_k", "at least 1"),
        ({"num_dense_layers": 40}, "num_dense_layers", "at most num_layers"),
        ({"attention": "linear"}, "attention", "must be one of"),
        ({"windowed_layers_fraction": 1.5}, "windowed_layers_fraction", "at most 1"),
    ],
)
def test_model_rules(changes: dict[str, object], field: str, rule: str) -> None:
    with pytest.raises(InputError, match=rule) as caught:
        replace(DENSE.model, **changes)
    assert caught.value.field == field


def test_latent_attention_has_no_rule_on_key_value_heads() -> None:
    assert ModelSpec(num_layers=4, hidden_size=512, num_heads=8, num_kv_heads=3, attention="mla").num_kv_heads == 3


def test_head_dim_frees_the_hidden_size() -> None:
    assert ModelSpec(num_layers=4, hidden_size=2880, num_heads=64, head_dim=64).head_dim == 64


@pytest.mark.parametrize(
    ("section", "changes", "field", "rule"),
    [
        ("cluster", {"num_gpus": 60}, "num_gpus", r"multiple of tp\*pp\*cp = 2\*4\*1 = 8.*e\.g\. 56"),
        ("cluster", {"num_gpus": 72, "gpus_per_node": 16}, "num_gpus", "must fill nodes"),
        ("parallelism", {"dp": 3}, "dp", r"tp\*pp\*cp\*dp = num_gpus.*use 8"),
        ("parallelism", {"tp": 64, "pp": 1}, "tp", "must divide num_heads"),
        ("parallelism", {"pp": 64, "tp": 1}, "pp", "exceeds the 32 layers"),
        ("parallelism", {"vp": 9}, "pp", r"pp\*vp = 36"),
        ("parallelism", {"ep": 2}, "ep", "without experts"),
        ("parallelism", {"expert_tp": 2}, "expert_tp", "without experts"),
        ("parallelism", {"hsdp_shard": 3}, "hsdp_shard", r"must divide dp\*cp = 8"),
        ("training", {"global_batch_size": 100}, "global_batch_size", "nearest is 96"),
        ("training", {"global_batch_size": 100, "micro_batch_size": None}, "global_batch_size", "nearest is 96"),
        ("training", {"recompute_layers": 33}, "recompute_layers", "at most num_layers"),
        ("training", {"precision": "int8"}, None, None),
        ("parallelism", {"cp": 8, "tp": 1, "pp": 1}, None, None),
    ],
)
def test_consistency_rules(section: str, changes: dict[str, object], field: str | None, rule: str | None) -> None:
    part = replace(getattr(DENSE, section), **changes)
    if field is None:
        replace(DENSE, **{section: part})
        return
    with pytest.raises(InputError, match=rule) as caught:
        replace(DENSE, **{section: part})
    assert caught.value.field == field


@pytest.mark.parametrize(
    ("changes", "rule"),
    [({"ep": 3}, "must divide num_experts.*1, 2, 4, 8, 16"), ({"ep": 16, "expert_tp": 2}, "must divide the 16 ranks")],
)
def test_expert_rules(changes: dict[str, int], rule: str) -> None:
    with pytest.raises(InputError, match=rule):
        replace(EXPERTS, parallelism=replace(DENSE.parallelism, **changes))
    assert replace(EXPERTS, parallelism=replace(DENSE.parallelism, ep=16)).parallelism.ep == 16


def test_sequence_rules() -> None:
    parallelism = replace(DENSE.parallelism, cp=8, pp=1, sequence_parallel=True)
    for seq_len, fits in ((8192, True), (8200, False), (8208, True)):
        training = replace(DENSE.training, seq_len=seq_len)
        if fits:
            replace(DENSE, parallelism=parallelism, training=training)
        else:
            with pytest.raises(InputError, match=r"multiple of cp\*tp under sequence parallelism = 16"):
                replace(DENSE, parallelism=parallelism, training=training)


def test_key_value_heads_may_be_fewer_than_ranks() -> None:
    wide = replace(DENSE.parallelism, tp=16, pp=1)
    assert replace(DENSE, parallelism=wide).dp == 4
    model = replace(DENSE.model, num_heads=24, num_kv_heads=4, head_dim=128)
    cluster = ClusterSpec(accelerator="H100", num_gpus=96)
    with pytest.raises(InputError, match="num_kv_heads"):
        replace(DENSE, model=model, cluster=cluster, parallelism=replace(wide, tp=6))


def test_virtual_stages_need_a_pipeline() -> None:
    with pytest.raises(InputError, match="must be 1 without pipeline"):
        ParallelismSpec(tp=1, pp=1, vp=2)


def test_micro_batch_fits_into_the_global_batch() -> None:
    with pytest.raises(InputError, match="at most global_batch_size"):
        TrainingSpec(seq_len=128, global_batch_size=4, micro_batch_size=8)


def test_precision_must_exist_on_the_accelerator() -> None:
    flat = {"model": "llama3-8b", "accelerator": "TPUv5p", "num_gpus": 4, "tp": 1, "pp": 1, "seq_len": 2048}
    with pytest.raises(InputError, match="published are bf16, int8"):
        parse_plan({**flat, "global_batch_size": 4, "precision": "fp16"}, "x")


def test_specs_are_frozen() -> None:
    with pytest.raises(AttributeError):
        DENSE.model.num_layers = 3
