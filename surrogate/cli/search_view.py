"""How a search result is printed for people."""

from __future__ import annotations

from shutil import get_terminal_size
from typing import TYPE_CHECKING, Any

from surrogate.cli.output import console, percent, plain_table, seconds, significant
from surrogate.units import GIB

if TYPE_CHECKING:
    import pandas as pd
    from rich.console import Console
    from rich.table import Table

    from surrogate.search import SearchResult

_SHORT = {
    "tokens_per_s_per_gpu": "tokens/s/GPU",
    "global_batch_size": "batch",
    "micro_batch_size": "mbs",
    "zero_stage": "zero",
    "sequence_parallel": "sp",
    "cpu_offload": "offload",
    "num_gpus": "gpus",
    "pipeline_schedule": "schedule",
}
_INSIDE = {"recompute_layers": "recompute"}
"""Columns that are shown inside the cell of another."""
_LAYOUT_END = "step_time_s"
_FOLLOW = ("dp", "pipeline_schedule")
"""Columns that the others decide; they are in the JSON."""
_MOST_REASONS = 4
_FIGURES = ("step s", "90 %", "tok/s/GPU", "GiB", "OOM risk")
_FORECAST = {"days": "days", "cost": "cost"}
_MISSING = "-"
_NARROW = (0, 0, 0, 1)
"""Padding of cells: a layout has many columns."""
_WIDEST = 200


def print_result(result: SearchResult) -> None:
    """Print the best layouts, why each beats the next, near misses, and what to do when nothing fits."""
    out = console()
    out.print(_how(result))
    if len(result.best):
        _print_ranking(out, result.best)
        _print_reasons(out, result)
    _print_misses(out, result)
    _print_shortage(out, result)


def _how(result: SearchResult) -> str:
    if result.exhaustive:
        proved = "the first is the optimum" if result.is_ranking else "the front is complete"
        proof = f": {proved}" if len(result.best) else ""
        return f"all {result.evaluated:,} layouts that exist were considered{proof}"
    stopped = "stopped: the best so far, " if result.interrupted else ""
    if result.enumerated:
        return f"{stopped}{result.evaluated:,} layouts were considered"
    return f"{stopped}{result.evaluated:,} layouts were tried by Optuna; --exhaustive considers all"


def _print_ranking(out: Console, best: pd.DataFrame) -> None:
    """Print what the best have in common in one line, what differs and the predictions as a table."""
    settings = [_settings(row, _layout(best)) for _, row in best.iterrows()]
    differing = [name for name in settings[0] if len({cells[name] for cells in settings}) > 1]
    common = [f"{name}={text}" for name, text in settings[0].items() if name not in differing]
    if common:
        out.print(f"all: {', '.join(common)}")
    forecast = [name for name in _FORECAST if name in best]
    header = ["", *(_SHORT.get(name, name) for name in differing), *_FIGURES, *(_FORECAST[name] for name in forecast)]
    rows = [
        [
            str(place + 1),
            *(cells[name] for name in differing),
            significant(row["step_time_s"]),
            f"{significant(row['step_time_lower_s'], 2)}-{significant(row['step_time_upper_s'], 2)}",
            significant(row["tokens_per_s_per_gpu"]),
            significant(row["peak_memory_bytes"] / GIB),
            percent(row["oom_probability"]),
            *(significant(row[name]) for name in forecast),
        ]
        for place, (cells, (_, row)) in enumerate(zip(settings, best.iterrows(), strict=True))
    ]
    table = plain_table(header, rows)
    table.padding = _NARROW
    _print_whole(out, table)


def _print_whole(out: Console, table: Table) -> None:
    """Print a table as wide as it needs, if the terminal is: many columns are hard to read when they fold."""
    usual = out.width
    out.width = max(usual, get_terminal_size((_WIDEST, 0)).columns)
    out.print(table)
    out.width = usual


def _settings(row: pd.Series, layout: list[str]) -> dict[str, str]:
    """Return the cells that tell a candidate apart; recomputed layers stand beside the kind of recomputation."""
    cells = {name: _cell(row[name]) for name in layout}
    for name, whole in _INSIDE.items():
        part = cells.pop(name, _MISSING)
        if part != _MISSING and whole in cells:
            cells[whole] = f"{cells[whole]} {part}"
    return cells


def _layout(table: pd.DataFrame) -> list[str]:
    columns = list(table.columns)
    return [name for name in columns[: columns.index(_LAYOUT_END)] if name not in _FOLLOW or _is_chosen(table, name)]


def _is_chosen(table: pd.DataFrame, name: str) -> bool:
    """Tell whether a column that usually follows from others was searched."""
    usual = {"1f1b", "interleaved-1f1b"}
    return name == "pipeline_schedule" and not set(table[name].astype(str)) <= usual


def _print_reasons(out: Console, result: SearchResult) -> None:
    best = result.best
    verb = "beats" if result.is_ranking else "is faster than"
    out.print(f"bottleneck of the first, beside compute: {best['bottleneck'].iloc[0]}")
    for place, comparison in enumerate(result.comparisons[:_MOST_REASONS], start=1):
        sure = percent(comparison.probability_faster)
        out.print(f"{place} {verb} {place + 1} with probability {sure}: {comparison.sentence()}")
    for place, reasons in enumerate(best["out_of_domain_reasons"], start=1):
        if len(reasons):
            out.print(f"{place} is out of domain: {'; '.join(map(str, reasons))}")


def _print_misses(out: Console, result: SearchResult) -> None:
    misses = result.near_misses
    if not len(misses):
        return
    out.print("\nnear misses, among these but for memory:" if len(result.best) else "\nnear misses:")
    layout = _layout(misses)
    for _, row in misses.iterrows():
        settings = " ".join(f"{_SHORT.get(name, name)}={text}" for name, text in _settings(row, layout).items())
        out.print(f"  {seconds(row['step_time_s'])}  {settings}\n    {row['binding_constraint']}")


def _print_shortage(out: Console, result: SearchResult) -> None:
    shortage = result.shortage
    if shortage is None:
        if not len(result.best):
            out.print("nothing was found: give more --trials or --seconds, or --exhaustive")
        return
    out.print(f"{'nothing' if result.enumerated else 'nothing that was tried'} fits. The least risky layout:")
    out.print("  " + " ".join(f"{name}={_cell(value)}" for name, value in shortage.layout.items()))
    out.print(f"  {shortage.constraint}")
    if not shortage.changes:
        out.print("no change of one column, nor of all with 8 times the accelerators, makes anything fit")
    for change in shortage.changes:
        what = ", ".join(f"{name} = {_cell(value)}" for name, value in change.values.items())
        out.print(f"  fits with {what}: {seconds(change.step_time_s)}, risk {percent(change.oom_probability)}")


def _cell(value: Any) -> str:
    text = str(value)
    return {"<NA>": _MISSING, "None": _MISSING, "nan": _MISSING, "True": "yes", "False": "no"}.get(text, text)
