"""Read YAML and JSON files into plain mappings, with one clear error for whatever is wrong with the file."""

from __future__ import annotations

import json
from collections.abc import Hashable
from pathlib import Path
from typing import Any

import yaml

from surrogate.errors import FileFormatError


class _StrictLoader(yaml.SafeLoader):
    """YAML's safe loader, except that a key given twice in one mapping is an error."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen: set[object] = set()
        for key_node, _ in node.value:
            if key_node.tag == "tag:yaml.org,2002:merge":
                continue
            key = self.construct_object(key_node, deep=True)
            if isinstance(key, Hashable) and key in seen:
                raise yaml.constructor.ConstructorError(None, None, f"key {key!r} is given twice", key_node.start_mark)
            seen.add(key if isinstance(key, Hashable) else id(key))
        return super().construct_mapping(node, deep=deep)


def read_mapping(path: Path) -> dict[str, object]:
    """Return the mapping a YAML or JSON file holds.

    Parameters
    ----------
    path : Path
        ``.json`` is read as JSON, anything else as YAML.

    Raises
    ------
    FileFormatError
        If the file cannot be opened, is empty or binary, is not well formed, gives a key twice or holds no mapping.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise FileFormatError(f"{path}: cannot be read: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise FileFormatError(f"{path}: must be a YAML or JSON text file, got binary data") from error
    if not text.strip():
        raise FileFormatError(f"{path}: must hold a plan, got an empty file")
    return _as_mapping(path, _parse_json(path, text) if path.suffix.lower() == ".json" else _parse_yaml(path, text))


def parse_scalar(text: str) -> object:
    """Return what YAML makes of one value typed on a command line.

    Raises
    ------
    FileFormatError
        If the text is not well formed.

    Examples
    --------
    >>> parse_scalar("8"), parse_scalar("bf16"), parse_scalar("{preset: llama3-8b}")
    (8, 'bf16', {'preset': 'llama3-8b'})
    """
    return _parse_yaml(Path("--set"), text)


def _parse_yaml(path: Path, text: str) -> object:
    try:
        return yaml.load(text, Loader=_StrictLoader)  # noqa: S506 - a subclass of the safe loader
    except (yaml.YAMLError, ValueError, RecursionError) as error:  # a date that does not exist is a ValueError
        raise FileFormatError(f"{path}: is not well-formed YAML: {_one_line(error)}") from error


def _parse_json(path: Path, text: str) -> object:
    try:
        return json.loads(text, object_pairs_hook=_distinct_pairs)
    except (ValueError, RecursionError) as error:
        raise FileFormatError(f"{path}: is not well-formed JSON: {error}") from error


def _distinct_pairs(pairs: list[tuple[str, object]]) -> dict[str, object]:
    mapping = dict(pairs)
    if len(mapping) < len(pairs):
        keys = [key for key, _ in pairs]
        raise ValueError(f"key {next(key for key in keys if keys.count(key) > 1)!r} is given twice")
    return mapping


def _as_mapping(path: Path, content: object) -> dict[str, object]:
    if not isinstance(content, dict):
        raise FileFormatError(f"{path}: must hold a mapping (key: value), got {type(content).__name__}")
    return {str(key): value for key, value in content.items()}


def _one_line(error: Exception) -> str:
    if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark is not None:
        return f"{error.problem} in line {error.problem_mark.line + 1}"
    return " ".join(str(error).split())
