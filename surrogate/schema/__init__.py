"""The runs table: its columns, how it is read, and what is checked."""

from surrogate.schema.column import Column, Kind, PublishedUnit
from surrogate.schema.columns import COLUMN_BY_NAME, COLUMNS, INPUT_COLUMNS, REQUIRED_COLUMNS
from surrogate.schema.io import read_table, table_digest, write_parquet
from surrogate.schema.validation import CheckedRuns, check_runs, read_runs, split_bad_rows, validate_runs

__all__ = [
    "COLUMNS",
    "COLUMN_BY_NAME",
    "INPUT_COLUMNS",
    "REQUIRED_COLUMNS",
    "CheckedRuns",
    "Column",
    "Kind",
    "PublishedUnit",
    "check_runs",
    "read_runs",
    "read_table",
    "split_bad_rows",
    "table_digest",
    "validate_runs",
    "write_parquet",
]
