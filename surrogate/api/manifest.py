"""What a model directory says about itself: versions, data, metrics, and a checksum of every file."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Final

from surrogate.errors import ModelDirectoryError

FORMAT: Final = 1
MANIFEST_FILE: Final = "manifest.json"
CARD_FILE: Final = "MODEL_CARD.md"
_DIGEST_DIGITS: Final = 12


@dataclass(frozen=True, kw_only=True, slots=True)
class Manifest:
    """Facts of one trained predictor; every value is plain JSON."""

    surrogate_version: str
    libraries: Mapping[str, str]
    """Versions of the libraries that trained it."""
    commit: str | None
    """Commit of the working tree it was trained in, with ``+changes`` when that had uncommitted ones."""
    data: Mapping[str, object]
    """Digest, files and counts of the runs."""
    sites: Mapping[str, tuple[str, ...]]
    """Publisher families of each source, the most frequent first."""
    split: str
    """How the rows were split for `metrics`."""
    metrics: Mapping[str, float]
    random_state: int
    files: Mapping[str, str] = field(default_factory=dict)
    """SHA-256 of every file of the directory by its path, this one and the model card left out."""

    @property
    def digest(self) -> str:
        """The first 12 hexadecimal digits of the SHA-256 over all files: the same model, the same digest."""
        lines = "".join(f"{name}\0{checksum}\n" for name, checksum in sorted(self.files.items()))
        return hashlib.sha256(lines.encode()).hexdigest()[:_DIGEST_DIGITS]

    @property
    def name(self) -> str:
        """What predictions say they come from."""
        return f"surrogate-{self.surrogate_version}-{self.digest}"

    def to_json(self) -> str:
        """Return the manifest as text, keys in a fixed order."""
        return json.dumps({"format": FORMAT, **asdict(self)}, indent=1, sort_keys=True) + "\n"


def read_manifest(directory: Path) -> Manifest:
    """Read the manifest of a model directory and check every file against it.

    Raises
    ------
    ModelDirectoryError
        If the directory is missing, is none of a model, is of another format, or a file is missing or altered.
    """
    manifest = _parsed(directory)
    for name, checksum in manifest.files.items():
        path = directory / name
        if not path.is_file():
            raise ModelDirectoryError(f"{directory}: truncated, `{name}` is missing: train it again")
        if file_checksum(path) != checksum:
            raise ModelDirectoryError(f"{directory}: `{name}` is truncated or was altered: train it again")
    return manifest


def checksums(directory: Path) -> dict[str, str]:
    """Return the SHA-256 of every file below a directory that a manifest lists, by relative path."""
    left_out = {MANIFEST_FILE, CARD_FILE}
    paths = sorted(path for path in directory.rglob("*") if path.is_file())
    names = {path.relative_to(directory).as_posix(): path for path in paths}
    return {name: file_checksum(path) for name, path in names.items() if name not in left_out}


def file_checksum(path: Path) -> str:
    """Return the SHA-256 of a file as hexadecimal digits."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _parsed(directory: Path) -> Manifest:
    path = directory / MANIFEST_FILE
    if not directory.is_dir():
        raise ModelDirectoryError(f"{directory}: no such model directory: train one with `surrogate train RUNS`")
    if not path.is_file():
        raise ModelDirectoryError(f"{directory}: not a model directory, `{MANIFEST_FILE}` is missing")
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        version = content.pop("format")
        if version != FORMAT:
            raise ModelDirectoryError(
                f"{directory}: model format {version}, this version reads format {FORMAT}: train it again"
            )
        sites = {source: tuple(families) for source, families in content.pop("sites").items()}
        return Manifest(sites=sites, **content)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise ModelDirectoryError(f"{path}: truncated or not a manifest ({error}): train it again") from error
