"""Models and tokenizers that configurations only name: presets of the catalogue, or spellings in `known_names.toml`."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Final

from surrogate.catalog import resolve_model
from surrogate.errors import UnknownNameError
from surrogate.ingest.configs.scalars import Value
from surrogate.plan import SECTION_COLUMNS

Shape = Mapping[str, Value]
_NOT_SHAPE: Final = frozenset({"arch_from", "published_params", "published_active_params"})


@cache
def _tables() -> Mapping[str, Mapping[str, object]]:
    return tomllib.loads(files("surrogate.ingest.configs").joinpath("known_names.toml").read_text("utf-8"))


def torchtitan_flavor(model: str, flavor: str) -> Shape | None:
    """Return the shape of a torchtitan model flavor, or None when it is not in the table."""
    return _entry("torchtitan", f"{model}/{flavor}")


def mlperf_model(size: str) -> Shape | None:
    """Return the shape of an MLPerf language model by its size name (`405b`), or None."""
    return _entry("mlperf", size)


def preset_shape(name: str) -> Shape | None:
    """Return the model columns of a catalogue preset by name, alias or repository path, or None."""
    try:
        preset = resolve_model(name)
    except UnknownNameError:
        return None
    columns = {column: getattr(preset, column, None) for column in SECTION_COLUMNS["model"] if column not in _NOT_SHAPE}
    shape = {column: value for column, value in columns.items() if value is not None}
    return {"model_name": preset.name, **shape}


def vocabulary_of(tokenizer: str) -> int | None:
    """Return the vocabulary size of a tokenizer known by name or by the model it belongs to, or None.

    Examples
    --------
    >>> vocabulary_of("meta-llama/Meta-Llama-3.1-8B"), vocabulary_of("GPT2BPETokenizer")
    (128256, 50257)
    """
    size = _tables()["tokenizers"].get(tokenizer.rsplit("/", 1)[-1].lower())
    if isinstance(size, int):
        return size
    shape = preset_shape(tokenizer) if tokenizer else None
    vocabulary = (shape or {}).get("vocab_size")
    return vocabulary if isinstance(vocabulary, int) else None


def _entry(table: str, name: str) -> Shape | None:
    entry = _tables()[table].get(name.lower())
    if not isinstance(entry, dict):
        return None
    given = {str(key): value for key, value in entry.items()}
    shape = preset_shape(str(given.pop("preset")))
    return None if shape is None else {**shape, **given}
