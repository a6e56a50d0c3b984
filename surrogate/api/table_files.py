"""Tables read and written piece by piece, so that memory does not grow with their length."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from surrogate.errors import FileFormatError, InputError
from surrogate.files import replaced_atomically
from surrogate.schema.io import MISSING_TEXTS

CHUNK_ROWS: Final = 20_000
TABLE_SUFFIXES: Final = (".csv", ".parquet")


def iterate_table(path: Path, chunk_rows: int = CHUNK_ROWS) -> Iterator[pd.DataFrame]:
    """Yield a CSV or parquet file in pieces; CSV cells stay text, as `schema.read_table` keeps them.

    Parameters
    ----------
    path : Path
        A file ending in ``.csv`` or ``.parquet``.
    chunk_rows : int
        Rows per piece.

    Yields
    ------
    DataFrame
        With the index of its rows in the file, from 0.

    Raises
    ------
    FileFormatError
        If the file is missing, empty, or not readable as what its name says; a later piece may be the first to show it.
    """
    check_suffix("--runs", path)
    if not path.is_file():
        raise FileFormatError(f"{path}: no such file")
    if path.stat().st_size == 0:
        raise FileFormatError(f"{path}: the file is empty")
    pieces = _parquet_pieces(path, chunk_rows) if path.suffix == ".parquet" else _csv_pieces(path, chunk_rows)
    start = 0
    for piece in pieces:
        _refuse_repeated(path, [str(name) for name in piece.columns])
        yield piece.set_axis(pd.RangeIndex(start, start + len(piece)))
        start += len(piece)
    if start == 0:
        raise FileFormatError(f"{path}: the table has a header and no rows")


def check_suffix(option: str, path: Path) -> None:
    """Raise InputError unless a file's name ends as a table's does."""
    if path.suffix not in TABLE_SUFFIXES:
        raise InputError(option, "must end in .csv or .parquet", str(path))


class TableWriter:
    """Writes pieces of one table to CSV or parquet; the file appears when all went well.

    Parameters
    ----------
    path : Path
        The file; an existing one is replaced at the end.
    """

    def __init__(self, path: Path) -> None:
        check_suffix("--output", path)
        self.path = path
        self._stack = ExitStack()
        self._parquet: pq.ParquetWriter | None = None
        self._is_first = True

    def __enter__(self) -> Self:
        self._temporary = self._stack.enter_context(replaced_atomically(self.path))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        if self._parquet is not None:
            self._parquet.close()
        return self._stack.__exit__(kind, error, trace)

    def write(self, piece: pd.DataFrame) -> None:
        """Append rows; every piece has the same columns and kinds."""
        if self.path.suffix == ".csv":
            piece.to_csv(self._temporary, mode="w" if self._is_first else "a", header=self._is_first, index=False)
        else:
            table = pa.Table.from_pandas(piece, preserve_index=False)
            if self._parquet is None:
                self._parquet = pq.ParquetWriter(self._temporary, table.schema, compression="zstd")
            self._parquet.write_table(table.cast(self._parquet.schema))
        self._is_first = False


def _csv_pieces(path: Path, chunk_rows: int) -> Iterator[pd.DataFrame]:
    try:
        with pd.read_csv(
            path, dtype="str", header=None, keep_default_na=False, na_values=MISSING_TEXTS, chunksize=chunk_rows
        ) as reader:
            names: list[str] = []
            for piece in reader:
                rows = piece
                if not names:
                    names, rows = [str(name).strip() for name in piece.iloc[0].fillna("")], piece.iloc[1:]
                if len(rows):
                    yield rows.set_axis(names, axis="columns")
    except (pd.errors.ParserError, pd.errors.EmptyDataError, UnicodeDecodeError) as error:
        raise FileFormatError(f"{path}: not a readable CSV file ({str(error).strip()})") from error


def _parquet_pieces(path: Path, chunk_rows: int) -> Iterator[pd.DataFrame]:
    try:
        with pq.ParquetFile(path) as file:
            _refuse_repeated(path, file.schema_arrow.names)
            for batch in file.iter_batches(batch_size=chunk_rows):
                if batch.num_rows:
                    yield batch.to_pandas()
    except (pa.ArrowException, OSError) as error:
        raise FileFormatError(f"{path}: not a readable parquet file ({str(error).splitlines()[0]})") from error


def _refuse_repeated(path: Path, names: list[str]) -> None:
    repeated = [name for name, times in Counter(names).items() if times > 1 or not name]
    if repeated:
        raise FileFormatError(f"{path}: column names must be given and unique, got {', '.join(map(repr, repeated))}")
