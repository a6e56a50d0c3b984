"""`surrogate compare`: which of two plans is faster, term by term, and how sure that is."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from surrogate.cli.output import (
    cause_name,
    console,
    percent,
    plain_table,
    print_json,
    seconds,
    significant,
    unknown_site,
)

if TYPE_CHECKING:
    from surrogate.api import Comparison

FirstArgument = Annotated[Path, typer.Argument(help="Plan A.", show_default=False)]
SecondArgument = Annotated[Path, typer.Argument(help="Plan B.", show_default=False)]
SetOption = Annotated[list[str] | None, typer.Option("--set", help="Override a key of both.", metavar="KEY=VALUE")]
SiteOption = Annotated[str | None, typer.Option(help="Site whose habits apply to both.")]
ModelDirOption = Annotated[Path | None, typer.Option(help="Predictor to use.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON, in SI units.")]

_SMALLEST_S: Final = 1e-9


def compare(  # noqa: PLR0913 - one parameter per option
    plan_a: FirstArgument,
    plan_b: SecondArgument,
    overrides: SetOption = None,
    site: SiteOption = None,
    model_dir: ModelDirOption = None,
    as_json: JsonOption = False,
) -> None:
    """Compare two plans: why one is faster, term by term, and with which probability A beats B."""
    from surrogate import api
    from surrogate.plan import parse_overrides

    first, second = api.read_plans([plan_a, plan_b], parse_overrides(overrides or []))
    predictor = api.load_predictor(model_dir)
    if site is not None:
        predictor = api.choose_site(predictor, site)
    comparison = api.compare(first, second, predictor)
    if as_json:
        print_json(comparison.to_dict() | {"model": predictor.name})
        return
    _print_comparison(comparison)
    console().print(f"predictor: {predictor.describe()}", markup=False, style="dim")
    if note := unknown_site(predictor.site):
        console().print(note, markup=False)


def _print_comparison(found: Comparison) -> None:
    screen = console()
    winner, loser = (found.a, found.b) if found.speedup >= 1.0 else (found.b, found.a)
    ratios = (found.speedup, found.speedup_lower, found.speedup_upper)
    if found.speedup < 1.0:
        ratios = (1.0 / found.speedup, 1.0 / found.speedup_upper, 1.0 / found.speedup_lower)
    sure = max(found.probability_a_beats_b, 1.0 - found.probability_a_beats_b)
    gain, low, high = (percent(ratio - 1.0, signed=True) for ratio in ratios)
    screen.print(
        f"[bold]{winner}[/bold] gives {gain} tokens/s per accelerator over {loser} (90 %: {low} to {high}); "
        f"it is the faster one with probability {percent(sure)}"
    )
    for name, feasible in ((found.a, found.a_feasible), (found.b, found.b_feasible)):
        if not feasible:
            screen.print(f"[red]{name} does not fit safely[/red] (see `surrogate predict`)")
    rows = [
        (cause_name(term.cause), seconds(term.a_s), seconds(term.b_s), _signed(term.difference_s))
        for term in found.terms
        if max(term.a_s, term.b_s) > _SMALLEST_S
    ]
    b_total = found.b_step_time_s * found.work_scale
    rows.append(("step", seconds(found.a_step_time_s), seconds(b_total), _signed(found.a_step_time_s - b_total)))
    rate = (significant(found.a_tokens_per_s_per_gpu), significant(found.b_tokens_per_s_per_gpu))
    rows.append(("tokens/s per accelerator", *rate, percent(found.speedup - 1.0, signed=True)))
    scaled = "" if abs(found.work_scale - 1.0) < _SMALLEST_S else f" x {significant(found.work_scale)}"
    screen.print(f"  A {found.a}\n  B {found.b}", markup=False)
    screen.print(plain_table(("where the time goes", "A", f"B{scaled}", "A less B"), rows))
    if scaled:
        screen.print("  B's seconds are scaled to A's tokens per accelerator")


def _signed(value: float) -> str:
    return f"{'+' if value > 0.0 else '-' if value < 0.0 else ''}{seconds(abs(value))}"
