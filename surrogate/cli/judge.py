"""`surrogate judge`: whether a run is as fast as it should be."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from surrogate.cli.output import console, print_json

if TYPE_CHECKING:
    from surrogate.api import Predictor
    from surrogate.api.log_judgement import JudgedRun

LogArgument = Annotated[Path | None, typer.Argument(help="Training log, plain or .gz.", show_default=False)]
PlanOption = Annotated[Path | None, typer.Option(help="Plan of the run: what the log does not print.")]
MeasuredOption = Annotated[
    float | None, typer.Option(help="Seconds per step, instead of a log; needs --plan.", metavar="SECONDS")
]
SiteOption = Annotated[str | None, typer.Option(help="Site whose habits apply.")]
AnchorOption = Annotated[str | None, typer.Option(help="Measured run to compare with: run_id, or FILE.csv#RUN_ID.")]
FormatOption = Annotated[str | None, typer.Option("--format", help="Log format; detected when not given.")]
ModelDirOption = Annotated[Path | None, typer.Option(help="Predictor to use.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON, in SI units.")]


def judge(  # noqa: PLR0913 - one parameter per option
    log: LogArgument = None,
    plan: PlanOption = None,
    measured: MeasuredOption = None,
    site: SiteOption = None,
    anchor: AnchorOption = None,
    format_name: FormatOption = None,
    model_dir: ModelDirOption = None,
    as_json: JsonOption = False,
) -> None:
    """Judge a run: normal, slow or fast, by how much, what could be called at all, and what would explain it."""
    if (log is None) == (measured is None):
        raise typer.BadParameter("give either a LOG, or --measured SECONDS with --plan")
    if measured is not None and plan is None:
        raise typer.BadParameter("--measured needs --plan")
    from surrogate import api

    predictor = api.load_predictor(model_dir)
    if site is not None:
        predictor = api.choose_site(predictor, site)
    reference = ""
    if anchor is not None:
        known = api.load_anchor(anchor, predictor)
        predictor, reference = known.predictor, f"the measured run {known.run_id}"
    if log is not None:
        judged = api.judge_log(log, predictor, plan=plan, format_name=format_name, reference=reference)
    elif measured is not None and plan is not None:
        judged = [api.judge_plan(plan, measured, predictor, reference=reference)]
    if as_json:
        print_json([run.to_dict() for run in judged])
    else:
        _print_judged(judged, predictor)


def _print_judged(judged: list[JudgedRun], predictor: Predictor) -> None:
    from surrogate.cli.prediction_view import print_judgement

    screen = console()
    for run in judged:
        screen.print(f"\n[bold]{run.run_id}[/bold]")
        print_judgement(screen, run.judgement)
        for note in run.notes:
            screen.print(f"  note: {note}", markup=False, style="dim")
    screen.print(f"predictor: {predictor.describe()}", markup=False, style="dim")
