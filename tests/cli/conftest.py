"""The command line, run in an empty folder."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture
def run_cli(model_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    """Run the command line in an empty folder; gives the exit code, standard output and standard error."""
    from surrogate.cli.app import main

    monkeypatch.setenv("SURROGATE_MODEL_DIR", str(model_dir))
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.chdir(tmp_path)

    def run(*arguments: object) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as stopped:
            main([str(argument) for argument in arguments])
        printed = capsys.readouterr()
        return int(stopped.value.code or 0), printed.out, printed.err

    return run
