"""`surrogate data build|validate|describe`: the table of measured runs."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

if TYPE_CHECKING:
    from surrogate.derive import RunsSummary
    from surrogate.errors import RowProblem

data_app = typer.Typer(help="Build, check and describe tables of runs.", no_args_is_help=True)

FileArgument = Annotated[Path, typer.Argument(help="A runs table, .csv or .parquet.", show_default=False)]
SourcesOption = Annotated[Path, typer.Option(help="Folder of source tables, one CSV file per publication.")]
OutputOption = Annotated[Path, typer.Option("--output", "-o", help="Where to write the joined table.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]

_SHOWN_COUNTS: Final = 12
_SHOWN_MISSING: Final = 40


@data_app.command()
def build(
    sources: SourcesOption = Path("data/sources"),
    output: OutputOption = Path("data/runs.parquet"),
    as_json: JsonOption = False,
) -> None:
    """Join the source tables into one parquet file: the same sources give the same bytes."""
    from surrogate.derive import build_runs
    from surrogate.schema import table_digest, write_parquet

    runs = build_runs(sources)
    write_parquet(runs, output)
    facts = {
        "output": str(output),
        "rows": len(runs),
        "sources": runs["source"].nunique(),
        "digest": table_digest(runs),
    }
    if as_json:
        typer.echo(json.dumps(facts))
    else:
        typer.echo(f"{output}: {facts['rows']} runs of {facts['sources']} sources, sha256 {facts['digest']}")


@data_app.command()
def validate(file: FileArgument, as_json: JsonOption = False) -> None:
    """Check a table against the schema and report every bad row at once (exit code 1 if there is any)."""
    from surrogate.derive import check_table
    from surrogate.schema import read_table

    table = read_table(file)
    problems = check_table(table).problems
    if as_json:
        listed = [_problem_fields(problem) for problem in problems]
        typer.echo(json.dumps({"file": str(file), "rows": len(table), "valid": not problems, "problems": listed}))
    elif problems:
        _print_problems(file, problems)
    else:
        typer.echo(f"{file}: {len(table)} rows, all valid")
    raise typer.Exit(1 if problems else 0)


@data_app.command()
def describe(file: FileArgument, as_json: JsonOption = False) -> None:
    """Say what a table covers: rows, sources, accelerators, models, ranges and missing shares."""
    from surrogate.derive import load_runs, summarise_runs

    summary = summarise_runs(load_runs(file))
    if as_json:
        typer.echo(json.dumps(summary._asdict()))
    else:
        _print_summary(file, summary)


def _problem_fields(problem: RowProblem) -> dict[str, object]:
    return {name: getattr(problem, name) for name in ("row", "run_id", "column", "rule", "value")}


def _print_problems(file: Path, problems: Sequence[RowProblem]) -> None:
    rows = [(str(p.row), p.run_id, p.column, p.rule, p.value) for p in problems]
    typer.echo(f"{file}: {len(problems)} problem(s)")
    _print_table("", ("row", "run_id", "column", "rule", "got"), rows)


def _print_summary(file: Path, summary: RunsSummary) -> None:
    span = " to ".join(summary.dates) if summary.dates else "no dates"
    typer.echo(
        f"{file}: {summary.rows} rows ({summary.measured} with a time, {summary.oom} out of memory, "
        f"{summary.duplicates} duplicates), {summary.models} models, {summary.split_groups} split groups, {span}"
    )
    typer.echo(f"sha256 {summary.digest}")
    ranges = [(name, *(f"{value:.4g}" for value in limits.values())) for name, limits in summary.ranges.items()]
    _print_table("ranges (SI units)", ("column", "smallest", "median", "largest"), ranges)
    _print_table(
        "rows by value", ("column", "values"), [(n, _most_frequent(c)) for n, c in summary.counts.items() if c]
    )
    shares = list(summary.missing_fraction.items())[:_SHOWN_MISSING]
    _print_table("missing in rows", ("column", "share"), [(name, f"{100 * share:.1f} %") for name, share in shares])


def _most_frequent(counts: Mapping[str, int]) -> str:
    shown = [f"{value} {rows}" for value, rows in list(counts.items())[:_SHOWN_COUNTS]]
    rest = len(counts) - len(shown)
    return ", ".join(shown) + (f", and {rest} more" if rest > 0 else "")


def _print_table(title: str, header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(title=title or None, title_justify="left")
    for name in header:
        table.add_column(name, overflow="fold")
    for row in rows:
        table.add_row(*row)
    Console().print(table, markup=False)
