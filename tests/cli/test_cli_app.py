"""The command line as a whole: errors in one line, exit codes, and what `--help` imports."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from surrogate.cli import app as application
from surrogate.cli.app import VERBS, Verb, load_verb, main

EXAMPLE = Path(__file__).parents[2] / "examples" / "llama3-70b-512-h100.yaml"
HEAVY = ("mlflow", "numpy", "optuna", "pandas", "plotly", "pyarrow", "pydantic", "scipy", "sklearn", "xgboost", "yaml")
HELP = f"""
import sys
from surrogate.cli.app import main
try:
    main(["--help"])
except SystemExit as stopped:
    assert not stopped.code
print("imported:", *(name for name in {HEAVY} if name in sys.modules))
"""
NOT_FOR_ONE_PLAN = (
    "matplotlib",
    "mlflow",
    "optuna",
    "plotly",
    "pyarrow.parquet",
    "rich._emoji_codes",
    "sqlalchemy",
    "surrogate.derive",
    "surrogate.evaluation",
    "surrogate.reliability.simulation",
    "surrogate.search",
    "tomllib",
)
PREDICT = f"""
import gc, sys
from surrogate.cli.app import main
try:
    main(["predict", {str(EXAMPLE)!r}])
except SystemExit as stopped:
    assert not stopped.code
print("searches of the old:", gc.get_stats()[2]["collections"])
print("imported:", *(name for name in {NOT_FOR_ONE_PLAN} if name in sys.modules))
"""


def exit_code(*arguments: str) -> int:
    with pytest.raises(SystemExit) as stopped:
        main(list(arguments))
    return int(stopped.value.code or 0)


def raising(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    def verb() -> None:
        raise error

    module = type(sys)("surrogate.cli.raising")
    module.verb = verb  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "surrogate.cli.raising", module)
    monkeypatch.setitem(VERBS, "raise", Verb("raising", "verb", "Test"))


def test_help_names_every_verb_and_imports_nothing_heavy():
    printed = subprocess.run([sys.executable, "-c", HELP], capture_output=True, text=True, check=True).stdout
    assert printed.splitlines()[-1].strip() == "imported:"
    for name in VERBS:
        assert f" {name} " in printed


def test_predicting_one_plan_imports_and_collects_nothing_it_does_not_need():
    printed = subprocess.run([sys.executable, "-c", PREDICT], capture_output=True, text=True, check=True).stdout
    assert printed.splitlines()[-2:] == ["searches of the old: 0", "imported:"]


@pytest.mark.parametrize("name", VERBS)
def test_every_verb_has_help_and_json(name: str, capsys: pytest.CaptureFixture[str]):
    command = load_verb(name, VERBS[name])
    subcommands = getattr(command, "commands", {})
    for arguments in [[name, sub] for sub in subcommands] or [[name]]:
        assert exit_code(*arguments, "--help") == 0
        assert "--json" in capsys.readouterr().out


def test_version(capsys: pytest.CaptureFixture[str]):
    assert exit_code("--version") == 0
    assert capsys.readouterr().out.startswith("surrogate 0.")


@pytest.mark.parametrize("arguments", [("fly",), ("predict", "--wings"), ("compare", "one.yaml"), ()])
def test_wrong_usage_exits_with_2(arguments: tuple[str, ...], capsys: pytest.CaptureFixture[str]):
    assert exit_code(*arguments) == 2
    assert "Traceback" not in capsys.readouterr().err


def test_a_domain_error_is_one_line(capsys: pytest.CaptureFixture[str]):
    assert exit_code("data", "validate", "nowhere.csv") == 1
    printed = capsys.readouterr()
    assert printed.err == "error: nowhere.csv: no such file\n"
    assert printed.out == ""


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (PermissionError(13, "Permission denied", "secret.yaml"), "error: secret.yaml: Permission denied"),
        (ZeroDivisionError("division by zero"), "error: internal error, ZeroDivisionError: division by zero"),
    ],
)
def test_no_error_shows_a_traceback(
    error: Exception, line: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    raising(monkeypatch, error)
    assert exit_code("raise") == 1
    printed = capsys.readouterr().err
    assert printed.startswith(line)
    assert len(printed.splitlines()) == 1


def test_a_traceback_can_be_asked_for(monkeypatch: pytest.MonkeyPatch):
    raising(monkeypatch, ZeroDivisionError("division by zero"))
    monkeypatch.setenv(application.TRACEBACK_VARIABLE, "1")
    with pytest.raises(ZeroDivisionError):
        main(["raise"])


def test_an_interrupt_exits_with_130(monkeypatch: pytest.MonkeyPatch):
    raising(monkeypatch, KeyboardInterrupt())
    assert exit_code("raise") == 130


def test_a_closed_pipe_is_no_error():
    command = f"{sys.executable} -m surrogate.cli.app catalog list accelerators --json | head -1"
    done = subprocess.run(command, shell=True, capture_output=True, text=True, check=False)
    assert done.stderr == ""
