"""The command line: verbs by name, each imported when it is called, and errors in one line."""

from __future__ import annotations

import atexit
import gc
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Annotated, Any, Final, NamedTuple

import typer
from typer.core import TyperGroup
from typer.main import get_command, get_group

from surrogate import __version__
from surrogate.errors import SurrogateError

if TYPE_CHECKING:
    from typer.core import TyperCommand

TRACEBACK_VARIABLE: Final = "SURROGATE_TRACEBACK"
"""Set to anything, unexpected errors keep their traceback: for people who change this package."""

DOMAIN_ERROR: Final = 1

WAIT_POLICY: Final = "PASSIVE"
"""Threads that wait sleep: spinning ones made the fit of the trees take 19 s of CPU time in place of 1.5 s."""

GARBAGE_THRESHOLDS: Final = (400_000, 20, 20)
"""New objects between two searches for unreachable cycles. With Python's 700, the objects that importing pandas and
XGBoost makes, none of them garbage, are searched again and again: 0.2 s of the CPU time of one prediction."""


class Verb(NamedTuple):
    """Where a verb is written, and under which heading of the help it stands."""

    module: str
    attribute: str
    """A function, or a Typer application with verbs of its own."""
    heading: str


PREDICT, PLAN, MEASURE, KNOW = "Predict", "Plan a run", "Learn from runs", "Look up"

VERBS: Final[dict[str, Verb]] = {
    "predict": Verb("predict", "predict", PREDICT),
    "compare": Verb("compare", "compare", PREDICT),
    "max": Verb("inverse", "largest", PLAN),
    "min": Verb("inverse", "smallest", PLAN),
    "search": Verb("search", "search", PLAN),
    "forecast": Verb("forecast", "forecast", PLAN),
    "report": Verb("report", "report", PLAN),
    "ingest": Verb("ingest", "ingest", MEASURE),
    "judge": Verb("judge", "judge", MEASURE),
    "site": Verb("site", "site_app", MEASURE),
    "trace": Verb("trace", "trace", MEASURE),
    "reliability": Verb("reliability", "reliability_app", MEASURE),
    "train": Verb("train", "train", MEASURE),
    "evaluate": Verb("evaluate", "evaluate", MEASURE),
    "experiment": Verb("experiment", "experiment_app", MEASURE),
    "ui": Verb("ui", "ui", MEASURE),
    "data": Verb("data", "data_app", KNOW),
    "catalog": Verb("catalog", "catalog_app", KNOW),
}


class VerbGroup(TyperGroup):
    """The verbs of `VERBS`; a verb's module is imported when it is called or helped."""

    def list_commands(self, ctx: object) -> list[str]:
        """Return the verbs in the order of the help."""
        del ctx
        return list(VERBS)

    def get_command(self, ctx: object, cmd_name: str) -> TyperCommand | TyperGroup | None:
        """Return a verb, or None for a name that is no verb."""
        del ctx
        verb = VERBS.get(cmd_name)
        return None if verb is None else load_verb(cmd_name, verb)


def load_verb(name: str, verb: Verb) -> TyperCommand | TyperGroup:
    """Import a verb and return it as a command of that name."""
    entry: Any = getattr(import_module(f"surrogate.cli.{verb.module}"), verb.attribute)
    if isinstance(entry, typer.Typer):
        group = get_group(entry)
        group.name, group.rich_help_panel = name, verb.heading
        return group
    single = typer.Typer(add_completion=False)
    single.command(name, rich_help_panel=verb.heading, no_args_is_help=False)(entry)
    return get_command(single)  # type: ignore[return-value]


app = typer.Typer(
    cls=VerbGroup, no_args_is_help=True, add_completion=True, context_settings={"help_option_names": ["-h", "--help"]}
)


def _print_version(asked: bool) -> None:
    if asked:
        typer.echo(f"surrogate {__version__}")
        raise typer.Exit


@app.callback()
def surrogate(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    """Predict how fast a language model will train on a cluster: step time, memory, failures, days and money."""
    del version


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit: 0 fine, 1 an error in one line, 2 wrong usage, 130 interrupted.

    Parameters
    ----------
    arguments : sequence of str, optional
        Those of the process when not given.
    """
    os.environ.setdefault("OMP_WAIT_POLICY", WAIT_POLICY)
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "1")  # it looks for them in every package installed
    gc.set_threshold(*GARBAGE_THRESHOLDS)
    atexit.register(gc.freeze)  # at its end a process gives all its memory back: no cycle needs to be searched then
    try:
        get_command(app)(args=arguments, prog_name="surrogate")
    except SurrogateError as error:
        fail(str(error))
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(DOMAIN_ERROR)
    except OSError as error:
        fail(f"{error.filename}: {error.strerror}" if error.filename else str(error))
    except Exception as error:
        if os.environ.get(TRACEBACK_VARIABLE):
            raise
        fail(f"internal error, {type(error).__name__}: {error} (a bug: {TRACEBACK_VARIABLE}=1 shows where)")


def fail(message: str) -> None:
    """Print one error on standard error and exit with 1."""
    typer.echo(f"error: {message}", err=True)
    sys.exit(DOMAIN_ERROR)
