"""Tables on disk: CSV and parquet in, parquet out."""

from __future__ import annotations

import hashlib
from collections import Counter
from pathlib import Path
from typing import Final

import pandas as pd
import pyarrow as pa

from surrogate.errors import FileFormatError
from surrogate.files import replaced_atomically

MISSING_TEXTS: Final = ("", "NA", "N/A", "NaN", "nan", "null", "<NA>")
"""Cells of a CSV file that mean missing; `none` is not among them: it is a setting."""


def read_table(path: str | Path) -> pd.DataFrame:
    """Read a CSV or parquet file as it stands; CSV cells stay text, so that printed digits are kept.

    Parameters
    ----------
    path : str or Path
        A file ending in ``.csv`` or ``.parquet``.

    Returns
    -------
    DataFrame
        One row per data row, index 0..n-1.

    Raises
    ------
    FileFormatError
        When the file is missing, empty, not readable as what its name says, or has a column twice.
    """
    file = Path(path)
    if not file.is_file():
        raise FileFormatError(f"{file}: no such file")
    readers = {".csv": _read_csv, ".parquet": _read_parquet}
    if file.suffix not in readers:
        raise FileFormatError(f"{file}: a table must end in .csv or .parquet, got {file.suffix!r}")
    if file.stat().st_size == 0:
        raise FileFormatError(f"{file}: the file is empty")
    table = readers[file.suffix](file)
    if table.empty:
        raise FileFormatError(f"{file}: the table has a header and no rows")
    return table


def _read_csv(file: Path) -> pd.DataFrame:
    try:
        table = pd.read_csv(file, dtype="str", header=None, keep_default_na=False, na_values=MISSING_TEXTS)
    except (pd.errors.ParserError, pd.errors.EmptyDataError, UnicodeDecodeError) as error:
        raise FileFormatError(f"{file}: not a readable CSV file ({str(error).strip()})") from error
    names = [str(name).strip() for name in table.iloc[0].fillna("")]
    _refuse_repeated(file, names)
    return table.iloc[1:].set_axis(names, axis="columns").reset_index(drop=True)


def _read_parquet(file: Path) -> pd.DataFrame:
    import pyarrow.parquet as pq  # not needed to predict a plan

    try:
        table = pq.read_table(file)
    except (pa.ArrowException, OSError) as error:
        reason = str(error).splitlines()[0]
        raise FileFormatError(f"{file}: not a readable parquet file ({reason})") from error
    _refuse_repeated(file, table.column_names)
    frame: pd.DataFrame = table.to_pandas()
    return frame.reset_index(drop=True)


def _refuse_repeated(file: Path, names: list[str]) -> None:
    repeated = [name for name, times in Counter(names).items() if times > 1 or not name]
    if repeated:
        raise FileFormatError(f"{file}: column names must be given and unique, got {', '.join(map(repr, repeated))}")


def write_parquet(table: pd.DataFrame, path: str | Path) -> None:
    """Write a table as parquet, atomically; equal tables give equal bytes with one pyarrow version.

    Raises
    ------
    surrogate.files.FileWriteError
        When the file cannot be written; an existing file is then untouched.
    """
    import pyarrow.parquet as pq

    with replaced_atomically(path) as temporary:
        pq.write_table(pa.Table.from_pandas(table, preserve_index=False), temporary, compression="zstd")


def table_digest(table: pd.DataFrame) -> str:
    """Return the SHA-256 of a table's column names, kinds and values, whatever its file format or index.

    Parameters
    ----------
    table : DataFrame
        Row and column order count; the index does not.

    Returns
    -------
    str
        64 hexadecimal digits.

    Examples
    --------
    >>> one, two = pd.DataFrame({"tp": [1, 2]}), pd.DataFrame({"tp": [2, 1]})
    >>> table_digest(one) == table_digest(one.set_axis([7, 8])), table_digest(one) == table_digest(two)
    (True, False)
    """
    digest = hashlib.sha256()
    for name, column in table.items():
        digest.update(f"{name}\0{column.dtype}\0".encode())
        digest.update(pd.util.hash_pandas_object(column, index=False).to_numpy().tobytes())
    return digest.hexdigest()
