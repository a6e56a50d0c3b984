"""`surrogate experiment run DIR`: ask one question of the predictor again and write the answer down."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from surrogate.cli.output import print_json, progress_shown

experiment_app = typer.Typer(help="Run the experiments of the project.", no_args_is_help=True)

FolderArgument = Annotated[Path, typer.Argument(help="Folder with config.yaml and README.md.", show_default=False)]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]


@experiment_app.callback()
def experiment() -> None:
    """Questions asked of the predictor, each with its measured answer."""


@experiment_app.command()
def run(folder: FolderArgument, as_json: JsonOption = False) -> None:
    """Run the experiment of a folder, print its answer, and write it between the markers of the README."""
    from surrogate.experiments import run_experiment

    with progress_shown(quiet=as_json) as tell:
        tell(f"running {folder}")
        answer = run_experiment(folder)
    written = None if answer.readme is None else str(answer.readme)
    if as_json:
        print_json({"folder": str(answer.folder), "answer": answer.markdown, "written": written})
        return
    typer.echo(answer.markdown)
    typer.echo(f"\nwritten into {written}" if written else f"\n{folder}/README.md marks no place for it: not written")
