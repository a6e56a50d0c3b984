"""`surrogate forecast`: days, money and interruptions of a run, from its plans."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from surrogate.units import TERA

if TYPE_CHECKING:
    from rich.console import Console

    from surrogate.forecast import Forecast, RunPolicy, Spread, TrainingPlans

PlansArgument = Annotated[list[Path], typer.Argument(help="Plans; several are phases of one run.", show_default=False)]
TokensOption = Annotated[list[float], typer.Option(help="Tokens to train on; once per plan.")]
PriceOption = Annotated[float | None, typer.Option(help="Price of one accelerator for one hour.")]
DeadlineOption = Annotated[float | None, typer.Option(help="Days within which the run should end.")]
BudgetOption = Annotated[float | None, typer.Option(help="Money the run should not exceed; needs --price.")]
SetOption = Annotated[list[str] | None, typer.Option("--set", help="Override a key of every plan, as tp=8.")]
ModelDirOption = Annotated[Path | None, typer.Option(help="Predictor to use.")]
IntervalOption = Annotated[
    float | None, typer.Option(help="Seconds of training between checkpoints; the best by default.")
]
SparesOption = Annotated[int | None, typer.Option(help="Warm spare nodes; by default enough for a risk of 1 %.")]
ElasticOption = Annotated[bool, typer.Option("--elastic", help="Without a spare, run on with fewer nodes.")]
RatesOption = Annotated[Path | None, typer.Option(help="Your own failure rates, from `reliability fit -o`.")]
OperationOption = Annotated[
    Path | None, typer.Option(help="YAML: restart_s, detection_s, repair_s, write_bytes_per_s, ... (docs/reliability).")
]
SimulateOption = Annotated[int, typer.Option(help="Also simulate the longest phase this often.", min=0)]
PlotOption = Annotated[Path | None, typer.Option(help="HTML file for a plot.")]
SeedOption = Annotated[int, typer.Option(help="Seed of the draws.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def forecast(  # noqa: PLR0913
    plans: PlansArgument,
    tokens: TokensOption,
    price: PriceOption = None,
    deadline: DeadlineOption = None,
    budget: BudgetOption = None,
    overrides: SetOption = None,
    model_dir: ModelDirOption = None,
    checkpoint_interval_s: IntervalOption = None,
    spares: SparesOption = None,
    elastic: ElasticOption = False,
    rates: RatesOption = None,
    operation: OperationOption = None,
    simulate: SimulateOption = 0,
    plot: PlotOption = None,
    seed: SeedOption = 0,
    as_json: JsonOption = False,
) -> None:
    """Forecast the days, cost and interruptions of a training run, and how best to checkpoint it."""
    import json  # noqa: PLC0415

    from surrogate.forecast import forecast_run, load_policy, simulate_phase  # noqa: PLC0415

    given: dict[str, object] = {
        "checkpoint_interval_s": checkpoint_interval_s,
        "spares": spares,
        "price_per_gpu_hour": price,
        "when_short": "elastic" if elastic else None,
    }
    policy = load_policy(operation, rates, {name: value for name, value in given.items() if value is not None})
    phases = _predicted_phases(plans, tokens, overrides or [], model_dir)
    answer = forecast_run(phases, policy, deadline_days=deadline, budget=budget, seed=seed)
    longest = max(range(len(plans)), key=lambda row: answer.phases[row].days)
    simulated = simulate_phase(phases, policy, phase=longest, replications=simulate, seed=seed) if simulate else None
    if plot is not None:
        from surrogate.cli.forecast_figure import write_figure  # noqa: PLC0415

        write_figure(answer, plot, deadline_days=deadline)
    if as_json:
        extra = {} if simulated is None else {"simulated": asdict(simulated)}
        typer.echo(json.dumps(answer.to_dict() | extra, indent=2))
        return
    _print_forecast(answer, policy)
    if simulated is not None:
        low, high = simulated.ettr_p5, simulated.ettr_p95
        typer.echo(f"simulated {simulate} times: ETTR {simulated.ettr_mean:.1%} [90 %: {low:.1%}, {high:.1%}]")


def _predicted_phases(
    paths: list[Path], tokens: list[float], overrides: list[str], model_dir: Path | None
) -> TrainingPlans:
    from surrogate import api  # noqa: PLC0415
    from surrogate.forecast import training_plans  # noqa: PLC0415
    from surrogate.plan import load_plan, parse_overrides, plans_to_frame  # noqa: PLC0415

    plans = [load_plan(path, parse_overrides(overrides)) for path in paths]
    predictions = api.load_predictor(model_dir).predict_frame(plans_to_frame(plans))
    return training_plans(plans, predictions, tokens)


def _print_forecast(answer: Forecast, policy: RunPolicy) -> None:
    from rich.console import Console  # noqa: PLC0415

    console = Console(width=100, highlight=False)
    _print_quantiles(console, answer)
    low, high = answer.interruptions_p5, answer.interruptions_p95
    console.print(f"interruptions {answer.interruptions_mean:.0f} [90 %: {low:.0f}, {high:.0f}]")
    for name, probability in (("deadline", answer.deadline_probability), ("budget", answer.budget_probability)):
        if probability is not None:
            console.print(f"{name} kept with probability {probability:.0%}")
    if answer.never_finishes_probability > 0.0:
        console.print(f"never finishes with probability {answer.never_finishes_probability:.1%}")
    losses = ", ".join(f"{name.replace('_', ' ')} {share:.1%}" for name, share in answer.losses.items() if share > 5e-4)
    console.print(f"goodput (ETTR) {answer.ettr:.1%}; lost to {losses or 'nothing'}")
    _print_checkpoints(console, answer)
    kept = f", at most {policy.spare_risk:.2g} of the time short" if policy.spares is None else ""
    console.print(f"spare nodes {answer.spares:.0f}{kept}")
    _print_sensitivity(console, answer)


def _print_quantiles(console: Console, answer: Forecast) -> None:
    from rich.table import Table  # noqa: PLC0415

    table = Table()
    table.add_column("")
    for header in ("P10", "P50", "P90"):
        table.add_column(header, justify="right")
    table.add_row("days", *_cells(answer.days, ".1f"))
    table.add_row("GPU-hours, spares included", *_cells(answer.gpu_hours, ",.0f"))
    if answer.cost is not None:
        table.add_row("cost", *_cells(answer.cost, ",.0f"))
    console.print(table)


def _cells(spread: Spread, form: str) -> list[str]:
    values = (spread.p10, spread.p50, spread.p90)
    return ["never" if value is None else format(value, form) for value in values]


def _print_checkpoints(console: Console, answer: Forecast) -> None:
    longest = max(answer.phases, key=lambda phase: phase.days)
    size = f"{longest.checkpoint_bytes / TERA:.2f} TB, stall {longest.stall_s:.1f} s, {longest.persist_s:.0f} s behind"
    console.print(f"checkpoint every {answer.checkpoint_interval_s:.0f} s ({size})")
    if answer.checkpoint_interval_s != answer.best_checkpoint_interval_s:
        console.print(f"the best interval is {answer.best_checkpoint_interval_s:.0f} s")
    for other in answer.other_intervals:
        console.print(f"  every {other.interval_s:.0f} s: ETTR {other.ettr:.1%}, {other.extra_days:+.2f} days")


def _print_sensitivity(console: Console, answer: Forecast) -> None:
    from rich.table import Table  # noqa: PLC0415

    table = Table(title="expected days with one input moved", title_justify="left")
    for header in ("input", "low", "high"):
        table.add_column(header)
    table.add_column("days at low", justify="right")
    table.add_column("days at high", justify="right")
    for effect in answer.sensitivity:
        days = ("never" if value == float("inf") else f"{value:.1f}" for value in (effect.days_low, effect.days_high))
        table.add_row(effect.name, effect.low, effect.high, *days)
    console.print(table)
