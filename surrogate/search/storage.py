"""Where studies live: in memory, in a journal file, or in a database that several workers share."""

from __future__ import annotations

import json
import os
import sqlite3
from pathlib import Path
from typing import Final

from optuna.storages import BaseStorage, InMemoryStorage, JournalStorage, RDBStorage
from optuna.storages.journal import JournalFileBackend, JournalFileSymlinkLock
from sqlalchemy.engine import make_url
from sqlalchemy.engine.url import URL
from sqlalchemy.exc import ArgumentError, NoSuchModuleError, SQLAlchemyError

from surrogate.errors import InputError

_WAYS: Final = "give a file for a journal, or a URL as postgresql://user@host/database"
_CONNECT_TIMEOUT_S: Final = 10


def open_storage(where: str | None) -> BaseStorage:
    """Open the storage of a study.

    Parameters
    ----------
    where : str, optional
        None for memory, a database URL, or the path of a journal file (created when missing).

    Raises
    ------
    InputError
        If it cannot be reached, opened, or has no driver; passwords are not shown.
    """
    if where is None:
        return InMemoryStorage()
    return _database(where) if "://" in where else _journal(Path(where))


def _journal(path: Path) -> BaseStorage:
    if not path.parent.is_dir():
        raise InputError("--storage", "must be in a folder that exists", str(path), _WAYS)
    try:
        if path.exists():
            _mend(path)
        return JournalStorage(JournalFileBackend(str(path)))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError("--storage", "must be a journal that can be read and written", str(path), _WAYS) from error


def _mend(path: Path) -> None:
    """Drop a last line that a killed worker did not finish: Optuna would append to it, and read nothing any more.

    Raises
    ------
    ValueError
        If the last whole line is no entry of a journal: Optuna notices only once another one follows.
    """
    lock = JournalFileSymlinkLock(str(path))
    lock.acquire()
    try:
        written = path.read_bytes()
        whole = written[: written.rfind(b"\n") + 1]
        if written:
            json.loads(whole.splitlines()[-1] if whole else b"")
        if len(whole) < len(written):
            os.truncate(path, len(whole))
    finally:
        lock.release()


def _database(text: str) -> BaseStorage:
    try:
        url = _with_driver(make_url(text))
    except ArgumentError as error:
        raise InputError("--storage", "must be a database URL", text, _WAYS) from error
    shown = url.render_as_string(hide_password=True)
    options = {"connect_timeout": _CONNECT_TIMEOUT_S} if url.get_backend_name() == "postgresql" else {}
    try:
        return RDBStorage(
            url.render_as_string(hide_password=False),
            engine_kwargs={"pool_pre_ping": True, "connect_args": options},
        )
    except (ImportError, NoSuchModuleError) as error:
        way_out = "pip install 'surrogate[postgresql]'" if url.get_backend_name() == "postgresql" else _WAYS
        raise InputError("--storage", "must have a driver that is installed", shown, way_out) from error
    except (SQLAlchemyError, sqlite3.Error, OSError, RuntimeError) as error:
        reason = str(error.__cause__ or error).strip().splitlines()[0]
        raise InputError("--storage", "must be reachable", shown, reason) from error


def _with_driver(url: URL) -> URL:
    """Return the URL with the driver that `surrogate[postgresql]` installs where none is named."""
    return url.set(drivername="postgresql+psycopg") if url.drivername in ("postgresql", "postgres") else url


def close_storage(storage: BaseStorage) -> None:
    """Close the connections of a storage from `open_storage`; it may be used again."""
    if isinstance(storage, RDBStorage):
        storage.remove_session()
        storage.engine.dispose()
