"""`surrogate search`: the best layouts that a plan leaves open."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from surrogate.search import SearchOptions, SearchResult, SpaceRequest
    from surrogate.search.search import Progress

PlanArgument = Annotated[Path, typer.Argument(help="Plan; what it leaves open is searched.", show_default=False)]
ObjectiveOption = Annotated[
    list[str] | None,
    typer.Option(
        "--objective",
        help="tokens_per_s_per_gpu, step_time, time_to_train or cost; two or three (headroom too) for a Pareto front.",
        show_default="tokens_per_s_per_gpu",
    ),
]
TokensOption = Annotated[float | None, typer.Option(help="Tokens to train on, for time_to_train and cost.")]
PriceOption = Annotated[float | None, typer.Option(help="Price of one accelerator for one hour, for cost.")]
RobustOption = Annotated[bool, typer.Option("--robust", help="Rank by the pessimistic end of the 90 % interval.")]
RequireOption = Annotated[list[str] | None, typer.Option("--require", help="Condition that must hold.", metavar="EXPR")]
ForbidOption = Annotated[
    list[str] | None, typer.Option("--forbid", help="Condition that must not hold.", metavar="EXPR")
]
WaiveOption = Annotated[list[str] | None, typer.Option("--waive", help="Built-in habit to ignore.", metavar="RULE")]
VaryOption = Annotated[
    list[str] | None,
    typer.Option("--vary", help="Values to search, as num_gpus=64,128 or accelerator=H100,B200.", metavar="COLUMN=..."),
]
SetOption = Annotated[
    list[str] | None, typer.Option("--set", help="Override a key of the plan; KEY= opens it.", metavar="KEY=VALUE")
]
RiskOption = Annotated[float, typer.Option("--oom-risk", help="Risk of running out of memory to accept.", min=0, max=1)]
TopOption = Annotated[int, typer.Option(help="Layouts to show.", min=1)]
ExhaustiveOption = Annotated[bool, typer.Option("--exhaustive", help="Consider every layout, however many.")]
EnumerateOption = Annotated[
    bool, typer.Option("--enumerate/--no-enumerate", help="Consider every layout of a small space.")
]
SamplerOption = Annotated[str, typer.Option(help="How Optuna proposes layouts: tpe, nsga2 or random.")]
TrialsOption = Annotated[int, typer.Option(help="Layouts that Optuna tries.", min=1)]
SecondsOption = Annotated[float | None, typer.Option(help="Stop trying after so many seconds.", min=0)]
StorageOption = Annotated[
    str | None, typer.Option(help="Keep the study: a journal file, or a URL as postgresql://user@host/database.")
]
StudyOption = Annotated[str | None, typer.Option(help="Name of the study; the plan's by default.")]
SeedOption = Annotated[int, typer.Option(help="Seed of the proposals.")]
OutputOption = Annotated[
    Path | None, typer.Option("--output", "-o", help="Write the best as a table (.csv, .parquet).")
]
EmitOption = Annotated[str | None, typer.Option(help="Print launch arguments of the best layout: megatron.")]
SiteOption = Annotated[str | None, typer.Option(help="Site whose habits apply.")]
ModelDirOption = Annotated[Path | None, typer.Option(help="Predictor to use.")]
TrackOption = Annotated[
    bool | None, typer.Option("--track/--no-track", help="Log the study to MLflow; by default when Optuna searched.")
]
TrackingOption = Annotated[str | None, typer.Option("--tracking-uri", help="MLflow store; the local one by default.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON, in SI units.")]

DEFAULT_RISK = 0.05
INTERRUPTED = 130


def search(  # noqa: PLR0913 - one parameter per option
    plan: PlanArgument,
    objective: ObjectiveOption = None,
    tokens: TokensOption = None,
    price: PriceOption = None,
    robust: RobustOption = False,
    require: RequireOption = None,
    forbid: ForbidOption = None,
    waive: WaiveOption = None,
    vary: VaryOption = None,
    overrides: SetOption = None,
    oom_risk: RiskOption = DEFAULT_RISK,
    top: TopOption = 5,
    exhaustive: ExhaustiveOption = False,
    enumerate_small: EnumerateOption = True,
    sampler: SamplerOption = "tpe",
    trials: TrialsOption = 300,
    seconds: SecondsOption = None,
    storage: StorageOption = None,
    study: StudyOption = None,
    seed: SeedOption = 0,
    output: OutputOption = None,
    emit: EmitOption = None,
    site: SiteOption = None,
    model_dir: ModelDirOption = None,
    track: TrackOption = None,
    tracking_uri: TrackingOption = None,
    as_json: JsonOption = False,
) -> None:
    """Search the layouts that a plan leaves open, under hard constraints, and say why the best is best."""
    from surrogate.search.request import search_options, space_request

    if exhaustive and not enumerate_small:
        raise typer.BadParameter("--exhaustive and --no-enumerate exclude each other")
    _check_outputs(output, emit)
    request = space_request(plan, overrides or [], vary or [], (require or [], forbid or [], waive or []))
    options = search_options(
        goal=(objective or ["tokens_per_s_per_gpu"], tokens, price, robust),
        study=(sampler, trials, seconds, seed, storage, study or request.plan.name),
        oom_risk=oom_risk,
        top=top,
        enumeration=(exhaustive, enumerate_small),
    )
    result = _searched(request, replace(options, keeps_study=track is True), site, model_dir, quiet=as_json)
    if output is not None and len(result.best):
        _write_table(result, output)
    _print(result, emit, as_json=as_json)
    if track is not False and result.study is not None:
        _log_study(result, options, tracking_uri, quiet=as_json or emit is not None)
    _finish(result, options, quiet=as_json or emit is not None)


def _check_outputs(output: Path | None, emit: str | None) -> None:
    """Raise where a result could not be given as asked: before the search, not after it."""
    from surrogate.search.emit import check_framework
    from surrogate.search.table import check_target

    if output is not None:
        check_target(output)
    if emit is not None:
        check_framework(emit)


def _searched(
    request: SpaceRequest, options: SearchOptions, site: str | None, model_dir: Path | None, *, quiet: bool
) -> SearchResult:
    from surrogate import api
    from surrogate.cli.output import unknown_site
    from surrogate.search import search as search_layouts

    predictor = api.load_predictor(model_dir)
    if site is not None:
        predictor = api.choose_site(predictor, site)
        if not quiet and (note := unknown_site(predictor.site)):
            typer.echo(note, err=True)
    with _progress(quiet=quiet) as progress:
        return search_layouts(request, predictor, options, progress)


@contextmanager
def _progress(*, quiet: bool) -> Iterator[Progress | None]:
    """Give a function that counts finished candidates or trials on standard error, where someone looks."""
    import sys

    if quiet or not sys.stderr.isatty():
        yield None
        return
    from rich.progress import Progress as Bars
    from rich.progress import SpinnerColumn, TextColumn, TimeElapsedColumn

    from surrogate.cli.output import console

    columns = (SpinnerColumn(), TextColumn("{task.completed:,.0f} {task.description}"), TimeElapsedColumn())
    with Bars(*columns, console=console(to_stderr=True), transient=True) as bars:
        task = bars.add_task("candidates", total=None)
        yield lambda count, what: bars.update(task, advance=count, description=what)


def _write_table(result: SearchResult, path: Path) -> None:
    from surrogate.search.table import write_table

    write_table(result.table(), path)


def _print(result: SearchResult, emit: str | None, *, as_json: bool) -> None:
    from surrogate.cli.output import print_json
    from surrogate.cli.search_view import print_result
    from surrogate.search import launch_arguments

    arguments = launch_arguments(result.plans, emit) if emit is not None and len(result.plans) else []
    if as_json:
        print_json(result.to_dict() | ({"launch_arguments": arguments} if emit is not None else {}))
    elif emit is not None and arguments:
        typer.echo(" \\\n".join(arguments))
    else:
        print_result(result)


def _finish(result: SearchResult, options: SearchOptions, *, quiet: bool) -> None:
    """Exit as a search that was interrupted or found nothing does; say how an interrupted one goes on."""
    if result.interrupted:
        storage = options.study.storage if options.study is not None else None
        if storage is not None and result.study is not None and not quiet:
            typer.echo(f"\nstudy `{result.study.study_name}` is kept in --storage: the same command goes on with it")
        raise typer.Exit(INTERRUPTED)
    if not len(result.best):
        raise typer.Exit(1)


def _log_study(result: SearchResult, options: SearchOptions, tracking_uri: str | None, *, quiet: bool) -> None:
    """Log a study, and say where."""
    from surrogate.tracking import log_study

    plan = {f"plan.{name}": value for name, value in result.space.plan.values.items()}
    logged = log_study(result, tracking_uri=tracking_uri, settings=options.settings() | plan)
    if not quiet:
        typer.echo(f"\nstudy in MLflow: experiment {logged.experiment}, run {logged.run_id} (surrogate ui shows it)")
