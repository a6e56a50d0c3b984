"""The edge where outside text becomes typed values: pydantic reads each value as its column's kind.

YAML 1.1 leaves ``15e12`` as text, turns ``no`` into False and ``2024-05-01`` into a date; a boolean is an integer in
Python. Each of these is put right or refused here, so that nothing behind this module sees text for a number.
"""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from functools import cache
from typing import Annotated, Any, Final

from pydantic import BeforeValidator, ConfigDict, Field, TypeAdapter, ValidationError

from surrogate.errors import InputError
from surrogate.plan.plan import PLAN_COLUMNS
from surrogate.plan.values import RULE_BY_KIND, Value, check_value
from surrogate.schema.column import Column, Kind
from surrogate.schema.columns import BY_PUBLISHED_NAME, COLUMN_BY_NAME

_SYNONYMS: Final[Mapping[str, Mapping[str, str]]] = {
    "precision": {"bfloat16": "bf16", "float16": "fp16", "half": "fp16", "float32": "fp32", "float8": "fp8"},
    "pipeline_schedule": {"interleaved": "interleaved-1f1b", "zbh1": "zb-h1", "zbh2": "zb-h2", "zbv": "zb-v"},
}


def _no_boolean(value: object) -> object:
    if isinstance(value, bool):
        raise ValueError("a boolean is no number")
    return value


def _number_in_text(value: object) -> object:
    return float(value) if isinstance(_no_boolean(value), str) else value  # type: ignore[arg-type]


def _as_text(value: object) -> object:
    if isinstance(value, list) and all(isinstance(part, str) for part in value):
        return ";".join(value)
    return str(value) if not isinstance(value, bool | dict | list) else value


_TYPE_BY_KIND: Final[Mapping[Kind, Any]] = {
    Kind.INTEGER: Annotated[int, BeforeValidator(_number_in_text)],
    Kind.FLOAT: Annotated[float, BeforeValidator(_no_boolean), Field(allow_inf_nan=False)],
    Kind.FLAG: bool,
    Kind.TEXT: Annotated[str, BeforeValidator(_as_text)],
}


def typed_values(given: Mapping[str, object]) -> dict[str, Value | None]:
    """Return values under canonical names, in SI units, each of its column's kind and within its bounds.

    Parameters
    ----------
    given : Mapping[str, object]
        Values by column name, or by the name in published units (``inter_node_gbps``). None opens a field.

    Raises
    ------
    InputError
        For an unknown key (with near matches), a key given under both its names, or a value that cannot be.
    """
    canonical: dict[str, object] = {}
    for key, value in given.items():
        name, scaled = _canonical(key, value)
        if name in canonical:
            raise InputError(name, "must be given once, by its name or by its published-unit name", key)
        canonical[name] = scaled
    typed = _validated({name: value for name, value in canonical.items() if value is not None})
    return {name: typed.get(name) for name in canonical}


def known_keys() -> tuple[str, ...]:
    """Return every key a plan takes: canonical names and those in published units."""
    published = (name for name, column in BY_PUBLISHED_NAME.items() if column.name in PLAN_COLUMNS)
    return (*PLAN_COLUMNS, *published)


def unknown_key(key: object) -> InputError:
    """Return the error for a key that no plan has, with near matches."""
    near = get_close_matches(str(key), known_keys(), n=3)
    way_out = f"did you mean {', '.join(near)}?" if near else "keys are the columns of the runs table"
    return InputError(str(key), "must be a known key of a plan", key, way_out)


def _canonical(key: str, value: object) -> tuple[str, object]:
    """Return the canonical name and, for a published unit, the value in SI."""
    if key in PLAN_COLUMNS:
        return key, _normalised(COLUMN_BY_NAME[key], value)
    column = BY_PUBLISHED_NAME.get(key)
    if column is None or column.name not in PLAN_COLUMNS or column.published is None:
        raise unknown_key(key)
    if value is None:
        return column.name, None
    return column.name, _number(key, value) * column.published.factor


def _number(key: str, value: object) -> float:
    try:
        return float(_number_in_text(value))  # type: ignore[arg-type]
    except (TypeError, ValueError) as error:
        raise InputError(key, RULE_BY_KIND[Kind.FLOAT], value) from error


def _normalised(column: Column, value: object) -> object:
    """Spell a word of a closed vocabulary as the runs table does; YAML's ``no`` means none where none exists."""
    if value is False and "none" in column.allowed:
        return "none"
    if not column.allowed or not isinstance(value, str):
        return value
    word = value.strip().lower().replace("_", "-")
    return _SYNONYMS.get(column.name, {}).get(word, word)


def _validated(given: Mapping[str, object]) -> dict[str, Value]:
    typed: dict[str, Value] = {}
    for name, value in given.items():
        column = COLUMN_BY_NAME[name]
        try:
            typed[name] = _reader(column.kind).validate_python(value)
        except ValidationError as error:
            rule = f"must be one of {', '.join(column.allowed)}" if column.allowed else RULE_BY_KIND[column.kind]
            raise InputError(name, rule, error.errors()[0]["input"]) from error
        check_value(column, typed[name])
    return typed


@cache
def _reader(kind: Kind) -> TypeAdapter[Value]:
    """Return what reads outside values as one kind: four small validators build ten times faster than a plan's."""
    return TypeAdapter(_TYPE_BY_KIND[kind], config=ConfigDict(str_strip_whitespace=True))
