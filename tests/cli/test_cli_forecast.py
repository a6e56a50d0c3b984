"""`surrogate forecast`, with a predictor that always says 20 s."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import ModuleType

import pandas as pd
import pytest
import typer
from click.testing import Result
from typer.testing import CliRunner

import surrogate
from surrogate.cli.forecast import forecast
from surrogate.errors import FileFormatError, InputError

RUNNER = CliRunner()
APP = typer.Typer()
APP.command()(forecast)

PLAN = """
model: llama3-70b
cluster: {accelerator: H100-80GB, num_gpus: 512, gpus_per_node: 8, inter_node_gbps: 3200}
training: {seq_len: 8192, global_batch_size: 512, micro_batch_size: 1, precision: bf16}
parallelism: {tp: 4, pp: 4}
"""


class _Predictor:
    def predict_frame(self, frame: pd.DataFrame) -> pd.DataFrame:
        seconds = pd.Series(20.0, index=frame.index) * 512 / frame["num_gpus"].astype(float)
        return pd.DataFrame(
            {"step_time_s": seconds, "step_time_lower_s": 0.9 * seconds, "step_time_upper_s": 1.1 * seconds}
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


def test_it_prints_days_cost_and_advice(plan: Path) -> None:
    result = _run(plan, "--tokens", "1e12", "--price", "2.5", "--deadline", "60", "--budget", "2e6")
    assert result.exit_code == 0, result.output
    wanted = (
        "days",
        "cost",
        "interruptions",
        "deadline kept",
        "budget kept",
        "checkpoint every",
        "spare nodes",
        "ETTR",
    )
    assert all(text in result.stdout for text in wanted)


def test_json_has_days_of_steps_times_step_time(plan: Path) -> None:
    result = _run(plan, "--tokens", "1e12", "--json")
    answer = json.loads(result.stdout)
    steps = 1e12 / (512 * 8192)
    assert answer["days_p50"] == pytest.approx(steps * 20 / 86400, rel=0.02)
    assert answer["cost_p50"] is None
    assert answer["days_p10"] < answer["days_p50"] < answer["days_p90"]


def test_phases_and_overrides(plan: Path, tmp_path: Path) -> None:
    second = tmp_path / "second.yaml"
    second.write_text(PLAN.replace("num_gpus: 512", "num_gpus: 1024"))
    answer = json.loads(_run(plan, second, "--tokens", "5e11", "--tokens", "5e11", "--json").stdout)
    assert [phase["num_gpus"] for phase in answer["phases"]] == [512, 1024]
    changed = json.loads(_run(plan, "--tokens", "1e12", "--set", "num_gpus=1024", "--json").stdout)
    assert changed["phases"][0]["num_gpus"] == 1024


def test_own_rates_operation_and_plot(plan: Path, tmp_path: Path) -> None:
    operation = tmp_path / "operation.yaml"
    operation.write_text("restart_s: 3000\nfailure_rate_factor: 20\n")
    page = tmp_path / "forecast.html"
    options = ("--tokens", "1e12", "--operation", operation, "--elastic", "--spares", "3", "--deadline", "60")
    result = _run(plan, *options, "--plot", page, "--json")
    answer = json.loads(result.stdout)
    assert answer["phases"][0]["restart_s"] == 3000
    assert answer["spares"] == 3
    assert "plotly" in page.read_text(encoding="utf-8")


def test_a_simulation_stands_beside_the_closed_form(plan: Path) -> None:
    options = ("--tokens", "1e12", "--simulate", "20")
    answer = json.loads(_run(plan, *options, "--json").stdout)
    assert answer["simulated"]["ettr_mean"] == pytest.approx(answer["ettr"], abs=0.01)
    assert "simulated 20 times" in _run(plan, *options).stdout


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        (["--tokens", "1", "--tokens", "2"], InputError, "must be given for each of the 1 plans, got 2"),
        (["--tokens", "1e12", "--checkpoint-interval-s", "3"], InputError, "shorter than a save"),
        (["--tokens", "1e12", "--plot", "x.png"], InputError, "HTML"),
        (["--tokens", "1e12", "--rates", "none.json"], FileFormatError, "failure rates"),
        (["--tokens", "1e12", "--price", "-1"], InputError, "price"),
    ],
)
def test_domain_errors_are_one_line(plan: Path, options: list[str], error: type[Exception], message: str) -> None:
    result = _run(plan, *options)
    assert isinstance(result.exception, error)
    assert message in str(result.exception)
    assert "\n" not in str(result.exception)


def test_a_budget_needs_a_price(plan: Path) -> None:
    result = _run(plan, "--tokens", "1e12", "--budget", "1e6")
    assert isinstance(result.exception, InputError)
    assert "price" in str(result.exception)


def test_tokens_are_required(plan: Path) -> None:
    assert _run(plan).exit_code == 2
