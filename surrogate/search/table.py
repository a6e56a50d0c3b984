"""Results as table files."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pandas as pd

from surrogate.errors import InputError
from surrogate.files import replaced_atomically, write_text_atomically

SUFFIXES: Final = (".csv", ".parquet")


def check_target(path: Path) -> None:
    """Raise unless a table can be written there: known before a long search, not after it.

    Raises
    ------
    InputError
        If the name ends otherwise than a table's, or the folder does not exist.
    """
    if path.suffix not in SUFFIXES:
        raise InputError("--output", f"must end in {' or '.join(SUFFIXES)}", str(path))
    if not path.parent.is_dir():
        raise InputError("--output", "must be in a folder that exists", str(path))


def write_table(table: pd.DataFrame, path: Path) -> None:
    """Write a table whole or not at all.

    Parameters
    ----------
    table : DataFrame
        A result.
    path : Path
        Ending in ``.csv`` or ``.parquet``.

    Raises
    ------
    InputError
        If the name ends otherwise, or the folder does not exist.
    """
    check_target(path)
    if path.suffix == ".csv":
        write_text_atomically(path, table.to_csv(index=False))
        return
    with replaced_atomically(path) as temporary:
        table.to_parquet(temporary, index=False)
