"""Read the catalogue's own tables: CSV files beside this module, one row per entry, units in the column names."""

from __future__ import annotations

import csv
from decimal import Decimal
from importlib.resources import files

Row = dict[str, str]


def read_table(name: str) -> list[Row]:
    """Return the rows of one packaged table, every value as text.

    Parameters
    ----------
    name : str
        File name without the ending, for example ``"accelerators"``.
    """
    text = (files("surrogate.catalog") / "data" / f"{name}.csv").read_text(encoding="utf-8")
    return list(csv.DictReader(text.splitlines()))


def split_list(text: str) -> tuple[str, ...]:
    """Split a ``;``-separated cell.

    Examples
    --------
    >>> split_list("H100; DGX H100"), split_list("")
    (('H100', 'DGX H100'), ())
    """
    return tuple(part.strip() for part in text.split(";") if part.strip())


def scaled(text: str, unit: float) -> float:
    """Return a printed number in SI, exact to the last digit.

    Parameters
    ----------
    text : str
        A decimal number.
    unit : float
        Size of its unit in SI.

    Examples
    --------
    >>> from surrogate.units import GIGA
    >>> scaled("8.03", GIGA), 8.03 * GIGA
    (8030000000.0, 8029999999.999999)
    """
    return float(Decimal(text) * Decimal(unit))


def optional_float(text: str, unit: float = 1.0) -> float | None:
    """Return `scaled`, or None for an empty cell (not published or not supported)."""
    return scaled(text, unit) if text else None


def optional_int(text: str) -> int | None:
    """Return the integer of a cell, or None for an empty one."""
    return int(text) if text else None


def flag(text: str) -> bool:
    """Return whether a cell says ``true``."""
    return text == "true"
