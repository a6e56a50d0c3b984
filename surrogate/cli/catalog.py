"""`surrogate catalog list|show`: what the catalogue knows, with units and sources."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, fields
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Final

import typer

from surrogate.units import BYTES_PER_S_PER_GBIT_PER_S, GIB, GIGA, TERA

if TYPE_CHECKING:
    from rich.table import Table

    from surrogate.catalog import Entry

catalog_app = typer.Typer(
    help="What is publicly known about accelerators, models, networks and clusters.", no_args_is_help=True
)


class CatalogKind(StrEnum):
    """The tables of the catalogue."""

    ACCELERATORS = "accelerators"
    MODELS = "models"
    INTERCONNECTS = "interconnects"
    CLUSTERS = "clusters"


KindArgument = Annotated[CatalogKind, typer.Argument(help="Which table.")]
NameArgument = Annotated[str, typer.Argument(help="Name or alias of an accelerator, model, link, cluster or source.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON, in SI units, instead of a table.")]

_OVERVIEW: Final[dict[CatalogKind, dict[str, str]]] = {
    CatalogKind.ACCELERATORS: {
        "name": "name",
        "hbm_bytes": "memory",
        "hbm_bytes_per_s": "HBM",
        "bf16_flops_per_s": "bf16",
        "fp8_flops_per_s": "fp8",
        "fp4_flops_per_s": "fp4",
        "fast_link_bytes_per_s": "link",
        "release": "since",
    },
    CatalogKind.MODELS: {
        "name": "name",
        "published_params": "params",
        "published_active_params": "active",
        "num_layers": "layers",
        "hidden_size": "hidden",
        "num_experts": "experts",
        "attention": "attn",
        "date": "since",
    },
    CatalogKind.INTERCONNECTS: {
        "name": "name",
        "scope": "scope",
        "bytes_per_s": "rate",
        "all_to_all": "all-to-all",
        "date": "since",
        "kind": "kind",
    },
    CatalogKind.CLUSTERS: {
        "source": "publication",
        "cluster": "cluster",
        "accelerator": "accelerator",
        "inter_node_bytes_per_s": "network/node",
        "fabric": "fabric",
        "confidence": "network figure",
    },
}

_KEPT_WHOLE: Final = frozenset({"name", "date", "release"})
_CAPTION: Final = {
    CatalogKind.ACCELERATORS: "peaks dense; link in one direction",
    CatalogKind.MODELS: "parameters as published",
    CatalogKind.INTERCONNECTS: "nominal, one direction; networks per port",
    CatalogKind.CLUSTERS: "nominal, one direction",
}
_NETWORK_FIELDS: Final = frozenset({"nic_bytes_per_s", "inter_node_bytes_per_s"})
_UNIT_BY_ENDING: Final = (
    ("_flops_per_s", "TFLOP/s", TERA),
    ("bytes_per_s", "GB/s", GIGA),
    ("_bytes", "GiB", GIB),
    ("_params", "B", GIGA),
    ("_hz", "GHz", GIGA),
    ("_w", "W", 1.0),
)
"""Ending of a field's name, unit to print and its size in SI; the first that fits counts."""


@catalog_app.command("list")
def list_entries(kind: KindArgument, *, as_json: JsonOption = False) -> None:
    """List one table of the catalogue; rates are in one direction, peaks without sparsity."""
    from surrogate.catalog import load_kind

    entries = load_kind(kind.value)
    if as_json:
        _print_json(entries)
    else:
        _print_tables([_overview(kind, entries)])


@catalog_app.command("show")
def show_entry(name: NameArgument, *, as_json: JsonOption = False) -> None:
    """Show everything the catalogue holds under a name, with its sources."""
    from surrogate.catalog import find_entries

    entries = find_entries(name)
    if as_json:
        _print_json(entries)
    else:
        _print_tables([_details(entry) for entry in entries])


def printed_unit(field: str) -> tuple[str, float]:
    """Return the unit a field is printed in and that unit's size in SI; no unit for counts and text.

    Examples
    --------
    >>> printed_unit("hbm_bytes_per_s"), printed_unit("inter_node_bytes_per_s"), printed_unit("num_layers")
    (('GB/s', 1000000000.0), ('Gbit/s', 125000000.0), ('', 1.0))
    """
    if field in _NETWORK_FIELDS:
        return "Gbit/s", BYTES_PER_S_PER_GBIT_PER_S
    return next(((unit, size) for ending, unit, size in _UNIT_BY_ENDING if field.endswith(ending)), ("", 1.0))


def value_text(field: str, value: object) -> str:
    """Return a value of a catalogue field in its printed unit, without the unit; nothing prints as a dash.

    Examples
    --------
    >>> value_text("hbm_bytes_per_s", 3.35e12), value_text("tdp_w", None), value_text("all_to_all", True)
    ('3350', '-', 'yes')
    """
    if value is None or value == "":
        return "-"
    if isinstance(value, tuple):
        return "\n".join(map(str, value))
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value / printed_unit(field)[1]:.6g}" if isinstance(value, float) else str(value)


def _overview(kind: CatalogKind, entries: Sequence[Entry]) -> Table:
    from rich import box
    from rich.table import Table

    title = f"{len(entries)} {kind.value}"
    table = Table(title=title, caption=_CAPTION[kind], box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    for field, heading in _OVERVIEW[kind].items():
        unit = printed_unit(field)[0]
        table.add_column(
            f"{heading}\n{unit}",
            justify="right" if unit else "left",
            overflow="fold",
            no_wrap=bool(unit) or field in _KEPT_WHOLE,
        )
    for entry in entries:
        table.add_row(*(value_text(field, getattr(entry, field)) for field in _OVERVIEW[kind]))
    return table


def _details(entry: Entry) -> Table:
    from rich.table import Table

    table = Table(title=type(entry).__name__, show_header=False)
    table.add_column("field", style="bold", no_wrap=True)
    table.add_column("value", overflow="fold")
    for field in fields(entry):
        value = getattr(entry, field.name)
        if value not in (None, "", ()):
            table.add_row(field.name, f"{value_text(field.name, value)} {printed_unit(field.name)[0]}")
    return table


def _print_tables(tables: Sequence[Table]) -> None:
    from rich.console import Console

    Console().print(*tables, sep="\n", markup=False)


def _print_json(entries: Sequence[Entry]) -> None:
    typer.echo(json.dumps([asdict(entry) for entry in entries], indent=2))
