"""Read a Hugging Face ``config.json`` as the architecture columns of the runs table.

Families differ in names, in what a missing key means and in how layers alternate; each difference is one small function
below. What a config does not say and its family does not define is left open, so that the caller can name it.

References
----------
The configuration classes of ``huggingface/transformers`` (``src/transformers/models/*/configuration_*.py``) define the
names and defaults.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from surrogate.errors import InputError

Config = Mapping[str, object]
Fields = dict[str, object]

NESTED_KEYS: Final = ("text_config", "llm_config", "language_config")
RECOGNISED_BY: Final = frozenset(
    {"model_type", "architectures", "num_hidden_layers", "n_layer", "n_layers", "num_attention_heads", *NESTED_KEYS}
)
_FALCON: Final = ("falcon", "RefinedWeb", "RefinedWebModel")
_PLAIN_MLP: Final = frozenset(
    {"gpt2", "gpt_bigcode", "gpt_neo", "gpt_neox", "gptj", "codegen", "xglm", "opt", "bloom", "mpt", "phi"}
    | {"starcoder2", "nemotron", "persimmon", *_FALCON}
)
_TIED_BY_DEFAULT: Final = frozenset(
    {"gpt2", "gpt_bigcode", "gpt_neo", "xglm", "opt", "bloom", "mpt", "starcoder2", *_FALCON}
    | {"gemma", "gemma2", "gemma3", "gemma3_text", "cohere", "cohere2"}
)
_GEMMA3_WINDOWED: Final = 5 / 6
_WINDOWED_BY_DEFAULT: Final = {
    "gemma2": 1 / 2,
    "gpt_oss": 1 / 2,
    "cohere2": 3 / 4,
    "gemma3": _GEMMA3_WINDOWED,
    "gemma3_text": _GEMMA3_WINDOWED,
}
_GEMMA3_DEFAULTS: Final[dict[str, object]] = {
    "vocab_size": 262208,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "head_dim": 256,
}
_DEFAULTS: Final[dict[str, dict[str, object]]] = {"gemma3": _GEMMA3_DEFAULTS, "gemma3_text": _GEMMA3_DEFAULTS}
"""Values that configs of a family leave out because its class defines them."""
_WINDOW_ONLY_IF_SWITCHED_ON: Final = frozenset({"qwen2", "qwen2_moe", "qwen3", "qwen3_moe"})
_WINDOWED_LAYER_TYPES: Final = frozenset({"sliding_attention", "chunked_attention"})


def looks_like_huggingface(mapping: Config) -> bool:
    """Return whether a mapping is a Hugging Face config rather than columns of the runs table."""
    return not RECOGNISED_BY.isdisjoint(mapping)


def model_fields(config: Config, *, name: str = "") -> Fields:
    """Return the architecture columns a config determines.

    Parameters
    ----------
    config : Mapping
        The parsed ``config.json``; the language part of a multimodal model is found by itself.
    name : str, optional
        What to call the model if the config does not say.

    Returns
    -------
    dict
        Columns of the runs table. A required one that neither the config nor its family's defaults give is absent.

    Raises
    ------
    InputError
        For architectures that are no decoder-only transformers.
    """
    language = _language_part(config)
    family = str(language.get("model_type", config.get("model_type", "")))
    language = {**_DEFAULTS.get(family, {}), **language}
    if language.get("is_encoder_decoder") or family in ("t5", "mamba", "mamba2", "rwkv", "bert"):
        raise InputError("model_type", "must be a decoder-only transformer", family, "spell the architecture out")
    fields: Fields = {
        "model_name": _model_name(config, language, name or family),
        "arch_from": "Hugging Face config.json",
        "num_layers": _first(language, "num_hidden_layers", "n_layer", "n_layers", "num_layers"),
        "hidden_size": _first(language, "hidden_size", "n_embd", "d_model", "n_embed"),
        "num_heads": _first(language, "num_attention_heads", "n_head", "n_heads"),
        "vocab_size": _first(language, "vocab_size"),
        "gated_mlp": _gated(language, family),
        "tied_embeddings": bool(_first(language, "tie_word_embeddings", default=family in _TIED_BY_DEFAULT)),
        "num_mtp_layers": _first(language, "num_nextn_predict_layers", default=0),
    }
    fields |= _attention(language, family, fields)
    fields |= _experts(language, family, fields)
    fields["ffn_hidden_size"] = _dense_width(language, family, fields)
    fields |= _window(language, family, fields)
    return {column: value for column, value in fields.items() if value is not None}


def _language_part(config: Config) -> Config:
    for key in NESTED_KEYS:
        nested = config.get(key)
        if isinstance(nested, Mapping):
            shared = {k: config[k] for k in ("tie_word_embeddings", "vocab_size") if k in config}
            return {**shared, **nested}
    return config


def _first(config: Config, *keys: str, default: object = None) -> object:
    """Return the first key that is present and not null."""
    return next((config[key] for key in keys if config.get(key) is not None), default)


def _whole(config: Config, *keys: str) -> int | None:
    value = _first(config, *keys)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _nested(config: Config, key: str) -> Config:
    value = config.get(key)
    return value if isinstance(value, Mapping) else {}


def _model_name(config: Config, language: Config, fallback: str) -> str | None:
    path = str(_first(config, "_name_or_path", default="") or _first(language, "_name_or_path", default=""))
    return path.rstrip("/").rsplit("/", 1)[-1] or fallback or None


def _gated(config: Config, family: str) -> bool:
    feed_forward = _nested(config, "ffn_config")
    if feed_forward.get("ffn_type") is not None:
        return "glu" in str(feed_forward["ffn_type"]) or "moe" in str(feed_forward["ffn_type"])
    return family not in _PLAIN_MLP


def _attention(config: Config, family: str, fields: Fields) -> Fields:
    """Return head counts, widths and the kind of attention."""
    heads, hidden = fields["num_heads"], fields["hidden_size"]
    kv_heads = _kv_heads(config, family, heads)
    if config.get("kv_lora_rank") is not None:
        return {"num_kv_heads": kv_heads, "attention": "mla", **_latent_widths(config)}
    head_dim = _whole(config, "head_dim")
    if head_dim is None and isinstance(heads, int) and isinstance(hidden, int) and heads:
        head_dim = hidden // heads
    kind = "mha" if kv_heads == heads else "mqa" if kv_heads == 1 else "gqa"
    return {"num_kv_heads": kv_heads, "head_dim": head_dim, "attention": kind}


def _kv_heads(config: Config, family: str, heads: object) -> object:
    if family in _FALCON and not config.get("new_decoder_architecture"):
        return 1 if config.get("multi_query", True) else heads
    if family == "gpt_bigcode":
        return 1 if config.get("multi_query", True) else heads
    own = _first(config, "num_key_value_heads", "num_kv_heads", "n_head_kv")
    return own or _first(_nested(config, "attn_config"), "kv_n_heads", default=heads)


def _latent_widths(config: Config) -> Fields:
    nope, rope = _whole(config, "qk_nope_head_dim"), _whole(config, "qk_rope_head_dim")
    return {
        "q_lora_rank": _first(config, "q_lora_rank", default=0),
        "kv_lora_rank": config["kv_lora_rank"],
        "qk_nope_head_dim": nope,
        "qk_rope_head_dim": rope,
        "v_head_dim": _first(config, "v_head_dim"),
        "head_dim": nope + rope if nope is not None and rope is not None else None,
    }


def _experts(config: Config, family: str, fields: Fields) -> Fields:
    """Return the expert columns; zeros for a dense model."""
    feed_forward = _nested(config, "ffn_config")
    keys = ("num_local_experts", "n_routed_experts", "num_experts", "moe_num_experts")
    experts = _whole(config, *keys) or _whole(feed_forward, "moe_num_experts") or 0
    if not experts:
        return {"num_experts": 0, "moe_top_k": 0, "num_shared_experts": 0}
    top_k = _whole(config, "num_experts_per_tok", "num_experts_per_token", "moe_top_k", "experts_per_token")
    width = _whole(config, "moe_intermediate_size") or _whole(feed_forward, "ffn_hidden_size")
    return {
        "num_experts": experts,
        "moe_top_k": top_k or _whole(feed_forward, "moe_top_k"),
        "moe_ffn_hidden_size": width or _whole(config, "intermediate_size"),
        "num_shared_experts": _shared_experts(config, family),
        "num_dense_layers": _dense_layers(config, family, fields["num_layers"]),
    }


def _shared_experts(config: Config, family: str) -> int:
    """Return shared experts in units of one routed expert's width."""
    width, unit = _whole(config, "shared_expert_intermediate_size"), _whole(config, "moe_intermediate_size")
    if width and unit:
        return max(1, round(width / unit))
    return _whole(config, "n_shared_experts", "num_shared_experts") or (1 if family.startswith("llama4") else 0)


def _dense_layers(config: Config, family: str, num_layers: object) -> int | None:
    if not isinstance(num_layers, int):
        return None
    leading = _whole(config, "first_k_dense_replace")
    if leading is not None:
        return leading
    if family.startswith("llama4"):
        return _layers_without_experts(config, num_layers)
    dense = config.get("mlp_only_layers")
    step = _whole(config, "decoder_sparse_step") or 1
    listed = set(dense) if isinstance(dense, Sequence) and not isinstance(dense, str) else set()
    return sum(layer in listed or (layer + 1) % step != 0 for layer in range(num_layers))


def _layers_without_experts(config: Config, num_layers: int) -> int:
    listed = config.get("moe_layers")
    if isinstance(listed, Sequence) and not isinstance(listed, str) and listed:
        return num_layers - len(listed)
    return num_layers - num_layers // (_whole(config, "interleave_moe_layer_step") or 1)


def _dense_width(config: Config, family: str, fields: Fields) -> object:
    """Return the width of a dense layer's MLP."""
    if family.startswith("llama4"):
        return _first(config, "intermediate_size_mlp", "intermediate_size")
    own = _first(config, "intermediate_size", "n_inner", "ffn_hidden_size", "ffn_dim")
    own = own or _first(_nested(config, "ffn_config"), "ffn_hidden_size")
    if own is not None:
        return own
    hidden, ratio = fields["hidden_size"], _first(config, "expansion_ratio", default=4)
    if family in _PLAIN_MLP and isinstance(hidden, int) and isinstance(ratio, int | float):
        return int(hidden * ratio)
    return None


def _window(config: Config, family: str, fields: Fields) -> Fields:
    """Return the attention window and the share of the layers that have it."""
    window = _whole(config, "sliding_window", "attention_chunk_size", "sliding_window_size")
    if not window or (family in _WINDOW_ONLY_IF_SWITCHED_ON and not config.get("use_sliding_window")):
        return {}
    fraction = _windowed_fraction(config, family, fields["num_layers"])
    return {"sliding_window": window, "windowed_layers_fraction": fraction} if fraction else {}


def _windowed_fraction(config: Config, family: str, num_layers: object) -> float:
    layer_types = config.get("layer_types")
    if isinstance(layer_types, Sequence) and not isinstance(layer_types, str) and layer_types:
        return sum(kind in _WINDOWED_LAYER_TYPES for kind in layer_types) / len(layer_types)
    pattern = _whole(config, "sliding_window_pattern", "_sliding_window_pattern")
    if pattern:
        return (pattern - 1) / pattern
    if family.startswith("llama4"):
        interval = _whole(config, "no_rope_layer_interval") or 4
        return (interval - 1) / interval
    first_windowed = _whole(config, "max_window_layers")
    if family in _WINDOW_ONLY_IF_SWITCHED_ON and first_windowed is not None and isinstance(num_layers, int):
        return max(0, num_layers - first_windowed) / num_layers
    return _WINDOWED_BY_DEFAULT.get(family, 1.0)
