"""Profiler JSON read as a stream: the document around the event array, and the events in chunks.

The array is cut at places that look like the border of two events. A cut inside a string or a nested object
leaves a piece that is not JSON, so parsing the piece is at the same time the proof that the cut was right.
"""

from __future__ import annotations

import gzip
import json
import re
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, Final, cast

import orjson

from surrogate.errors import FileFormatError

Event = dict[str, Any]

CHUNK_BYTES: Final = 2**20
"""Text parsed at once: small enough that its objects stay in cache, large enough that the cuts cost nothing."""
MAX_CUTS_TRIED: Final = 16
"""Borders tried in one piece before more text is read."""
MAX_PREAMBLE_BYTES: Final = 2**26
"""Text before the event array; a document without an array within it is not a trace."""

_GZIP_MAGIC: Final = b"\x1f\x8b"
_ARRAY_START: Final = re.compile(rb'"traceEvents"\s*:\s*\[')
_BORDER: Final = re.compile(rb"\}\s*,\s*\{")


class TraceStream:
    """One trace file: iterate for lists of events; `preamble` and `trailer` hold the keys around the array.

    Parameters
    ----------
    path : Path
        A .json or .json.gz file; the compression is told by its first bytes, not by its name.

    Raises
    ------
    FileFormatError
        When the file is empty, is not JSON, holds no event array, or ends early.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.preamble: dict[str, Any] = {}
        self.trailer: dict[str, Any] = {}
        self._is_object = False

    def __iter__(self) -> Iterator[list[Event]]:
        try:
            with _open(self.path) as stream:
                yield from self._events(stream)
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise FileFormatError(f"{self.path}: cut off or damaged: the gzip stream ends early ({error})") from error
        except OSError as error:
            raise FileFormatError(f"{self.path}: cannot be read ({error})") from error
        except (RecursionError, UnicodeError) as error:
            raise FileFormatError(f"{self.path}: not a profiler trace ({error})") from error

    def _events(self, stream: BinaryIO) -> Iterator[list[Event]]:
        text = self._enter_array(stream)
        want = CHUNK_BYTES
        while more := stream.read(want):
            text += more
            piece = _split(text)
            if piece is None:
                # Re-trying a growing text must stay linear: each failure doubles what is read next.
                want = len(text)
                continue
            events, text = piece
            want = CHUNK_BYTES
            yield events
        yield self._last_events(text)

    def _enter_array(self, stream: BinaryIO) -> bytes:
        """Read up to the event array, keep the keys before it, and return the text after its bracket."""
        text = stream.read(CHUNK_BYTES).removeprefix(b"\xef\xbb\xbf").lstrip()
        if not text:
            raise FileFormatError(f"{self.path}: empty file, not a profiler trace")
        if text[:1] == b"[":
            return text[1:]
        if text[:1] != b"{":
            raise FileFormatError(f"{self.path}: not a profiler trace: no JSON object or list at its start")
        self._is_object = True
        while True:
            for match in _ARRAY_START.finditer(text):
                preamble = _parse(text[: match.start()] + b'"traceEvents":[]}')
                if isinstance(preamble, dict):
                    self.preamble = preamble
                    return text[match.end() :]
            more = stream.read(max(CHUNK_BYTES, len(text)))
            if not more or len(text) > MAX_PREAMBLE_BYTES:
                raise FileFormatError(f"{self.path}: {_why_no_events(text)}")
            text += more

    def _last_events(self, text: bytes) -> list[Event]:
        """Parse what is left once the file has ended: the last events, the closing bracket and the keys after it."""
        readable = text.decode("utf-8", errors="replace")
        try:
            events, end = json.JSONDecoder(strict=False).raw_decode("[" + readable)
            rest = readable[end - 1 :].strip().removeprefix(",")
            self.trailer = json.loads("{" + rest) if rest or self._is_object else {}
        except ValueError as error:
            raise FileFormatError(
                f"{self.path}: cut off or damaged: the event array does not end as JSON ({error})"
            ) from error
        return cast(list[Event], events)


@contextmanager
def _open(path: Path) -> Iterator[BinaryIO]:
    with path.open("rb") as raw:
        if raw.peek(2)[:2] == _GZIP_MAGIC:
            with gzip.GzipFile(fileobj=raw, mode="rb") as unpacked:
                yield cast(BinaryIO, unpacked)
        else:
            yield raw


def _split(text: bytes) -> tuple[list[Event], bytes] | None:
    """Parse all whole events of `text`; None when no border of two events is found in it."""
    tail = max(0, len(text) - CHUNK_BYTES)
    borders = [match.start() + 1 for match in _BORDER.finditer(text, tail)]
    for border in borders[: -MAX_CUTS_TRIED - 1 : -1]:
        events = _parse(b"[" + text[:border] + b"]")
        if isinstance(events, list):
            return events, text[text.index(b"{", border) :]
    return None


def _parse(text: bytes) -> Any:  # noqa: ANN401 - JSON is what it is
    """Return the value of a JSON text, None if it is none; NaN, control characters and bad UTF-8 are let through."""
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        try:
            return json.loads(text.decode("utf-8", errors="replace"), strict=False)
        except ValueError:
            return None


def _why_no_events(text: bytes) -> str:
    value = _parse(text)
    if isinstance(value, dict):
        return f"JSON, but not a profiler trace: no traceEvents list among its keys {sorted(value)[:6]}"
    return "cut off or damaged before its traceEvents list, or not a profiler trace"
