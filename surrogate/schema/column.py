"""What a column of the runs table is: name, kind, unit, bounds, allowed values and meaning."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Kind(StrEnum):
    """How the values of a column are held; missing values are NA in every kind."""

    TEXT = "str"
    INTEGER = "Int64"
    FLOAT = "float64"
    FLAG = "boolean"


@dataclass(frozen=True, kw_only=True, slots=True)
class PublishedUnit:
    """The name and unit under which publications print a column, and the factor to the canonical SI unit."""

    name: str
    unit: str
    factor: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Column:
    """One column of the runs table, declared once.

    Parameters
    ----------
    name : str
        Canonical name, with its SI unit where it has one.
    kind : Kind
        Text, integer, float or flag; its value is the pandas dtype.
    meaning : str
        One sentence for the documentation.
    unit : str
        SI unit, or empty for a dimensionless count.
    lower, upper : float or None
        Bounds; the lower one is excluded when `positive` is set.
    positive : bool
        Values must be above zero.
    allowed : tuple of str
        The closed vocabulary of a text column; empty when any text is allowed.
    required : bool
        Needed to predict; every other column may be absent or NA.
    derived : bool
        Computed by the package, never part of a source table.
    published : PublishedUnit or None
        The name in published units that is accepted on reading and converted.
    """

    name: str
    kind: Kind
    meaning: str
    unit: str = ""
    lower: float | None = None
    upper: float | None = None
    positive: bool = False
    allowed: tuple[str, ...] = ()
    required: bool = False
    derived: bool = False
    published: PublishedUnit | None = None


def text(name: str, meaning: str, *allowed: str, required: bool = False, derived: bool = False) -> Column:
    """Declare a text column, with a closed vocabulary when `allowed` is given."""
    return Column(name=name, kind=Kind.TEXT, meaning=meaning, allowed=allowed, required=required, derived=derived)


def count(name: str, meaning: str, *, lower: int = 1, upper: int | None = None, required: bool = False) -> Column:
    """Declare an integer column with a lower bound of one unless said otherwise."""
    return Column(name=name, kind=Kind.INTEGER, meaning=meaning, lower=lower, upper=upper, required=required)


def flag(name: str, meaning: str) -> Column:
    """Declare a true/false column."""
    return Column(name=name, kind=Kind.FLAG, meaning=meaning)


def quantity(
    name: str, unit: str, meaning: str, *, published: PublishedUnit | None = None, derived: bool = False
) -> Column:
    """Declare a float column that must be above zero."""
    return Column(
        name=name, kind=Kind.FLOAT, meaning=meaning, unit=unit, positive=True, published=published, derived=derived
    )


def fraction(name: str, meaning: str, *, lower: float = 0.0, derived: bool = False) -> Column:
    """Declare a float column in [lower, 1]."""
    return Column(name=name, kind=Kind.FLOAT, meaning=meaning, lower=lower, upper=1.0, derived=derived)
