"""Plans from YAML, JSON and mappings: units, presets, open fields, and every oddity as one clear error."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from surrogate.errors import FileFormatError, InputError, UnknownNameError
from surrogate.plan import (
    PlanError,
    apply_overrides,
    load_partial_plan,
    load_plan,
    parse_overrides,
    parse_partial_plan,
    parse_plan,
)

EXAMPLE = """
model: llama3-70b
cluster: {accelerator: H100-80GB, num_gpus: 512, gpus_per_node: 8, inter_node_gbps: 3200}
training: {framework: megatron-lm, seq_len: 8192, global_batch_size: 512, micro_batch_size: 1, precision: bf16,
           recompute: none, flash_attention: true}
parallelism: {tp: 4, pp: 4, cp: 1, ep: 1, vp: 5, zero_stage: 1, sequence_parallel: true}
"""
FLAT = {
    "model": "llama3-8b", "accelerator": "H100", "num_gpus": 64, "tp": 2, "pp": 1, "seq_len": 8192,
    "global_batch_size": 128, "micro_batch_size": 1,
}  # fmt: skip


@pytest.fixture
def plan_file(tmp_path: Path) -> Path:
    path = tmp_path / "plan.yaml"
    path.write_text(EXAMPLE)
    return path


def test_example_of_the_documentation(plan_file: Path) -> None:
    plan = load_plan(plan_file)
    assert plan.name == "plan.yaml"
    assert (plan.model.num_layers, plan.model.num_kv_heads, plan.model.model_name) == (80, 8, "llama3-70b")
    assert plan.cluster.inter_node_bytes_per_s == 3200e9 / 8
    assert (plan.dp, plan.num_microbatches, plan.num_nodes) == (32, 16, 64)
    assert plan.tokens_per_step == 512 * 8192
    assert plan.training.recompute == "none"
    assert plan.parallelism.sequence_parallel is True
    assert plan.training.cuda_graphs is None


def test_json_and_flat_keys_give_the_same_plan(tmp_path: Path) -> None:
    sections = {
        "model": "llama3-8b",
        "cluster": {"accelerator": "H100", "num_gpus": 64},
        "parallelism": {"tp": 2, "pp": 1},
        "training": {"seq_len": 8192, "global_batch_size": 128, "micro_batch_size": 1},
    }
    (tmp_path / "a.json").write_text(json.dumps(sections))
    assert load_plan(tmp_path / "a.json") == parse_plan(FLAT, "a.json")


@pytest.mark.parametrize("given", [3200, "3200", 3.2e3, "3.2e3"])
def test_published_unit_is_converted(given: object) -> None:
    assert parse_plan({**FLAT, "inter_node_gbps": given}, "x").cluster.inter_node_bytes_per_s == 400e9


def test_both_names_of_one_quantity_are_refused() -> None:
    with pytest.raises(InputError, match="must be given once"):
        parse_plan({**FLAT, "inter_node_gbps": 3200, "inter_node_bytes_per_s": 4e11}, "x")


@pytest.mark.parametrize(
    ("column", "given", "meant"),
    [
        ("num_gpus", "64", 64),
        ("num_gpus", 64.0, 64),
        ("num_gpus", "6.4e1", 64),
        ("flash_attention", "yes", True),
        ("flash_attention", "off", False),
        ("recompute", False, "none"),
        ("cpu_offload", False, "none"),
        ("precision", "BFloat16", "bf16"),
        ("pipeline_schedule", "1F1B", "1f1b"),
        ("pipeline_schedule", "interleaved", "interleaved-1f1b"),
        ("framework_version", 2.1, "2.1"),
        ("recompute_modules", ["mlp", "core_attn"], "mlp;core_attn"),
        ("moe_capacity_factor", "1.25", 1.25),
    ],
)
def test_spellings_that_are_understood(column: str, given: object, meant: object) -> None:
    values = parse_partial_plan({**FLAT, column: given}, "x").values
    assert values[column] == meant
    assert type(values[column]) is type(meant)


@pytest.mark.parametrize(
    ("column", "given", "rule"),
    [
        ("tp", True, "must be a whole number"),
        ("tp", 2.5, "must be a whole number"),
        ("tp", "two", "must be a whole number"),
        ("tp", 0, "must be at least 1"),
        ("tp", -2, "must be at least 1"),
        ("tp", float("nan"), "must be a whole number"),
        ("num_gpus", 10**17, "must be at most 9007199254740992"),
        ("tp", [2], "must be a whole number"),
        ("num_gpus", float("inf"), "must be a whole number"),
        ("moe_capacity_factor", float("inf"), "must be a finite number"),
        ("moe_capacity_factor", True, "must be a finite number"),
        ("inter_node_gbps", "fast", "must be a finite number"),
        ("inter_node_gbps", -5, "must be above 0"),
        ("flash_attention", "maybe", "must be true or false"),
        ("flash_attention", 2, "must be true or false"),
        ("zero_stage", 4, "must be at most 3"),
        ("precision", "bf8", "must be one of fp32"),
        ("recompute", True, "must be one of none, selective, full"),
        ("pipeline_schedule", "dualpipev", "did you mean dualpipe"),
        ("framework", {"a": 1}, "must be text"),
        ("recompute_modules", [["mlp"]], "must be text"),
    ],
)
def test_value_that_cannot_be_names_its_column(column: str, given: object, rule: str) -> None:
    with pytest.raises(InputError, match=rule) as caught:
        parse_plan({**FLAT, column: given}, "x")
    assert caught.value.field in (column, "inter_node_bytes_per_s")


@pytest.mark.parametrize(
    ("key", "near"), [("tensor_paralel", ""), ("num_gpu", "num_gpus"), ("microbatch_size", "micro_batch_size")]
)
def test_unknown_key_lists_near_matches(key: str, near: str) -> None:
    with pytest.raises(InputError, match=f"must be a known key of a plan.*{near}"):
        parse_plan({**FLAT, key: 1}, "x")


def test_measured_columns_are_no_plan_keys() -> None:
    with pytest.raises(InputError, match="must be a known key"):
        parse_plan({**FLAT, "step_time_s": 1.0}, "x")


def test_all_missing_required_values_are_named_at_once_with_the_way_out() -> None:
    with pytest.raises(PlanError) as caught:
        parse_plan({"model": "llama3-8b", "accelerator": "H100"}, "mine.yaml")
    message = str(caught.value)
    assert message.startswith("mine.yaml: `seq_len, num_gpus, tp, pp, global_batch_size` must be given")
    assert "--set tp=..." in message
    assert "\n" not in message


def test_unknown_accelerator_and_model() -> None:
    with pytest.raises(InputError, match="did you mean H100-80GB"):
        parse_plan({**FLAT, "accelerator": "H100-82GB"}, "x")
    with pytest.raises(InputError, match="did you mean .*llama3-8b"):
        parse_plan({**FLAT, "model": "llama3-8c"}, "x")
    assert issubclass(UnknownNameError, InputError)


class TestModel:
    def test_spelled_out(self) -> None:
        model = {"num_layers": 4, "hidden_size": 512, "num_heads": 8, "vocab_size": 1000}
        plan = parse_plan({**FLAT, "model": model}, "x")
        assert (plan.model.num_layers, plan.model.head_dim, plan.model.model_name) == (4, None, None)

    def test_preset_with_changes_loses_name_and_published_count(self) -> None:
        model = parse_plan({**FLAT, "model": {"preset": "llama3-70b", "num_layers": 40}}, "x").model
        assert (model.num_layers, model.hidden_size, model.head_dim) == (40, 8192, 128)
        assert (model.model_name, model.published_params) == ("llama3-70b-modified", None)

    def test_widths_that_follow_by_default_follow_a_change(self) -> None:
        model = parse_plan({**FLAT, "model": {"preset": "llama2-7b", "num_heads": 64}}, "x").model
        assert (model.head_dim, model.num_kv_heads, model.attention) == (None, None, None)

    def test_naming_alone_changes_nothing(self) -> None:
        model = parse_plan({**FLAT, "model": {"preset": "llama3-8b", "model_name": "ours"}}, "x").model
        assert (model.model_name, model.published_params) == ("ours", 8.03e9)

    def test_flat_key_beside_a_preset_changes_it(self) -> None:
        assert parse_plan({**FLAT, "num_layers": 16}, "x").model.num_layers == 16

    @pytest.mark.parametrize(
        ("model", "rule"),
        [
            (3, "must be a name, a path or a mapping"),
            ({"preset": "llama3-8b", "hf_config": "x.json"}, "must have one base"),
            ({"preset": "llama3-8b", "layers": 3}, "must be a known key"),
            ({"preset": "llama3-8b", "num_layers": 0}, "must be at least 1"),
        ],
    )
    def test_bad_model(self, model: object, rule: str) -> None:
        with pytest.raises(InputError, match=rule):
            parse_plan({**FLAT, "model": model}, "x")

    def test_given_inside_and_outside(self) -> None:
        with pytest.raises(InputError, match="in `model` and outside"):
            parse_plan({**FLAT, "model": {"preset": "llama3-8b", "num_layers": 3}, "num_layers": 4}, "x")


class TestFiles:
    @pytest.mark.parametrize(
        ("content", "message"),
        [
            (b"", "got an empty file"),
            (b"  \n# only a comment\n", "must hold a mapping"),
            (b"- a\n- b\n", "must hold a mapping .*got list"),
            (b"just text", "must hold a mapping .*got str"),
            (b"\xff\xfe\x00\x80", "binary data"),
            (b"a\x00b: 1", "not well-formed YAML"),
            (b"a: [1, 2", "not well-formed YAML"),
            (b"tp: 1\ntp: 2\n", "key 'tp' is given twice in line 2"),
            (b"cluster: {num_gpus: 1, num_gpus: 2}", "key 'num_gpus' is given twice"),
            (b"date: 2024-13-45", "not well-formed YAML: month"),
            (b"a: " + b"[" * 600, "not well-formed YAML"),
            (b"a: !!python/object/apply:os.system [ls]", "not well-formed YAML"),
        ],
    )
    def test_bad_yaml(self, tmp_path: Path, content: bytes, message: str) -> None:
        path = tmp_path / "bad.yaml"
        path.write_bytes(content)
        with pytest.raises(FileFormatError, match=rf"bad\.yaml: .*{message}") as caught:
            load_plan(path)
        assert "\n" not in str(caught.value)

    @pytest.mark.parametrize(
        ("content", "message"), [('{"tp": 1, "tp": 2}', "'tp' is given twice"), ("{", "not well-formed JSON")]
    )
    def test_bad_json(self, tmp_path: Path, content: str, message: str) -> None:
        path = tmp_path / "bad.json"
        path.write_text(content)
        with pytest.raises(FileFormatError, match=message):
            load_plan(path)

    def test_missing_file_and_folder(self, tmp_path: Path) -> None:
        with pytest.raises(FileFormatError, match="No such file"):
            load_plan(tmp_path / "none.yaml")
        with pytest.raises(FileFormatError, match="cannot be read"):
            load_plan(tmp_path)

    def test_section_that_is_no_mapping_and_key_in_two_sections(self) -> None:
        with pytest.raises(InputError, match="`cluster` must be a mapping"):
            parse_plan({**FLAT, "cluster": "H100x8"}, "x")
        with pytest.raises(InputError, match="`tp` must be given once"):
            parse_plan({**FLAT, "parallelism": {"tp": 2}}, "x")

    def test_yaml_merge_keys_and_byte_order_mark(self, tmp_path: Path) -> None:
        path = tmp_path / "merge.yaml"
        path.write_text("\ufeff" + EXAMPLE + "notes: merged\n", encoding="utf-8")
        assert load_plan(path).notes == "merged"


class TestOverrides:
    def test_values_are_yaml_and_a_section_may_prefix_the_key(self) -> None:
        assert parse_overrides(["tp=8", "parallelism.pp=2", "model=llama3-8b", "vp="]) == {
            "tp": 8,
            "pp": 2,
            "model": "llama3-8b",
            "vp": None,
        }

    @pytest.mark.parametrize("bad", [["tp"], ["=3"], ["tp=1", "tp=2"]])
    def test_bad_assignment(self, bad: list[str]) -> None:
        with pytest.raises(InputError, match="--set"):
            parse_overrides(bad)

    def test_override_wins_and_dp_follows(self, plan_file: Path) -> None:
        plan = load_plan(plan_file, parse_overrides(["tp=8", "num_gpus=1024", "inter_node_gbps=1600"]))
        assert (plan.parallelism.tp, plan.dp, plan.parallelism.dp) == (8, 32, 32)
        assert plan.cluster.inter_node_bytes_per_s == 200e9

    def test_new_model_replaces_the_old_one_whole(self) -> None:
        flat = {**FLAT, "model": "mixtral-8x7b", "ep": 1}
        model = parse_plan(flat, "x", {"model": "llama3-8b"}).model
        assert (model.num_experts, model.moe_ffn_hidden_size, model.model_name) == (0, None, "llama3-8b")

    def test_size_override_modifies_the_model(self, plan_file: Path) -> None:
        model = load_plan(plan_file, {"num_layers": 40}).model
        assert (model.num_layers, model.model_name, model.published_params) == (40, "llama3-70b-modified", None)

    def test_a_modified_model_is_called_so_once(self) -> None:
        flat = {**FLAT, "model": {"preset": "llama3-8b", "num_layers": 16}}
        assert parse_plan(flat, "x", {"hidden_size": 2048}).model.model_name == "llama3-8b-modified"

    def test_unknown_accelerator_names_the_plan(self, plan_file: Path) -> None:
        with pytest.raises(PlanError, match=r"plan\.yaml: `accelerator` must be a known name"):
            load_plan(plan_file, {"accelerator": "H300"})

    def test_empty_value_opens_a_field(self, plan_file: Path) -> None:
        partial = load_partial_plan(plan_file, parse_overrides(["tp=", "vp="]))
        assert partial.missing_required == ("tp",)
        assert partial.open_among(("tp", "pp", "vp", "cuda_graphs")) == ("tp", "vp", "cuda_graphs")

    def test_apply_to_a_partial_plan(self, plan_file: Path) -> None:
        partial = apply_overrides(load_partial_plan(plan_file), ["tp=8", "accelerator=h200"])
        plan = partial.complete()
        assert (plan.parallelism.tp, plan.dp, plan.cluster.accelerator) == (8, 16, "H200-141GB")

    def test_partial_plan_is_completed_by_values(self) -> None:
        partial = parse_partial_plan({key: value for key, value in FLAT.items() if key not in ("tp", "pp")}, "x")
        assert partial.with_values({"tp": 2, "pp": 1}).complete() == parse_plan(FLAT, "x")
