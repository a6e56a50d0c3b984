"""The `model` of a plan: a preset's name, spelled-out sizes, a Hugging Face config, or one of these with changes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from surrogate.catalog import ModelPreset, resolve_model
from surrogate.errors import FileFormatError, InputError
from surrogate.plan.edge import typed_values
from surrogate.plan.huggingface import looks_like_huggingface, model_fields
from surrogate.plan.plan import SECTION_COLUMNS
from surrogate.plan.text import read_mapping
from surrogate.plan.values import Value

_MODEL_COLUMNS: Final = SECTION_COLUMNS["model"]
_ONLY_NAMES: Final = frozenset({"model_name", "arch_from", "published_params", "published_active_params"})
_BASE_KEYS: Final = ("preset", "hf_config")
_MODIFIED: Final = "-modified"
_MAX_PATH_CHARACTERS: Final = 512

Values = dict[str, Value | None]


def model_values(model: object, *, folder: Path) -> Values:
    """Return the architecture columns that the `model` entry of a plan means.

    Parameters
    ----------
    model : str or Mapping
        A preset's name or alias; the path of a ``config.json``; columns spelled out; the content of a ``config.json``;
        or ``preset:`` or ``hf_config:`` beside the columns that differ from it.
    folder : Path
        Where relative paths start.

    Raises
    ------
    InputError
        For an unknown preset (with near matches), an unknown key or an impossible value.
    FileFormatError
        If a ``config.json`` cannot be read.
    """
    if isinstance(model, str):
        return _named_model(model, folder)
    if not isinstance(model, Mapping):
        raise InputError("model", "must be a name, a path or a mapping", model, "e.g. model: llama3-8b")
    bases = [key for key in _BASE_KEYS if key in model]
    if len(bases) > 1:
        raise InputError("model", "must have one base", " and ".join(bases), "keep preset or hf_config")
    own = {str(key): value for key, value in model.items() if key not in _BASE_KEYS}
    if bases:
        return changed_model(_base_model(bases[0], model[bases[0]], folder), typed_values(own))
    if looks_like_huggingface(own):
        return typed_values(model_fields(own))
    return typed_values(own)


def changed_model(base: Values, changes: Values) -> Values:
    """Return a base model with some columns changed.

    A changed architecture has no published count and is not called by its base's name; widths and counts that the base
    only has by default (head_dim = hidden_size / num_heads, as many key/value heads as heads) follow the change.
    """
    sizes = set(changes) - _ONLY_NAMES
    if not sizes:
        return base | changes
    kept = {column: value for column, value in base.items() if column not in _followers(base, sizes)}
    kept |= {"published_params": None, "published_active_params": None}
    if kept.get("model_name"):
        kept["model_name"] = f"{str(kept['model_name']).removesuffix(_MODIFIED)}{_MODIFIED}"
    return kept | changes


def _followers(base: Values, changed: set[str]) -> set[str]:
    heads, hidden, kv_heads = base.get("num_heads"), base.get("hidden_size"), base.get("num_kv_heads")
    followers = set()
    if isinstance(heads, int) and isinstance(hidden, int) and base.get("head_dim") == hidden // heads:
        followers |= {"head_dim"} if changed & {"num_heads", "hidden_size"} else set()
    if kv_heads == heads and "num_heads" in changed:
        followers.add("num_kv_heads")
    if changed & {"num_heads", "num_kv_heads"} and base.get("attention") != "mla":
        followers.add("attention")
    return followers


def _named_model(name: str, folder: Path) -> Values:
    if name.lower().endswith(".json"):
        return _file_model(name, folder)
    return _preset_values(resolve_model(name))


def _base_model(key: str, base: object, folder: Path) -> Values:
    if key == "preset":
        return _preset_values(resolve_model(str(base)))
    if isinstance(base, Mapping):
        return typed_values(model_fields(base))
    return _file_model(str(base), folder)


def _file_model(name: str, folder: Path) -> Values:
    candidates = [folder / name, Path(name)]
    path = next((path for path in candidates if len(name) < _MAX_PATH_CHARACTERS and path.is_file()), candidates[0])
    config = read_mapping(path)
    if not looks_like_huggingface(config):
        raise FileFormatError(f"{path}: must be a Hugging Face config.json (with model_type, num_hidden_layers, ...)")
    return typed_values(model_fields(config, name=path.stem.removesuffix(".config")))


def _preset_values(preset: ModelPreset) -> Values:
    values = {column: getattr(preset, column) for column in _MODEL_COLUMNS if hasattr(preset, column)}
    values |= {"model_name": preset.name, "arch_from": f"catalogue preset {preset.name}"}
    return {column: value for column, value in values.items() if value is not None}
