"""`surrogate site add|show|next`: a site's own runs over the shipped predictor."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from surrogate.cli.output import (
    console,
    percent,
    plain_table,
    print_json,
    progress_shown,
    seconds,
    significant,
    unknown_site,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from surrogate.api import SitePack
    from surrogate.api.next_runs import NextRuns
    from surrogate.tracking.ledger import TrackRecord

site_app = typer.Typer(help="Your own runs over the shipped predictor.", no_args_is_help=True)

NameArgument = Annotated[str, typer.Argument(help="Name of the site, or a path to its .json file.", show_default=False)]
RunsArgument = Annotated[list[Path], typer.Argument(help="Runs tables of the site.", show_default=False)]
FamilyOption = Annotated[str | None, typer.Option(help="Publisher family whose habits the site shares.")]
TargetOption = Annotated[Path, typer.Option(help="Plan to know better.")]
BudgetOption = Annotated[int, typer.Option(help="Accelerators at hand for measurements.", min=1)]
SetOption = Annotated[list[str] | None, typer.Option("--set", help="Override a key of the plan.", metavar="KEY=VALUE")]
LedgerOption = Annotated[bool, typer.Option("--ledger/--no-ledger", help="Match and show recorded predictions.")]
TrackingOption = Annotated[str | None, typer.Option(help="MLflow store [MLFLOW_TRACKING_URI, else mlruns/].")]
ModelDirOption = Annotated[Path | None, typer.Option(help="Predictor to use.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]


@site_app.command()
def add(  # noqa: PLR0913 - one parameter per option
    name: NameArgument,
    runs: RunsArgument,
    family: FamilyOption = None,
    ledger: LedgerOption = True,
    tracking_uri: TrackingOption = None,
    model_dir: ModelDirOption = None,
    as_json: JsonOption = False,
) -> None:
    """Lay a site's own runs over the predictor; runs of the same site that were added before stay."""
    from surrogate import api
    from surrogate.api.site_files import site_file

    file = site_file(name)
    predictor = api.load_predictor(model_dir)
    table = api.load_run_files(runs)
    before = api.load_site(file) if file.is_file() else None
    if before is not None:
        table = api.joined_runs(before, table)
        family = family or (before.family if before.family != before.name else None)
    pack = api.make_site(file.stem, table, predictor, family=family)
    matched = _match(pack, before, tracking_uri, quiet=as_json) if ledger else 0
    api.save_site(pack, file)
    if as_json:
        print_json({**_facts(file, pack), "matched_predictions": matched})
        return
    _print_findings(file, pack)
    if matched:
        typer.echo(f"{matched} recorded predictions matched (see `surrogate site show {name}`)")


@site_app.command()
def show(
    name: NameArgument,
    ledger: LedgerOption = True,
    tracking_uri: TrackingOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show what a site's runs taught, how its recorded predictions fared, and whether it drifts."""
    from surrogate import api
    from surrogate.api.site_files import site_file

    file = site_file(name)
    pack = api.load_site(file)
    record = None
    if ledger:
        from surrogate.tracking.ledger import track_record

        record = track_record(pack.name, tracking_uri)
    if as_json:
        print_json({**_facts(file, pack), "track_record": None if record is None else record.to_dict()})
        return
    _print_findings(file, pack)
    if record is not None:
        _print_record(record)


@site_app.command("next")
def next_runs(  # noqa: PLR0913 - one parameter per option
    name: NameArgument,
    target: TargetOption,
    budget_gpus: BudgetOption,
    overrides: SetOption = None,
    model_dir: ModelDirOption = None,
    as_json: JsonOption = False,
) -> None:
    """Name up to three cheap runs that would narrow the target's interval most."""
    from surrogate import api
    from surrogate.plan import parse_overrides, plans_to_frame

    plan = api.read_plan(target, parse_overrides(overrides or []))
    predictor = api.choose_site(api.load_predictor(model_dir), name)
    proposed = api.propose_runs(plans_to_frame([plan]), budget_gpus, predictor)
    if as_json:
        print_json(proposed.to_dict())
        return
    _print_proposals(proposed)
    if note := unknown_site(predictor.site):
        typer.echo(note)


def _match(pack: SitePack, before: SitePack | None, tracking_uri: str | None, *, quiet: bool) -> int:
    """Match recorded predictions with the runs that are new: what was known when predicting proves nothing."""
    from surrogate.tracking.ledger import match_runs

    new = pack.runs if before is None else pack.runs[~pack.runs["run_id"].isin(before.runs["run_id"])]
    with progress_shown(quiet=quiet) as tell:
        tell("matching recorded predictions")
        return match_runs(new, tracking_uri)


def _facts(file: Path, pack: SitePack) -> dict[str, object]:
    return {
        "site": pack.name,
        "file": str(file),
        "publisher_family": pack.family,
        "conditions": pack.conditions,
        "model": pack.model,
        **pack.findings,
    }


def _print_findings(file: Path, pack: SitePack) -> None:
    screen, found = console(), pack.findings
    screen.print(f"{file}: {found['rows']} measured runs of {pack.name}, over {pack.model}", markup=False)
    errors = [("without them", found["zero_shot"]), ("each left out, the others known", found["left_out"])]
    rows = [_error_row(label, figures) for label, figures in errors if isinstance(figures, dict)]
    screen.print(plain_table(("predicted", "mean |log error|", "bias", "inside 90 %"), rows))
    moved = found["moved"]
    if isinstance(moved, list) and moved:
        changes = [(m["name"], f"x {significant(m['factor'])}", f"{m['prior_deviations']:+.1f}") for m in moved]
        screen.print(plain_table(("coefficient that moved", "by", "prior deviations"), changes))
    contradictions = found["contradictions"]
    for item in contradictions if isinstance(contradictions, list) else []:
        screen.print(f"[yellow]{', '.join(item['run_ids'])}[/yellow]: {item['reason']}")
    if not pack.conditions:
        reason = "the other runs make predictions of a left-out one worse than no runs at all"
        if found["left_out"] is None:
            reason = "they contradict each other, and too few others tell which is right"
        screen.print(f"[red]not used:[/red] {reason}")


def _error_row(label: str, figures: Mapping[str, float]) -> tuple[str, ...]:
    bias = percent(figures["mean_log_error"], signed=True)
    return label, percent(figures["mean_abs_log_error"]), bias, percent(figures["coverage"])


def _print_record(record: TrackRecord) -> None:
    screen = console()
    screen.print(f"ledger: {record.recorded} predictions recorded, {record.matched} matched with their runs")
    if not record.matched:
        return
    screen.print(
        f"  mean |log error| {percent(record.mean_abs_log_error)}, bias {percent(record.mean_log_error, signed=True)}, "
        f"{percent(record.coverage)} inside their 90 % interval"
    )
    state = "[red]drift[/red]" if record.drift.alarm else "[green]no drift[/green]"
    screen.print(f"  {state}: {record.drift.describe()}")
    rows: Sequence[tuple[str, ...]] = [
        (item.run_id, seconds(item.predicted_step_time_s), seconds(item.measured_step_time_s), f"{item.surprise:+.1f}")
        for item in record.items
    ]
    screen.print(plain_table(("run", "predicted", "measured", "deviations"), rows))


def _print_proposals(proposed: NextRuns) -> None:
    screen = console()
    screen.print(f"{proposed.target}: the interval now spans a factor of {significant(proposed.interval_ratio)}")
    rows = [
        (
            " ".join(f"{name}={value}" for name, value in run.values.items()) or "the target itself",
            str(run.num_gpus),
            seconds(run.step_time_s),
            significant(run.interval_ratio),
        )
        for run in proposed.proposals
    ]
    screen.print(plain_table(("run to make", "accelerators", "step about", "interval then spans"), rows))
