"""The command line's surface is frozen: a change of it must change `options.txt` beside this file, and the docs.

`SURROGATE_FREEZE_OPTIONS=1 pytest tests/cli/test_options.py` writes the file anew.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

import typer.main

from surrogate.cli.app import VERBS, app, load_verb

FROZEN = Path(__file__).with_name("options.txt")
DOCUMENTED = Path(__file__).parents[2] / "docs" / "cli.md"


def surface() -> Iterator[str]:
    yield from options("surrogate", typer.main.get_command(app))
    for name, verb in VERBS.items():
        command = load_verb(name, verb)
        for sub, subcommand in getattr(command, "commands", {}).items():
            yield from options(f"surrogate {name} {sub}", subcommand)
        if not hasattr(command, "commands"):
            yield from options(f"surrogate {name}", command)


def options(name: str, command: object) -> Iterator[str]:
    """Yield one line per argument and option: spellings, then whether it is required or may be repeated."""
    for parameter in command.params:  # type: ignore[attr-defined]
        spelling = " ".join([*parameter.opts, *parameter.secondary_opts])
        kind = "option" if parameter.opts[0].startswith("-") else "argument"
        marks = [
            mark for mark, holds in (("required", parameter.required), ("repeatable", repeats(parameter))) if holds
        ]
        if "completion" not in spelling:
            yield " ".join([name, kind, spelling, *marks])


def repeats(parameter: object) -> bool:
    return bool(getattr(parameter, "multiple", False)) or getattr(parameter, "nargs", 1) == -1


def test_the_options_are_those_that_are_frozen():
    lines = list(surface())
    if os.environ.get("SURROGATE_FREEZE_OPTIONS"):
        FROZEN.write_text("\n".join(lines) + "\n")
    assert lines == FROZEN.read_text().splitlines()


def test_every_option_is_documented():
    text = DOCUMENTED.read_text()
    missing = [line for line in surface() if not documented(line, text)]
    assert not missing


def documented(line: str, text: str) -> bool:
    """Tell whether one of a line's spellings is in the documentation; arguments stand in the synopsis."""
    spellings = [word for word in line.split() if word.startswith("--")]
    return not spellings or any(re.search(rf"{spelling}(?![\w-])", text) for spelling in spellings)
