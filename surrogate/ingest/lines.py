"""Lines of a log that may matter, streamed: a byte search picks candidates before any regular expression runs.

A log is read in blocks of a few MiB. Carriage returns end a line (progress bars), gzip is recognised by its magic
number, and a "line" without any end is cut at 1 MiB, so memory stays bounded whatever the file holds.
"""

from __future__ import annotations

import gzip
import re
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import IO, Final, NamedTuple

from surrogate.errors import FileFormatError
from surrogate.units import MIB

_BLOCK_BYTES: Final = int(4 * MIB)
_LONGEST_LINE_BYTES: Final = int(MIB)
_GZIP_MAGIC: Final = b"\x1f\x8b"

# Escape sequences, and the brackets that stay behind when a web page or an editor has eaten the escape byte.
_ANSI: Final = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|(?<!\w)\[[0-9;]{1,5}m|\[0m")


class Line(NamedTuple):
    """One candidate line, cleaned.

    Attributes
    ----------
    text : str
        The line without colours and line end; bytes that are not UTF-8 become replacement characters.
    follows : bool
        Whether it stands right below the candidate before it (no other non-empty line between).
    """

    text: str
    follows: bool


def clean_text(raw: bytes) -> str:
    """Decode one line and drop terminal colours."""
    text = raw.decode("utf-8", errors="replace")
    return _ANSI.sub("", text) if b"\x1b" in raw or b"[0m" in raw else text


def open_log(path: Path) -> IO[bytes]:
    """Open a plain or gzipped log for reading bytes.

    Raises
    ------
    FileFormatError
        The path is missing, a folder, or not readable.
    """
    try:
        stream = path.open("rb")
        if stream.peek(2)[:2] != _GZIP_MAGIC:
            return stream
        stream.close()
        return gzip.open(path, "rb")  # type: ignore[return-value]
    except OSError as error:
        raise FileFormatError(f"{path}: cannot be read as a log ({error.strerror or error})") from error


def _read(stream: IO[bytes], path: Path) -> bytes:
    try:
        return stream.read(_BLOCK_BYTES)
    except EOFError:  # a truncated archive: what was read so far counts
        return b""
    except (OSError, zlib.error) as error:
        raise FileFormatError(f"{path}: damaged archive ({error})") from error


def read_blocks(path: Path, limit_bytes: int | None = None) -> Iterator[bytes]:
    """Blocks of whole lines; carriage returns are made line ends.

    Parameters
    ----------
    path : Path
        Log file, plain or gzip.
    limit_bytes : int, optional
        Stop after so many bytes.
    """
    carry = b""
    done = 0
    with open_log(path) as stream:
        while block := _read(stream, path):
            done += len(block)
            block = (carry + block).replace(b"\r", b"\n") if b"\r" in block else carry + block
            cut = block.rfind(b"\n") + 1
            if len(block) - cut > _LONGEST_LINE_BYTES:
                cut = len(block)
            carry = block[cut:]
            yield block[:cut]
            if limit_bytes is not None and done >= limit_bytes:
                return
    if carry:
        yield carry


def candidate_spans(block: bytes, needles: Sequence[bytes]) -> list[tuple[int, int]]:
    """Start and end of each line of `block` that contains one of `needles`, in order."""
    ends: dict[int, int] = {}
    for needle in needles:
        line_end = 0
        at = block.find(needle)
        while at >= 0:
            start = block.rfind(b"\n", line_end, at) + 1 or line_end
            line_end = block.find(b"\n", at)
            if line_end < 0:
                line_end = len(block)
            ends[start] = line_end
            at = block.find(needle, line_end)
    return sorted(ends.items())


def select_lines(
    blocks: Iterable[bytes], needles: Sequence[bytes], skips: Callable[[bytes, int, int], bool] | None = None
) -> Iterator[Line]:
    """Candidate lines of the blocks, in file order, without those that `skips(block, start, end)` rejects."""
    follows = False
    for block in blocks:
        previous = 0
        for start, end in candidate_spans(block, needles):
            follows = follows if start <= previous else follows and not block[previous:start].strip()
            if skips is None or not skips(block, start, end):
                yield Line(clean_text(block[start:end]), follows)
            previous, follows = end + 1, True
        follows = follows and not block[previous:].strip()
