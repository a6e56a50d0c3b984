"""`surrogate ingest`: training logs to rows of the runs table."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from surrogate.errors import InputError

_SHOWN = {
    "run_id": "run", "framework": "framework", "status": "status", "step_time_s": "step s", "step_time_p95_s": "p95 s",
    "step_time_cv": "cv", "n_steps": "steps", "tokens_per_s_per_gpu": "tokens/s/GPU", "mfu": "MFU",
    "peak_memory_bytes": "peak GiB",
}  # fmt: skip


def ingest(
    logs: Annotated[list[Path], typer.Argument(help="Training logs, plain or .gz.", show_default=False)],
    plan: Annotated[Path | None, typer.Option(help="Plan (YAML) with what the logs do not print.")] = None,
    source: Annotated[str | None, typer.Option(help="Name of the site the rows belong to.")] = None,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="Runs file to write (.parquet or .csv).")
    ] = None,
    format_: Annotated[str | None, typer.Option("--format", help="Log format; detected when not given.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Read training logs: steady-state step time, tokens/s, memory, and the configuration they print."""
    from surrogate.ingest.table import check_ingested, ingest_logs, rows_as_json, write_rows

    result = ingest_logs(logs, plan=plan, source=source, format=format_)
    notes = list(result.notes)
    if output is not None:
        if result.rows.empty:
            raise InputError("LOG", "must hold at least one training run", ", ".join(map(str, logs)), "; ".join(notes))
        notes += check_ingested(result.rows, str(output), complete=plan is not None)
        write_rows(result.rows, output)
    if as_json:
        import orjson

        typer.echo(orjson.dumps({"runs": rows_as_json(result.rows), "notes": notes}).decode())
        return
    if output is not None:
        typer.echo(f"wrote {len(result.rows)} row(s) to {output}")
    else:
        typer.echo(_table(rows_as_json(result.rows)))
    for note in notes:
        typer.echo(f"note: {note}", err=True)


def _table(rows: list[dict[str, object]]) -> str:
    """Aligned columns of what was measured."""
    lines = [list(_SHOWN.values()), *([_cell(name, row[name]) for name in _SHOWN] for row in rows)]
    widths = [max(len(line[index]) for line in lines) for index in range(len(_SHOWN))]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
                     for line in lines)  # fmt: skip


def _cell(name: str, value: object) -> str:
    from surrogate.units import GIB

    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value / GIB:.1f}" if name == "peak_memory_bytes" else f"{value:.5g}"
    return str(value)
