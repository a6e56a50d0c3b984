"""`surrogate max` and `surrogate min`: the largest value that still fits in memory, and the fewest accelerators."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from surrogate.cli.output import gibibytes, percent, seconds

if TYPE_CHECKING:
    import pandas as pd

    from surrogate.feasibility.candidates import PlanPredictor
    from surrogate.feasibility.inverse import InverseAnswer

PlanArgument = Annotated[Path, typer.Argument(help="Plan to start from.", show_default=False)]
LargestOption = Annotated[str, typer.Option("--of", help="micro_batch_size, seq_len, global_batch_size, model_layers.")]
SmallestOption = Annotated[str, typer.Option("--of", help="num_gpus.")]
RiskOption = Annotated[float, typer.Option("--oom-risk", help="Risk of running out of memory to accept.", min=0, max=1)]
SetOption = Annotated[list[str] | None, typer.Option("--set", help="Override a key of the plan, as tp=8.")]
ModelDirOption = Annotated[Path | None, typer.Option(help="Predictor to use.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]

DEFAULT_RISK = 0.05


def largest(
    plan: PlanArgument,
    of: LargestOption,
    oom_risk: RiskOption = DEFAULT_RISK,
    overrides: SetOption = None,
    model_dir: ModelDirOption = None,
    as_json: JsonOption = False,
) -> None:
    """Find the largest value of a field with which a plan still fits in memory."""
    from surrogate.feasibility.inverse import largest_that_fits  # noqa: PLC0415

    frame, predict = _plan_and_predictor(plan, overrides or [], model_dir)
    _print(largest_that_fits(frame, of, predict, oom_risk=oom_risk), oom_risk, as_json=as_json)


def smallest(
    plan: PlanArgument,
    of: SmallestOption = "num_gpus",
    oom_risk: RiskOption = DEFAULT_RISK,
    overrides: SetOption = None,
    model_dir: ModelDirOption = None,
    as_json: JsonOption = False,
) -> None:
    """Find the fewest accelerators on which a plan fits in memory, whatever its layout."""
    from surrogate.feasibility.inverse import smallest_that_fits  # noqa: PLC0415

    frame, predict = _plan_and_predictor(plan, overrides or [], model_dir)
    _print(smallest_that_fits(frame, of, predict, oom_risk=oom_risk), oom_risk, as_json=as_json)


def _plan_and_predictor(path: Path, overrides: list[str], model_dir: Path | None) -> tuple[pd.DataFrame, PlanPredictor]:
    from surrogate import api  # noqa: PLC0415
    from surrogate.plan import load_plan, parse_overrides, plans_to_frame  # noqa: PLC0415

    frame = plans_to_frame([load_plan(path, parse_overrides(overrides))])
    predictor = api.load_predictor(model_dir)
    return frame, predictor.predict_frame


def _print(answer: InverseAnswer, oom_risk: float, *, as_json: bool) -> None:
    import json  # noqa: PLC0415

    if as_json:
        typer.echo(json.dumps({**answer.to_dict(), "oom_risk": oom_risk}, indent=2))
        return
    for line in _lines(answer, oom_risk):
        typer.echo(line)


def _lines(answer: InverseAnswer, oom_risk: float) -> Iterator[str]:
    """Yield the answer for people: the value with its figures, what is beyond, what to do where nothing fits."""
    if answer.value is None:
        yield f"{answer.field}: nothing fits at a risk of {100.0 * oom_risk:g} % ({answer.evaluated} plans tried)"
        if answer.next_value is not None:
            yield f"even {answer.next_value} leaves a risk of {percent(answer.next_oom_probability)}"
        yield "`surrogate predict` names the nearest layouts that fit, `surrogate search` tries all"
        return
    yield f"{answer.field}: {answer.value}"
    yield "set: " + ", ".join(_assignment(name, value) for name, value in answer.changes.items())
    figures = gibibytes(answer.peak_memory_bytes), percent(answer.oom_probability), seconds(answer.step_time_s)
    yield "peak {}, risk {}, step {}".format(*figures)
    if answer.next_value is not None:
        yield f"next: {answer.next_value} at a risk of {percent(answer.next_oom_probability)}"
    elif not answer.bounded_by_memory:
        yield f"memory sets no bound: {answer.limit}"


def _assignment(name: str, value: object) -> str:
    return f"{name}=" if value is None else f"{name}={value}"
