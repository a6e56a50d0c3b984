"""The column reference as a document: `data/COLUMNS.md` is this text, and a test keeps it so."""

from __future__ import annotations

from typing import Final

from surrogate.schema import columns
from surrogate.schema.column import Column

_SECTIONS: Final = {
    "Identity": columns.IDENTITY,
    "Architecture": columns.ARCHITECTURE,
    "Hardware": columns.HARDWARE,
    "Layout": columns.LAYOUT,
    "Settings": columns.SETTINGS,
    "Measured": columns.MEASURED,
    "Provenance": columns.PROVENANCE,
    "Derived": columns.DERIVED,
}
_OPENING: Final = """# Columns of a runs table

One row is one steady-state training configuration: measured, tried (`status = oom`) or planned. Columns marked
**required** are needed to predict; every other one may be absent or empty, and an empty cell means not known.
Quantities are in SI units; a name in brackets is accepted on reading, in the unit that publications print, and
converted. Derived columns are computed by the package and never part of a source table.
"""


def column_reference() -> str:
    """Return the reference of all columns in Markdown."""
    sections = [f"\n## {title}\n\n" + _section(section) for title, section in _SECTIONS.items()]
    return _OPENING + "".join(sections)


def _section(section: tuple[Column, ...]) -> str:
    rows = [f"| {_name(column)} | {_values(column)} | {column.meaning} |" for column in section]
    return "\n".join(["| column | values | meaning |", "| --- | --- | --- |", *rows]) + "\n"


def _name(column: Column) -> str:
    published = f" [`{column.published.name}`, {column.published.unit}]" if column.published else ""
    return f"`{column.name}`{published}" + (" **required**" if column.required else "")


def _values(column: Column) -> str:
    parts = [column.kind.name.lower() + (f" in {column.unit}" if column.unit else "")]
    parts += ["above 0"] if column.positive else []
    parts += [f"at least {column.lower:g}"] if column.lower is not None else []
    parts += [f"at most {column.upper:g}"] if column.upper is not None else []
    parts += [", ".join(f"`{value}`" for value in column.allowed)] if column.allowed else []
    return "; ".join(parts)
