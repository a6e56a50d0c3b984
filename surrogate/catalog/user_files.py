"""The user's own accelerators and models: TOML or CSV files named by ``SURROGATE_CATALOG``, validated on reading.

The keys are the columns of the packaged tables, units included. An entry may say ``based_on = "H100-80GB"`` and then
state only what differs. Entries come after the packaged ones and win over them when they have the same name.
"""

from __future__ import annotations

import csv
import os
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Final, Literal

from surrogate.catalog.files import Row
from surrogate.catalog.names import name_key
from surrogate.errors import FileFormatError, InputError

CATALOG_VARIABLE: Final = "SURROGATE_CATALOG"
Kind = Literal["accelerators", "models"]

_NOT_INHERITED: Final = {
    "name",
    "aliases",
    "published_params_b",
    "published_active_params_b",
    "count_deviation",
    "notes",
}
_COLUMN_OF_KIND: Final[dict[Kind, str]] = {"accelerators": "hbm_gbytes_per_s", "models": "hidden_size"}


def user_catalog_path() -> str:
    """Return the value of ``SURROGATE_CATALOG``: paths joined like ``PATH``; empty when unset."""
    return os.environ.get(CATALOG_VARIABLE, "")


def with_user_rows(kind: Kind, rows: list[Row], user_path: str) -> list[Row]:
    """Return the packaged rows followed by the user's.

    Parameters
    ----------
    kind : {"accelerators", "models"}
        Which table.
    rows : list of dict
        The packaged rows.
    user_path : str
        Paths joined like ``PATH``; may be empty.

    Raises
    ------
    FileFormatError
        If a file is missing or cannot be read.
    InputError
        If an entry lacks a value, has an unknown key or a value that cannot be.
    """
    if not user_path:
        return rows
    columns = list(rows[0])
    by_key = {name_key(row["name"]): row for row in rows}
    for path in filter(None, user_path.split(os.pathsep)):
        for entry in read_catalog_file(path)[kind]:
            row = _merged_row(kind, entry, columns, by_key)
            by_key[name_key(row["name"])] = row
    return list(by_key.values())


def _merged_row(kind: Kind, entry: Mapping[str, object], columns: list[str], by_key: Mapping[str, Row]) -> Row:
    """Lay an entry over the one it is based on and validate the result."""
    from surrogate.catalog.records import validated_row

    base: Row = dict.fromkeys(columns, "")
    based_on = entry.get("based_on")
    if based_on is not None:
        base = by_key.get(name_key(str(based_on)), {})
        if not base:
            raise InputError("based_on", f"must name one of the catalogue's {kind}", based_on, "give its full name")
        base = {column: value for column, value in base.items() if column not in _NOT_INHERITED}
    own = {key: value for key, value in entry.items() if key != "based_on"}
    return validated_row(kind, {key: value for key, value in base.items() if value != ""} | own, columns)


@cache
def read_catalog_file(path: str) -> dict[Kind, list[dict[str, object]]]:
    """Read one file of own entries, unvalidated.

    Parameters
    ----------
    path : str
        ``.toml`` with ``[accelerators.NAME]`` and ``[models.NAME]`` tables, or ``.csv`` with the columns of one
        packaged table.

    Raises
    ------
    FileFormatError
        If the file is missing, not UTF-8, not TOML or CSV, or holds neither kind.
    """
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise FileFormatError(f"{CATALOG_VARIABLE}: cannot read {path}: {error}") from error
    return _from_csv(path, text) if path.lower().endswith(".csv") else _from_toml(path, text)


def _from_toml(path: str, text: str) -> dict[Kind, list[dict[str, object]]]:
    import tomllib  # few have a file of their own

    try:
        content = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise FileFormatError(f"{CATALOG_VARIABLE}: {path} is not TOML: {error}") from error
    unknown = sorted(set(content) - set(_COLUMN_OF_KIND))
    if unknown:
        raise FileFormatError(
            f"{CATALOG_VARIABLE}: {path} must hold [accelerators.NAME] and [models.NAME], got {unknown}"
        )
    return {kind: list(_named(path, kind, content.get(kind, {}))) for kind in _COLUMN_OF_KIND}


def _named(path: str, kind: Kind, table: object) -> Iterable[dict[str, object]]:
    if not isinstance(table, dict) or not all(isinstance(entry, dict) for entry in table.values()):
        raise FileFormatError(f"{CATALOG_VARIABLE}: {path}: `{kind}` must hold one table per name: [{kind}.NAME]")
    for name, entry in table.items():
        yield {"name": name, **entry}


def _from_csv(path: str, text: str) -> dict[Kind, list[dict[str, object]]]:
    rows = [
        {key: value for key, value in row.items() if isinstance(key, str) and value}
        for row in csv.DictReader(text.splitlines())
    ]
    header = set(next(csv.reader(text.splitlines()), []))
    found: dict[Kind, list[dict[str, object]]] = {"accelerators": [], "models": []}
    for kind, column in _COLUMN_OF_KIND.items():
        if column in header:
            found[kind] = [dict(row) for row in rows]
            return found
    rule = "must have the columns of the accelerators or of the models table"
    raise FileFormatError(f"{CATALOG_VARIABLE}: {path} {rule}, got {sorted(header)}")
