"""What `surrogate predict` prints about memory: items, stages side by side, ways out."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from surrogate.api.memory_account import MemoryAccount, StageMemory
from surrogate.cli.memory_view import print_items, print_layouts, print_memory
from surrogate.cli.output import console
from surrogate.units import GIB

EXAMPLE = Path(__file__).parents[2] / "examples" / "llama3-70b-512-h100.yaml"


@pytest.fixture
def predict(run_cli, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("SURROGATE_MODEL_DIR")

    def run(*arguments: object) -> str:
        code, out, err = run_cli("predict", EXAMPLE, *arguments)
        assert code == 0, err
        return out

    return run


def printed(show, *arguments: object) -> str:
    screen = console()
    with screen.capture() as captured:
        show(screen, *arguments)
    return captured.get()


def stage(number: int, size_gib: float, *, layers: int = 10) -> StageMemory:
    size = size_gib * GIB
    items = {"weights_bytes": size / 2, "logits_bytes": size / 2}
    return StageMemory(
        stage=number, layers=layers, microbatches_in_flight=4.0 - number / 4, items=items, allocated_bytes=size,
        device_bytes=size,
    )  # fmt: skip


def account(stages: list[StageMemory], *, usable_gib: float = 80.0) -> MemoryAccount:
    worst = max(stages, key=lambda one: one.device_bytes)
    return MemoryAccount(
        worst_stage=worst.stage, num_stages=len(stages), peak_bytes=worst.allocated_bytes, peak_lower_bytes=1.0,
        peak_upper_bytes=2.0, device_bytes=worst.device_bytes, usable_bytes=usable_gib * GIB,
        head_room_bytes=usable_gib * GIB - worst.device_bytes, host_bytes=0.0, oom_probability=0.0,
        groups={"weights": worst.device_bytes, "logits": 0.0}, items=[], stages=stages, nearest_layouts=[],
    )  # fmt: skip


def test_plain_predict_shows_items_worst_stage_head_room_and_ways_out(predict):
    out = predict("--set", "micro_batch_size=2")
    for words in (
        "90 % between", "risk of running out", "where the memory goes", "stage 1 of 4", "activations", "gradients",
        "communication buffers", "too much", "nearest layouts that fit", "micro_batch_size=1",
    ):  # fmt: skip
        assert words in out
    assert "largest items" not in out


def test_a_plan_that_fits_shows_head_room_and_no_layouts(predict):
    out = predict("--set", "cp=2")
    assert "head-room" in out
    assert "nearest layouts" not in out


def test_explain_adds_what_to_attack_and_the_stages(predict):
    out = predict("--explain")
    for words in ("largest items", "what lowers it", "memory in GiB", "micro-batches in flight", "whole device"):
        assert words in out
    (item,) = json.loads(predict("--explain", "--json"))
    memory = item["explanation"]["memory"]
    assert len(memory["stages"]) == memory["num_stages"] == 4
    assert {"changes", "consequences", "step_time_ratio"} <= memory["nearest_layouts"][0].keys()


def test_plain_json_keeps_to_the_contract(predict):
    (item,) = json.loads(predict("--json"))
    assert "memory" not in item
    assert "explanation" not in item


def test_stages_that_are_alike_share_a_column():
    out = printed(print_items, account([stage(0, 60), *(stage(number, 40) for number in range(1, 7)), stage(7, 50)]))
    assert "stages 2-7" in out
    assert "worst" in out
    assert "more stages" not in out


def test_many_different_stages_are_sampled_with_the_worst_among_them():
    sizes = [60, 58, 56, 70, 52, 50, 48, 46, 44, 42]
    out = printed(print_items, account([stage(number, size) for number, size in enumerate(sizes)]))
    header = {int(number) for number in re.findall(r"stage (\d+)", out)}
    assert {1, 4, 10} <= header
    assert len(header) == 6
    assert "4 more stages take 44.0 GiB to 58.0 GiB" in out


def test_stages_with_more_layers_stand_apart():
    out = printed(print_items, account([stage(0, 50, layers=11), stage(1, 50), stage(2, 50)]))
    assert "stage 1" in out
    assert "stages 2-3" in out


def test_head_room_below_zero_is_said_as_too_much():
    assert "20.0 GiB too much" in printed(print_memory, account([stage(0, 100)]))
    assert "head-room 30.0 GiB" in printed(print_memory, account([stage(0, 50)]))


def test_no_way_out_names_the_search():
    assert "surrogate search" in printed(print_layouts, [])
