"""Plans and launch configurations told apart."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from surrogate.api import read_plan, read_plans
from surrogate.errors import FileFormatError, InputError

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("*.yaml"))


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_the_examples_are_plans(path: Path):
    assert read_plan(path).name == path.name


def test_plans_of_one_name_are_told_apart(plan_file: Path, tmp_path: Path):
    other = tmp_path / "other" / plan_file.name
    other.parent.mkdir()
    other.write_text(plan_file.read_text())
    assert [plan.name for plan in read_plans([plan_file, other])] == [str(plan_file), str(other)]
    assert [plan.name for plan in read_plans([plan_file])] == ["plan.yaml"]


def test_a_deepspeed_configuration_asks_for_what_it_lacks(tmp_path: Path):
    path = tmp_path / "ds.json"
    path.write_text(json.dumps({"train_batch_size": 64, "zero_optimization": {"stage": 3}, "bf16": {"enabled": True}}))
    with pytest.raises(InputError, match="num_layers") as caught:
        read_plan(path)
    assert len(str(caught.value).splitlines()) == 1
    plan = read_plan(
        path, {"model": "llama3-8b", "accelerator": "H100", "num_gpus": 8, "seq_len": 8192, "tp": 1, "pp": 1}
    )
    assert (plan.parallelism.zero_stage, plan.training.global_batch_size) == (3, 64)


def test_a_misspelt_plan_stays_a_plan(tmp_path: Path):
    path = tmp_path / "plan.yaml"
    path.write_text("model: llama3-8b\nclutser: {num_gpus: 8}\n")
    with pytest.raises(InputError, match="clutser"):
        read_plan(path)


@pytest.mark.parametrize(("name", "content"), [("empty.yaml", ""), ("list.yaml", "- 1"), ("binary.yaml", "\0\1")])
def test_files_that_are_neither(tmp_path: Path, name: str, content: str):
    (tmp_path / name).write_text(content)
    with pytest.raises(FileFormatError):
        read_plan(tmp_path / name)
    with pytest.raises(FileFormatError, match="no such file"):
        read_plan(tmp_path / "absent.yaml")
