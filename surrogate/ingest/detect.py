"""Which framework wrote a log: the first reader, specific before general, that finds a speed in it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from difflib import get_close_matches
from pathlib import Path
from typing import Final

from surrogate.errors import UnknownNameError
from surrogate.ingest.lines import open_log, read_blocks, select_lines
from surrogate.ingest.readers import READERS, LogReader, has_throughput, reader_names
from surrogate.ingest.records import StepRecord
from surrogate.units import MIB

_HEAD_BYTES: Final = int(2 * MIB)
_TAIL_BYTES: Final = int(MIB // 2)
_SEARCHED_BYTES: Final = int(256 * MIB)
_MOST_UNTIMED: Final = 1000


def reader_by_name(name: str) -> Callable[[], LogReader]:
    """Return the reader that `--format NAME` asks for.

    Raises
    ------
    UnknownNameError
        No reader has that name.
    """
    for reader in READERS:
        if reader().name == name:
            return reader
    names = reader_names()
    raise UnknownNameError("format", name, get_close_matches(name, names), f"one of {', '.join(names)}")


def detect_reader(path: Path) -> Callable[[], LogReader] | None:
    """Return the reader that fits a log, or None when no line looks like training progress.

    The sample is the first 2 MiB and the last 0.5 MiB; if nothing is found there, each
    further block of the first 256 MiB in turn.
    """
    head = b"".join(read_blocks(path, limit_bytes=_HEAD_BYTES))
    sample = head + b"\n" + _tail(path)
    found = _best_reader(sample)
    if found is not None:
        return found
    for block in read_blocks(path, limit_bytes=_SEARCHED_BYTES):
        found = _best_reader(block)
        if found is not None:
            return found
    return None


def _tail(path: Path) -> bytes:
    with open_log(path) as stream:
        if not hasattr(stream, "raw"):  # a gzip stream can only be read from its start
            return b""
        stream.seek(0, 2)
        if stream.tell() <= _HEAD_BYTES:
            return b""
        stream.seek(-_TAIL_BYTES, 2)
        return stream.read().replace(b"\r", b"\n")


def _best_reader(sample: bytes) -> Callable[[], LogReader] | None:
    """First reader in the registry's order that finds a speed; else the first that finds any record."""
    best: Callable[[], LogReader] | None = None
    best_score = (0, 0)
    for reader in READERS:
        instance = reader()
        if instance.marks and not any(mark in sample for mark in instance.marks):
            continue
        if not any(needle in sample for needle in instance.needles):
            continue
        score = _score(instance, sample)
        if score > best_score:
            best, best_score = reader, score
    return best


def _score(reader: LogReader, sample: bytes) -> tuple[int, int]:
    """Whether any record tells a speed, and whether there is any record."""
    seen = 0
    for record in _records(reader, sample):
        seen += 1
        if has_throughput(record):
            return 1, 1
        if seen >= _MOST_UNTIMED:
            break
    return 0, int(seen > 0)


def _records(reader: LogReader, sample: bytes) -> Iterable[StepRecord]:
    for line in select_lines([sample], reader.needles):
        yield from (event for event in reader.read(line) if isinstance(event, StepRecord))
    yield from (event for event in reader.finish() if isinstance(event, StepRecord))
