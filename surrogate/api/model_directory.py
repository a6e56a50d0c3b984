"""Model directories: where the predictor is looked for, and how one is written whole or not at all."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import Final, NamedTuple

import surrogate
from surrogate.api.manifest import MANIFEST_FILE
from surrogate.errors import ModelDirectoryError
from surrogate.files import FileWriteError

MODEL_DIR_VARIABLE: Final = "SURROGATE_MODEL_DIR"
STEP_TIME_FOLDER: Final = "step_time"
MEMORY_FOLDER: Final = "memory"


class Origin(StrEnum):
    """Who named the model directory."""

    ARGUMENT = "--model-dir"
    ENVIRONMENT = MODEL_DIR_VARIABLE
    PACKAGED = "packaged"


class LocatedModel(NamedTuple):
    """A model directory and who named it."""

    directory: Path
    origin: Origin


def packaged_directory() -> Path:
    """Return where the predictor lies that comes with the package."""
    return Path(surrogate.__file__).parent / "shipped" / "predictor"


def locate_model(model_dir: str | Path | None = None) -> LocatedModel:
    """Return the model directory to use: the argument, else `SURROGATE_MODEL_DIR`, else the packaged one.

    Raises
    ------
    ModelDirectoryError
        If the directory does not exist.
    """
    from_environment = os.environ.get(MODEL_DIR_VARIABLE)
    if model_dir is not None:
        located = LocatedModel(Path(model_dir), Origin.ARGUMENT)
    elif from_environment:
        located = LocatedModel(Path(from_environment), Origin.ENVIRONMENT)
    else:
        located = LocatedModel(packaged_directory(), Origin.PACKAGED)
    if not located.directory.is_dir():
        raise ModelDirectoryError(
            f"{located.directory}: no such model directory ({located.origin}): train one with `surrogate train RUNS`"
        )
    return located


def check_replaceable(directory: Path) -> None:
    """Raise unless a model may be written to `directory`: it is absent, empty, or holds a model.

    Raises
    ------
    ModelDirectoryError
        If it is a file, or a folder with anything else in it.
    """
    if directory.exists() and not directory.is_dir():
        raise ModelDirectoryError(f"{directory}: is a file, a model needs a directory: choose another --model-dir")
    if directory.is_dir() and any(directory.iterdir()) and not (directory / MANIFEST_FILE).is_file():
        raise ModelDirectoryError(
            f"{directory}: holds other files than a model and is not replaced: choose another --model-dir"
        )


@contextmanager
def directory_replaced_atomically(directory: Path) -> Iterator[Path]:
    """Give an empty folder beside `directory`; on success it takes that name, on failure it is removed.

    Yields
    ------
    Path
        Where to write. Until the block ends without an error, an existing directory keeps its files.

    Raises
    ------
    ModelDirectoryError
        If something other than a model is there.
    FileWriteError
        If the folder cannot be written.
    """
    directory = directory.resolve()
    check_replaceable(directory)
    try:
        directory.parent.mkdir(parents=True, exist_ok=True)
        work = Path(tempfile.mkdtemp(dir=directory.parent, prefix=f".{directory.name}."))
    except OSError as error:
        raise FileWriteError(f"{directory}: cannot be written ({error.strerror})") from error
    fresh, old = work / "new", work / "old"
    try:
        fresh.mkdir()
        yield fresh
        _exchange(fresh, directory, old)
    except OSError as error:
        raise FileWriteError(f"{directory}: cannot be written ({error.strerror or error})") from error
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _exchange(fresh: Path, directory: Path, old: Path) -> None:
    """Put `fresh` in the place of `directory`; what was there goes back when that fails."""
    had_one = directory.exists()
    if had_one:
        directory.rename(old)
    try:
        fresh.rename(directory)
    except OSError:
        if had_one:
            old.rename(directory)
        raise
