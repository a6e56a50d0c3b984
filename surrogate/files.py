"""Files written whole or not at all: to a temporary name beside the target, then renamed."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from surrogate.errors import SurrogateError

_NEW_FILE_MODE = 0o666


class FileWriteError(SurrogateError):
    """A file that cannot be written where the user asked for it."""


@contextmanager
def replaced_atomically(path: str | Path) -> Iterator[Path]:
    """Give a temporary path beside `path`; on success rename it over `path`, on failure remove it.

    Parameters
    ----------
    path : str or Path
        The file to write; missing parent folders are created. Until the block ends without an error, an
        existing file keeps its bytes.

    Yields
    ------
    Path
        Where to write, in the same folder and with the same suffix as `path`.

    Raises
    ------
    FileWriteError
        When the folder or the file cannot be written.

    Examples
    --------
    >>> folder = Path(tempfile.mkdtemp())
    >>> with replaced_atomically(folder / "answer.txt") as temporary:
    ...     _ = temporary.write_text("42")
    >>> (folder / "answer.txt").read_text(), len(list(folder.iterdir()))
    ('42', 1)
    """
    target = Path(path)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.", suffix=target.suffix)
    except OSError as error:
        raise FileWriteError(f"{target}: cannot be written ({error.strerror})") from error
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        temporary.chmod(_NEW_FILE_MODE & ~_umask())
        temporary.replace(target)
    except OSError as error:
        raise FileWriteError(f"{target}: cannot be written ({error.strerror or error})") from error
    finally:
        temporary.unlink(missing_ok=True)


def write_bytes_atomically(path: str | Path, content: bytes) -> None:
    """Write `content` to `path`, leaving the old file in place if anything fails.

    Raises
    ------
    FileWriteError
        When the folder or the file cannot be written.
    """
    with replaced_atomically(path) as temporary:
        temporary.write_bytes(content)


def write_text_atomically(path: str | Path, content: str) -> None:
    """Write `content` as UTF-8 with line feeds as they stand; see `write_bytes_atomically`."""
    write_bytes_atomically(path, content.encode())


def _umask() -> int:
    """Return the process's file mode mask, which can only be read by setting it."""
    mask = os.umask(0)
    os.umask(mask)
    return mask
