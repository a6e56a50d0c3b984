"""Predictions for people: the figures with units, a bar per cause, the evidence, and what was asked besides."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from surrogate.cli.memory_view import print_items, print_layouts, print_memory
from surrogate.cli.output import (
    bar,
    cause_name,
    console,
    gibibytes,
    percent,
    plain_table,
    seconds,
    significant,
    unknown_site,
)

if TYPE_CHECKING:
    from rich.console import Console

    from surrogate.api import Predictor
    from surrogate.api.anchor import AnchoredRatio
    from surrogate.api.explanation import Explanation
    from surrogate.api.judgement import Judgement
    from surrogate.api.memory_account import MemoryAccount
    from surrogate.api.prediction import Prediction

_SMALLEST_SHARE: Final = 0.0005
_MAX_CHANGES: Final = 12


class Extras(NamedTuple):
    """What a plan's prediction is printed with, where it was asked for."""

    memory: MemoryAccount | None = None
    ratio: AnchoredRatio | None = None
    judgement: Judgement | None = None
    explanation: Explanation | None = None

    def to_dict(self) -> dict[str, object]:
        """Return what JSON tells besides the prediction; the explanation holds the memory."""
        named = {"anchor": self.ratio, "judgement": self.judgement, "explanation": self.explanation}
        return {name: part.to_dict() for name, part in named.items() if part is not None}


def print_predictions(
    predictions: Sequence[Prediction], extras: Sequence[Extras], predictor: Predictor, *, coverage: float
) -> None:
    """Print predictions one after the other, and at the end which predictor they come from."""
    screen = console()
    for prediction, extra in zip(predictions, extras, strict=True):
        _print_figures(screen, prediction, extra.memory, coverage)
        if extra.ratio is not None:
            _print_ratio(screen, extra.ratio)
        if extra.judgement is not None:
            print_judgement(screen, extra.judgement)
        _print_breakdown(screen, prediction)
        if extra.memory is not None:
            print_memory(screen, extra.memory)
        if extra.explanation is not None:
            _print_explanation(screen, extra.explanation)
        if extra.memory is not None and not extra.memory.fits:
            print_layouts(screen, extra.memory.nearest_layouts)
        _print_evidence(screen, prediction)
    screen.print(f"predictor: {predictor.describe()}", markup=False, style="dim")
    if note := unknown_site(predictor.site):
        screen.print(note, markup=False)


def print_judgement(screen: Console, judgement: Judgement) -> None:
    """Print a verdict on a measured step time."""
    measured, expected = seconds(judgement.measured_step_time_s), seconds(judgement.expected_step_time_s)
    colour = {"normal": "green", "slow": "red", "fast": "yellow"}[judgement.verdict]
    screen.print(
        f"  measured {measured} is [{colour}]{judgement.verdict}[/]: "
        f"{percent(judgement.deviation, signed=True)} against {expected} expected from {judgement.reference}"
    )
    limits = f"{seconds(judgement.normal_lower_s)} to {seconds(judgement.normal_upper_s)}"
    slow, fast = percent(judgement.smallest_callable_slowdown), percent(judgement.smallest_callable_speedup)
    screen.print(f"  normal is {limits}; at this knowledge {slow} more or {fast} less could be called")
    if judgement.causes:
        rows = [(cause.cause, significant(cause.ratio), f"{cause.explained:.0%}") for cause in judgement.causes]
        screen.print(plain_table(("what would explain it", "x step time", "of the gap"), rows))


def _print_figures(screen: Console, item: Prediction, memory: MemoryAccount | None, coverage: float) -> None:
    screen.print(f"\n[bold]{item.run_id}[/bold]")
    interval = f"{seconds(item.step_time_lower_s)} and {seconds(item.step_time_upper_s)}"
    screen.print(f"  step time   [bold]{seconds(item.step_time_s)}[/bold], {100.0 * coverage:g} % between {interval}")
    rate = f"{significant(item.tokens_per_s_per_gpu)} tokens/s per accelerator"
    screen.print(f"  throughput  {rate}, MFU {percent(item.mfu)}")
    fits = "[green]fits[/green]" if item.feasible else "[red]does not fit safely[/red]"
    risk = f"risk of running out {percent(item.oom_probability)}"
    screen.print(f"  memory      {_peak(item, memory)}")
    screen.print(f"  fit         {risk}: {fits}")
    screen.print(f"  failures    {significant(item.expected_failures_per_day, 2)} per day expected")
    if item.in_domain:
        return
    screen.print(f"  [yellow]outside what was measured[/yellow]: {'; '.join(item.out_of_domain_reasons)}")


def _peak(item: Prediction, memory: MemoryAccount | None) -> str:
    peak = f"[bold]{gibibytes(item.peak_memory_bytes)}[/bold]"
    if memory is None:
        return f"{peak} per accelerator"
    interval = f"90 % between {gibibytes(memory.peak_lower_bytes)} and {gibibytes(memory.peak_upper_bytes)}"
    return f"{peak} per accelerator, {interval}"


def _print_ratio(screen: Console, ratio: AnchoredRatio) -> None:
    limits = f"{significant(ratio.ratio_lower)} to {significant(ratio.ratio_upper)}"
    measured = seconds(ratio.measured_step_time_s)
    screen.print(f"  {significant(ratio.ratio)} times ({limits}) the step of {ratio.run_id}, measured at {measured}")


def _print_breakdown(screen: Console, item: Prediction) -> None:
    total = item.step_time_s
    parts = sorted(item.breakdown.items(), key=lambda entry: -entry[1])
    largest = parts[0][1]
    rows = [
        (cause_name(name), seconds(value), percent(value / total), bar(value / largest))
        for name, value in parts
        if value / total >= _SMALLEST_SHARE
    ]
    table = plain_table(("where the time goes", "per step", "share", ""), rows)
    table.columns[-1].justify = "left"
    screen.print(table)


def _print_explanation(screen: Console, explanation: Explanation) -> None:
    habits = {
        "release": "this site's release",
        "family": "this publisher's other releases",
        "population": "all sites",
    }.get(explanation.site_knowledge, explanation.site_knowledge)
    screen.print(
        f"  {percent(explanation.lost_fraction)} of the step computes nothing new; coefficients follow {habits}; "
        f"the learned residual multiplies the analytic time by {explanation.residual_factor:.3f}"
    )
    effects = explanation.changes
    if len(effects) > _MAX_CHANGES:
        effects = [*effects[: _MAX_CHANGES // 2], *effects[-_MAX_CHANGES // 2 :]]
    rows = [
        (effect.change, seconds(effect.step_time_s), percent(effect.ratio - 1.0, signed=True),
         gibibytes(effect.peak_memory_bytes))
        for effect in effects
    ]  # fmt: skip
    screen.print(plain_table(("if", "step time", "change", "memory"), rows))
    print_items(screen, explanation.memory)


def _print_evidence(screen: Console, item: Prediction) -> None:
    rows = [
        (
            str(run["run_id"]),
            str(run["source"]),
            significant(float(str(run["distance"]))),
            seconds(float(str(run["measured_step_time_s"]))),
            seconds(float(str(run["predicted_step_time_s"]))),
        )
        for run in item.nearest_runs
    ]
    header = ("nearest measured runs", "source", "distance", "measured", "held out")
    screen.print(plain_table(header, rows, texts=2))
    if item.imputed:
        screen.print(f"  not said, filled by rule: {', '.join(item.imputed)}", markup=False)
