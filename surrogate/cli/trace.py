"""`surrogate trace`: where the time of a traced step goes, its replay, and what other settings would do."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from surrogate.traces import TraceReport

TracesArgument = Annotated[
    list[Path], typer.Argument(help="Kineto traces of one job, one per rank, or a folder of them.", show_default=False)
]
ReplayOption = Annotated[bool, typer.Option("--replay", help="Replay the task graph and show the critical path.")]
WhatIfOption = Annotated[
    list[str] | None,
    typer.Option(
        "--what-if",
        help="NAME=FACTOR or NAME=FROM:TO, several with commas: a kernel class or collective_bandwidth k times faster,"
        " dp, layers, hidden, pp, vp, microbatches, send_s.",
    ),
]
ToRunsOption = Annotated[Path | None, typer.Option(help="Write a runs table (.parquet, .csv) and priors beside it.")]
PlanOption = Annotated[Path | None, typer.Option(help="Plan of the traced run, to complete the row of --to-runs.")]
HtmlOption = Annotated[Path | None, typer.Option("--html", help="Write a page with breakdown and critical path.")]
SchedulerOption = Annotated[str | None, typer.Option(help="Read ranks on the Dask cluster at this address.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON, in SI units, instead of tables.")]


def trace(  # noqa: PLR0913 - one parameter per option
    traces: TracesArgument,
    replay: ReplayOption = False,
    what_if: WhatIfOption = None,
    to_runs: ToRunsOption = None,
    plan: PlanOption = None,
    html: HtmlOption = None,
    scheduler: SchedulerOption = None,
    as_json: JsonOption = False,
) -> None:
    """Tell where the time of a traced step goes, replay it, and predict what changes would do."""
    from surrogate.cli.trace_tables import print_pipeline, print_report, working
    from surrogate.traces import analyse_traces, as_plain, is_pipeline_folder, parse_edit, read_traces
    from surrogate.traces.run_files import write_run

    edits = [parse_edit(part) for text in what_if or () for part in text.split(",")]
    if len(traces) == 1 and is_pipeline_folder(traces[0]):
        print_pipeline(traces[0], edits, as_json=as_json)
        return
    with working("reading"):
        columns = read_traces(traces, scheduler=scheduler)
    with working("analysing"):
        report = analyse_traces(columns, with_replay=replay or html is not None, edits=edits)
    written = write_run(columns, to_runs, plan) if to_runs else None
    if html:
        _write_page(report, html)
    if as_json:
        typer.echo(json.dumps(as_plain(report) | ({"to_runs": as_plain(written)} if written else {})))
    else:
        print_report(report)
        if written:
            typer.echo(f"wrote {written.runs} and {written.priors_file} ({len(written.priors)} priors)")


def _write_page(report: TraceReport, file: Path) -> None:
    from surrogate.files import replaced_atomically
    from surrogate.report.trace_page import render_trace_page

    with replaced_atomically(file) as temporary:
        temporary.write_text(render_trace_page(report), encoding="utf-8")
