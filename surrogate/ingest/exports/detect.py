"""Which kind of export a file is, by its content."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from surrogate.errors import FileFormatError
from surrogate.ingest.exports.history import read_histories, read_text
from surrogate.ingest.exports.matmul import parse_matmul
from surrogate.ingest.exports.metric_names import chosen_metrics
from surrogate.ingest.exports.nccl import parse_nccl_tests

ExportKind = Literal["nccl-tests", "wandb", "mlflow", "matmul"]
_HEAD_CHARS = 200_000
_MAX_BYTES = 500_000_000


def detect_export(path: str | Path) -> ExportKind | None:
    """Return what an exported file holds, or None when it is none of the known kinds.

    Raises
    ------
    FileFormatError
        The file cannot be read.
    """
    head = read_text(Path(path), _MAX_BYTES)[:_HEAD_CHARS]
    if parse_nccl_tests(head):
        return "nccl-tests"
    try:
        kind, histories = read_histories(path)
    except FileFormatError:
        kind, histories = "", []
    if any(chosen_metrics(dict.fromkeys(name for row in run.rows.values() for name in row)) for run in histories):
        return "mlflow" if kind == "mlflow" else "wandb"
    return "matmul" if parse_matmul(head) else None
