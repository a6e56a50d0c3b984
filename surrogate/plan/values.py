"""Checks of one value against the column that declares it: kind, bounds, vocabulary."""

from __future__ import annotations

import math
from dataclasses import fields
from difflib import get_close_matches
from typing import TYPE_CHECKING, Final

from surrogate.errors import InputError
from surrogate.schema.column import Column, Kind
from surrogate.schema.columns import COLUMN_BY_NAME

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Value = int | float | str | bool
"""What a plan holds for one column of the runs table."""

MAX_COUNT: Final = 2**53
"""Whole numbers above it are not exact in the float64 columns that are computed with."""

RULE_BY_KIND: Final = {
    Kind.INTEGER: "must be a whole number",
    Kind.FLOAT: "must be a finite number",
    Kind.FLAG: "must be true or false",
    Kind.TEXT: "must be text",
}


def check_value(column: Column, value: Value) -> None:
    """Raise if a value cannot stand in a column.

    Raises
    ------
    InputError
        Naming the column, the rule and the value.
    """
    if not _has_kind(column.kind, value):
        raise InputError(column.name, RULE_BY_KIND[column.kind], value)
    if column.allowed and value not in column.allowed:
        near = get_close_matches(str(value), column.allowed, n=1)
        way_out = f"did you mean {near[0]}?" if near else ""
        raise InputError(column.name, f"must be one of {', '.join(column.allowed)}", value, way_out)
    if isinstance(value, int | float):
        _check_bounds(column, value)


def check_values(spec: DataclassInstance) -> None:
    """Check every given field of a spec against the column of the same name.

    Raises
    ------
    InputError
        For the first value that breaks a rule.
    """
    for field in fields(spec):
        value = getattr(spec, field.name)
        if value is not None:
            check_value(COLUMN_BY_NAME[field.name], value)


def _has_kind(kind: Kind, value: Value) -> bool:
    if kind is Kind.FLAG or isinstance(value, bool):
        return kind is Kind.FLAG and isinstance(value, bool)
    if kind is Kind.TEXT or isinstance(value, str):
        return kind is Kind.TEXT and isinstance(value, str)
    return math.isfinite(value) and (kind is Kind.FLOAT or isinstance(value, int))


def _check_bounds(column: Column, value: float) -> None:
    unit = f" {column.unit}" if column.unit else ""
    if isinstance(value, int) and value > MAX_COUNT:
        raise InputError(column.name, f"must be at most {MAX_COUNT}", value)
    if column.positive and value <= 0:
        raise InputError(column.name, "must be above 0", value)
    if column.lower is not None and value < column.lower:
        raise InputError(column.name, f"must be at least {column.lower:g}{unit}", value)
    if column.upper is not None and value > column.upper:
        raise InputError(column.name, f"must be at most {column.upper:g}{unit}", value)
