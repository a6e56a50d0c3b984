"""`surrogate reliability fit`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from surrogate.cli.reliability import exposure_window, reliability_app
from surrogate.errors import InputError, TableError
from surrogate.forecast import load_rates

RUNNER = CliRunner()


@pytest.fixture
def events(tmp_path: Path) -> Path:
    path = tmp_path / "events.csv"
    rows = [f"{day},{day + 0.5},n{day % 7},{'gpu' if day % 2 else 'nic'}" for day in range(2, 90, 4)]
    path.write_text("start_day,end_day,node,component\n" + "\n".join(rows) + "\n")
    return path


def _fit(events: Path, *options: str) -> object:
    return RUNNER.invoke(reliability_app, ["fit", str(events), "--exposure", "90", "--nodes", "64", *options])


def test_it_prints_rates_with_credible_limits(events: Path) -> None:
    result = _fit(events, "--accelerator", "H100-80GB")
    assert result.exit_code == 0, result.output
    assert all(text in result.stdout for text in ("published", "updated", "gpu", "failures per day in all"))


def test_json_and_the_rates_file_agree(events: Path, tmp_path: Path) -> None:
    result = _fit(events, "--json", "-o", str(tmp_path / "rates.json"))
    answer = json.loads(result.stdout)
    assert answer["failures_per_day"]["p5"] < 22 / 90 < answer["failures_per_day"]["p95"]
    assert answer["events"] == {"nic": 22}
    rates = load_rates(tmp_path / "rates.json")
    assert rates.to_dict() == answer["rates"]


def test_a_written_file_is_named(events: Path, tmp_path: Path) -> None:
    assert "wrote" in _fit(events, "-o", str(tmp_path / "rates.json")).stdout


def test_events_outside_the_window_are_an_error(events: Path) -> None:
    result = RUNNER.invoke(reliability_app, ["fit", str(events), "--exposure", "30", "--nodes", "64"])
    assert isinstance(result.exception, TableError)
    assert "inside the exposure window" in str(result.exception)


def test_exposures() -> None:
    window = exposure_window("2026-01-01..2026-03-02", 8)
    assert (window.days, window.num_nodes) == (60.0, 8)
    assert exposure_window("12.5", 8).days == 12.5


@pytest.mark.parametrize("text", ["0", "-1", "2026-03-01..2026-03-01", "2026-03-02..2026-03-01", "soon", "a..b"])
def test_exposures_that_are_none(text: str) -> None:
    with pytest.raises(InputError, match="exposure"):
        exposure_window(text, 8)


def test_usage_errors_exit_with_two(events: Path) -> None:
    assert RUNNER.invoke(reliability_app, ["fit", str(events)]).exit_code == 2
