"""`surrogate max` and `min`, with a predictor that knows only the textbook's memory."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pandas as pd
import pytest
import typer
from click.testing import Result
from scipy.special import ndtr
from typer.testing import CliRunner

import surrogate
from surrogate.analytic.memory import peak_memory
from surrogate.cli.inverse import largest, smallest
from surrogate.errors import UnknownNameError
from surrogate.features.workload import prepare_runs

RUNNER = CliRunner()
APP = typer.Typer()
APP.command("max")(largest)
APP.command("min")(smallest)

PLAN = """
model: llama2-13b
cluster: {accelerator: A100-80GB, num_gpus: 64, gpus_per_node: 8, inter_node_gbps: 1600}
training: {seq_len: 4096, global_batch_size: 256, micro_batch_size: 1, precision: bf16, flash_attention: true}
parallelism: {tp: 2, pp: 2, zero_stage: 1}
"""


class _Predictor:
    def predict_frame(self, frame: pd.DataFrame) -> pd.DataFrame:
        w = prepare_runs(frame).workload
        peak = peak_memory(w)
        risk = ndtr(np.log(peak.device_bytes / w.hbm_bytes) / 0.05)
        return pd.DataFrame(
            {"step_time_s": 640.0 / w.num_gpus, "peak_memory_bytes": peak.allocated_bytes, "oom_probability": risk}
        )


@pytest.fixture(autouse=True)
def _api(monkeypatch: pytest.MonkeyPatch) -> None:
    api = ModuleType("surrogate.api")
    api.load_predictor = lambda _model_dir=None: _Predictor()  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "surrogate.api", api)
    monkeypatch.setattr(surrogate, "api", api, raising=False)


@pytest.fixture
def plan(tmp_path: Path) -> Path:
    path = tmp_path / "plan.yaml"
    path.write_text(PLAN)
    return path


def _run(*arguments: object) -> Result:
    return RUNNER.invoke(APP, [str(argument) for argument in arguments])


@pytest.mark.parametrize("field", ["micro_batch_size", "seq_len", "model_layers"])
def test_max_says_the_value_its_risk_and_the_next(plan: Path, field: str) -> None:
    result = _run("max", plan, "--of", field, "--json")
    assert result.exit_code == 0, result.output
    answer = json.loads(result.output)
    assert answer["field"] == field
    assert answer["oom_probability"] <= answer["oom_risk"] == 0.05 < answer["next_oom_probability"]
    assert answer["value"] < answer["next_value"]
    text = _run("max", plan, "--of", field).output
    assert f"{field}: {answer['value']}" in text
    assert f"next: {answer['next_value']}" in text


def test_max_says_when_memory_sets_no_bound(plan: Path) -> None:
    assert "memory sets no bound" in _run("max", plan, "--of", "global_batch_size").output


def test_min_names_the_layout(plan: Path) -> None:
    answer = json.loads(_run("min", plan, "--json").output)
    assert answer["value"] == answer["changes"]["num_gpus"] < 64
    assert "tp" in answer["changes"]
    text = _run("min", plan).output
    assert f"set: num_gpus={answer['value']}, tp=" in text


def test_accepting_more_risk_and_overrides_change_the_answer(plan: Path) -> None:
    careful, bold, short = (
        json.loads(_run("max", plan, "--of", "micro_batch_size", "--json", *extra).output)["value"]
        for extra in ((), ("--oom-risk", "0.9"), ("--set", "seq_len=1024"))
    )
    assert careful <= bold
    assert careful < short


def test_nothing_fits_says_how_far_off_it_is_and_where_to_go(plan: Path) -> None:
    output = _run("max", plan, "--of", "seq_len", "--set", "model=llama3-405b").output
    assert "nothing fits at a risk of 5 %" in output
    assert "even 256 leaves a risk of 100.0 %" in output
    assert "nearest layouts" in output
    huge = ("--set", "model=llama3-405b", "--set", "zero_stage=0", "--set", "global_batch_size=32")
    fewest = _run("min", plan, *huge, "--set", "micro_batch_size=1", "--set", "num_gpus=8").output
    assert "num_gpus: nothing fits" in fewest
    assert "even 32 leaves" in fewest


def test_the_other_end_is_named(plan: Path) -> None:
    answer = _run("max", plan, "--of", "micro_batch_size", "--set", "global_batch_size=32").output
    assert "micro_batch_size: 2" in answer
    assert "no larger one divides the 2 sequences of a rank" in answer
    assert "4,096 times" in _run("max", plan, "--of", "global_batch_size").output


def test_unknown_questions_name_the_known_ones(plan: Path) -> None:
    result = _run("max", plan, "--of", "hidden_size")
    assert isinstance(result.exception, UnknownNameError)
    assert "micro_batch_size" in str(result.exception)
