"""`surrogate reliability fit`: failure rates from a site's own log."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from surrogate.errors import InputError
from surrogate.units import SECONDS_PER_DAY

if TYPE_CHECKING:
    from surrogate.reliability.events import ExposureWindow
    from surrogate.reliability.fit import RateFit

reliability_app = typer.Typer(help="Failure rates of a cluster.", no_args_is_help=True)

_EXPOSURE_HELP = "What the log covers: days, or START..END as ISO dates."


@reliability_app.callback()
def _reliability() -> None:
    """Failure rates of a cluster."""


@reliability_app.command()
def fit(  # noqa: PLR0913
    events: Annotated[Path, typer.Argument(help="CSV: start or start_day, component; optional node, end or end_day.")],
    exposure: Annotated[str, typer.Option(help=_EXPOSURE_HELP)],
    nodes: Annotated[int, typer.Option(help="Nodes watched.")],
    gpus_per_node: Annotated[int, typer.Option(help="Accelerators per node.")] = 8,
    accelerator: Annotated[str, typer.Option(help="Catalogue name; chooses the published rates to start from.")] = "",
    young: Annotated[bool, typer.Option("--young", help="Start from the rates of new and cloud clusters.")] = False,
    merge_overlaps: Annotated[
        bool, typer.Option("--merge-overlaps", help="Join overlapping outages of a node.")
    ] = False,
    output: Annotated[Path | None, typer.Option("-o", "--output", help="File for `forecast --rates`.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Update published failure rates by your own failures, and say what departs from a constant rate."""
    import json  # noqa: PLC0415

    from surrogate.files import replaced_atomically  # noqa: PLC0415
    from surrogate.reliability.events import load_failure_log  # noqa: PLC0415
    from surrogate.reliability.fit import fit_rates  # noqa: PLC0415
    from surrogate.reliability.hardware import hardware_counts  # noqa: PLC0415

    log = load_failure_log(events, exposure_window(exposure, nodes), merge_overlaps=merge_overlaps)
    counts = hardware_counts(num_gpus=nodes * gpus_per_node, gpus_per_node=gpus_per_node)
    fitted = fit_rates(log, counts=counts, accelerator=accelerator, maturity="young" if young else "tuned")
    answer = json.dumps(fitted.to_dict(), indent=2)
    if output is not None:
        with replaced_atomically(output) as temporary:
            temporary.write_text(answer + "\n", encoding="utf-8")
    if as_json:
        typer.echo(answer)
        return
    _print_fit(fitted)
    if output is not None:
        typer.echo(f"wrote {output}")


def exposure_window(text: str, num_nodes: int) -> ExposureWindow:
    """Return the window that ``--exposure`` means: a number of days, or START..END.

    Raises
    ------
    InputError
        For text that is neither, or a window of no length.
    """
    from surrogate.reliability.events import ExposureWindow  # noqa: PLC0415

    try:
        if ".." not in text:
            return ExposureWindow(days=float(text), num_nodes=num_nodes)
        start, end = (datetime.fromisoformat(part) for part in text.split("..", 1))
        days = (end - start).total_seconds() / SECONDS_PER_DAY
    except (ValueError, TypeError) as error:
        way_out = "for example 90, or 2026-01-01..2026-04-01"
        raise InputError("exposure", "must be a number of days or START..END", text, way_out) from error
    return ExposureWindow(days=days, num_nodes=num_nodes, start=start)


def _print_fit(fitted: RateFit) -> None:
    from rich.console import Console  # noqa: PLC0415
    from rich.table import Table  # noqa: PLC0415

    from surrogate.reliability.fit import component_table  # noqa: PLC0415

    mean, low, high = fitted.failures_per_day()
    table = Table(title="failures per day of the cluster watched, 90 % credible", title_justify="left")
    table.add_column("component")
    for header in ("events", "published", "updated", "from", "to"):
        table.add_column(header, justify="right")
    before = component_table(fitted.prior, fitted.counts)
    for published, row in zip(before, component_table(fitted.posterior, fitted.counts), strict=True):
        name = str(row["component"])
        rates = (published["per_day"], row["per_day"], row["per_day_p5"], row["per_day_p95"])
        table.add_row(name, str(fitted.events.get(name, 0)), *(f"{rate:.4f}" for rate in rates))
    console = Console(width=100)
    console.print(table)
    console.print(f"{mean:.3f} failures per day in all [{low:.3f}, {high:.3f}]", highlight=False)
    for sentence in fitted.departures() or ("no departure from a constant, independent rate was found",):
        console.print(sentence, highlight=False)
