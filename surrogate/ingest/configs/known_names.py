"""Models and tokenizers that configurations only name, from `known_names.toml` (each entry with its source)."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Final

from surrogate.ingest.configs.scalars import Value

_SPLIT: Final = re.compile(r"[^a-z0-9.]+")


@cache
def _tables() -> Mapping[str, Mapping[str, object]]:
    text = files(__package__).joinpath("known_names.toml").read_text("utf-8")
    return tomllib.loads(text)


def torchtitan_flavor(model: str, flavor: str) -> Mapping[str, Value] | None:
    """Return the shape of a torchtitan model flavor, or None when it is not in the table."""
    families = _tables()["torchtitan"]
    family = families.get(model.lower().replace("-", "_").replace(".", "_"))
    return _entry(family, flavor)


def mlperf_model(size: str) -> Mapping[str, Value] | None:
    """Return the shape of an MLPerf language model by its size name (`405b`), or None."""
    return _entry(_tables()["mlperf"], size)


def vocabulary_of(tokenizer: str) -> int | None:
    """Return the vocabulary size of a tokenizer known by name, or None.

    Examples
    --------
    >>> vocabulary_of("meta-llama/Meta-Llama-3.1-8B")
    128256
    """
    words = "-".join(filter(None, _SPLIT.split(tokenizer.lower())))
    for name, size in _tables()["tokenizers"].items():
        if re.search(rf"(^|-){re.escape(name)}($|[-.])", words) and isinstance(size, int):
            return size
    return None


def _entry(table: object, name: str) -> Mapping[str, Value] | None:
    if not isinstance(table, dict):
        return None
    folded = {str(key).lower(): value for key, value in table.items()}
    entry = folded.get(name.lower())
    if not isinstance(entry, dict):
        return None
    return {str(key): value for key, value in entry.items() if isinstance(value, str | int | float | bool)}
