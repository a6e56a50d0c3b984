"""`surrogate report`: one HTML page on plans, to send to others."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from surrogate.analytic.part_names import PART_NAMES
from surrogate.cli.output import print_json

PlansArgument = Annotated[list[Path], typer.Argument(help="Plans (YAML, JSON) or launch configurations.")]
OutputOption = Annotated[Path, typer.Option("--output", "-o", help="HTML file to write.")]
SetOption = Annotated[
    list[str] | None, typer.Option("--set", help="Override a key of every plan.", metavar="KEY=VALUE")
]
SiteOption = Annotated[str | None, typer.Option(help="Site whose habits apply.")]
ModelDirOption = Annotated[Path | None, typer.Option(help="Predictor to use.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print what was written as JSON.")]


def report(  # noqa: PLR0913 - one parameter per option
    plans: PlansArgument,
    output: OutputOption = Path("report.html"),
    overrides: SetOption = None,
    site: SiteOption = None,
    model_dir: ModelDirOption = None,
    as_json: JsonOption = False,
) -> None:
    """Write one HTML page on plans: figures, where the time goes, what changes would do, evidence."""
    from surrogate import api
    from surrogate.files import write_text_atomically
    from surrogate.plan import parse_overrides, plans_to_frame
    from surrogate.report import plan_page

    predictor = api.load_predictor(model_dir)
    if site is not None:
        predictor = api.choose_site(predictor, site)
    frame = plans_to_frame(api.read_plans(plans, parse_overrides(overrides or [])))
    predictions = api.predict(frame, predictor)
    explanations = [api.explain(frame.iloc[[row]], predictor) for row in range(len(frame))]
    write_text_atomically(output, plan_page(predictions, explanations, predictor, PART_NAMES))
    if as_json:
        print_json({"output": str(output), "plans": [item.run_id for item in predictions], "model": predictor.name})
    else:
        typer.echo(f"{output}: {len(predictions)} plans")
