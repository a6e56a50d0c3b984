"""Hugging Face `config.json`: the shape of a model, nothing about how it is trained."""

from __future__ import annotations

from typing import Final

from surrogate.errors import FileFormatError
from surrogate.ingest.configs.report import ConfigReport, Draft
from surrogate.ingest.configs.scalars import as_count, as_flag, as_float, as_text
from surrogate.ingest.configs.shape import complete_attention, complete_experts
from surrogate.ingest.configs.tree import Tree, lookup
from surrogate.plan import model_fields
from surrogate.schema.column import Kind
from surrogate.schema.columns import COLUMN_BY_NAME

_MAX_LAYERS: Final = 10_000
_MAX_DEPTH: Final = 4
_LAYER_KEYS: Final = frozenset({"num_hidden_layers", "n_layer", "n_layers", "num_layers"})


def read_huggingface(tree: Tree) -> ConfigReport:
    """Read a model's `config.json` (the text part of a multimodal one)."""
    draft = Draft()
    read_shape(draft, tree)
    if "quantization_config" in tree:
        method = as_text(lookup(tree, "quantization_config.quant_method"))
        draft.note(f"the weights are published quantised ({method}); that is not the training precision")
    limit = as_count(tree.get("max_position_embeddings"))
    draft.ask(
        "seq_len", f"a model's config gives only its limit ({limit})" if limit else "a model's config does not say"
    )
    for column in ("num_gpus", "global_batch_size", "tp", "pp", "accelerator"):
        draft.ask(column, "a model's config.json holds no training settings")
    return draft.finish("huggingface")


def read_shape(draft: Draft, tree: Tree) -> None:
    """Fill the model columns from a Hugging Face style mapping.

    Raises
    ------
    FileFormatError
        Its values are not of the kinds a model's config holds.
    InputError
        The architecture is no decoder-only transformer.
    """
    clean = _clean(tree, 0)
    try:
        fields = model_fields(clean if isinstance(clean, dict) else {})
    except (TypeError, ValueError, KeyError, AttributeError, ZeroDivisionError) as error:
        raise FileFormatError(f"not a model's config.json: {error}") from error
    name = as_text(fields.pop("model_name", None))
    draft.put("model_name", None if name == as_text(tree.get("model_type")) else name)
    fields.pop("arch_from", None)
    for column, value in fields.items():
        _put(draft, column, value)
    complete_attention(draft)
    complete_experts(draft)
    draft.values.pop("ep", None)
    for column in ("num_layers", "hidden_size", "num_heads"):
        draft.ask(column, "the config does not give it")


def _put(draft: Draft, column: str, value: object) -> None:
    kind = COLUMN_BY_NAME[column].kind
    if kind is Kind.INTEGER:
        draft.count(column, value, least=0)
    elif kind is Kind.FLAG:
        draft.put(column, as_flag(value))
    else:
        draft.put(column, as_float(value) if kind is Kind.FLOAT else as_text(value))


def _clean(node: object, depth: int) -> object:
    """Return the settings with absurd layer counts and deep or mixed structures left out."""
    if isinstance(node, dict):
        inner = {str(key): _clean(value, depth + 1) for key, value in node.items() if depth < _MAX_DEPTH}
        return {key: value for key, value in inner.items() if key not in _LAYER_KEYS or _is_few(value)}
    if isinstance(node, list):
        return [item for item in node[:_MAX_LAYERS] if isinstance(item, str | int | float)]
    if isinstance(node, int) and not isinstance(node, bool) and abs(node) > 10**12:
        return None
    return node


def _is_few(value: object) -> bool:
    number = as_count(value)
    return number is not None and number <= _MAX_LAYERS
