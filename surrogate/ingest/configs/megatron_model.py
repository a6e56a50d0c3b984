"""Model shape out of Megatron-LM arguments (also Megatron-DeepSpeed and other forks)."""

from __future__ import annotations

from typing import Final

from surrogate.ingest.configs.arguments import Arguments
from surrogate.ingest.configs.known_names import vocabulary_of
from surrogate.ingest.configs.report import Draft
from surrogate.ingest.configs.scalars import as_count, as_text
from surrogate.ingest.configs.shape import complete_attention, complete_experts, dense_layers, share_experts

_GATED: Final = ("swiglu", "gated_linear_unit", "quick_geglu", "geglu", "reglu")
_GATED_WIDTH_UNIT: Final = 64
"""Megatron's default gated width is a multiple of this (megatron/training/arguments.py, validate_args)."""
_LATENT_DEFAULTS: Final = {"kv_lora_rank": 32, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128}
"""Defaults of `MLATransformerConfig` in Megatron-LM (megatron/core/transformer/transformer_config.py)."""


def read_model(draft: Draft, arguments: Arguments) -> None:
    """Read layers, widths, heads, vocabulary, experts and latent attention."""
    layers = draft.count("num_layers", arguments.raw("num_layers", "encoder_num_layers"))
    hidden = draft.count("hidden_size", arguments.raw("hidden_size"))
    draft.count("num_heads", arguments.raw("num_attention_heads"))
    draft.count("head_dim", arguments.raw("kv_channels"))
    _read_groups(draft, arguments)
    gated = arguments.on(*_GATED) or (arguments.text("activation_func") or "").lower() in _GATED
    (draft.put if gated or "swiglu" in arguments else draft.default)("gated_mlp", gated)
    if draft.count("ffn_hidden_size", arguments.raw("ffn_hidden_size")) is None and hidden:
        draft.default("ffn_hidden_size", _default_width(hidden, gated=gated))
    untied = arguments.on("untie_embeddings_and_output_weights")
    (draft.put if untied else draft.default)("tied_embeddings", not untied)
    _read_vocabulary(draft, arguments)
    _read_latent(draft, arguments)
    complete_attention(draft)
    _read_experts(draft, arguments, layers)
    draft.count("num_mtp_layers", arguments.raw("mtp_num_layers"), least=0)
    window = arguments.items("window_size") or []
    if not window and (size := as_count(str(arguments.raw("window_size") or "").strip("([").split(",")[0])):
        draft.put("sliding_window", size)


def _read_groups(draft: Draft, arguments: Arguments) -> None:
    grouped = arguments.flag("group_query_attention")
    if (
        grouped is not False
        and "num_query_groups" in arguments
        and (grouped or "group_query_attention" not in arguments)
    ):
        draft.count("num_kv_heads", arguments.raw("num_query_groups"))
    elif "num_key_value_heads" in arguments:
        draft.count("num_kv_heads", arguments.raw("num_key_value_heads"))


def _default_width(hidden: int, *, gated: bool) -> int:
    """Return 4 h, or for a gated MLP two thirds of it rounded down to a multiple of 64."""
    return 8 * hidden // 3 // _GATED_WIDTH_UNIT * _GATED_WIDTH_UNIT if gated else 4 * hidden


def _read_vocabulary(draft: Draft, arguments: Arguments) -> None:
    names = ("pad_vocab_size_to", "vocab_size", "padded_vocab_size")
    if draft.count("vocab_size", arguments.raw(*names)) is not None:
        return
    tokenizer = arguments.text("tokenizer_model", "tokenizer_name_or_path") or arguments.text("tokenizer_type") or ""
    known = vocabulary_of(tokenizer) or vocabulary_of(arguments.text("tokenizer_type") or "")
    if known:
        draft.default("vocab_size", known)
        draft.note(f"vocab_size {known} is the tokenizer's ({tokenizer}), the file does not give it")
    else:
        draft.ask("vocab_size", "it comes from the tokenizer, which the file does not size")


def _read_latent(draft: Draft, arguments: Arguments) -> None:
    if not (arguments.on("multi_latent_attention") or as_text(arguments.raw("kv_lora_rank"))):
        return
    draft.put("attention", "mla")
    draft.count("q_lora_rank", arguments.raw("q_lora_rank"))
    draft.count("kv_lora_rank", arguments.raw("kv_lora_rank"))
    draft.count("qk_nope_head_dim", arguments.raw("qk_head_dim", "qk_nope_head_dim"))
    draft.count("qk_rope_head_dim", arguments.raw("qk_pos_emb_head_dim", "qk_rope_head_dim"))
    draft.count("v_head_dim", arguments.raw("v_head_dim"))
    for column, width in _LATENT_DEFAULTS.items():
        draft.default(column, width)


def _read_experts(draft: Draft, arguments: Arguments, layers: int | None) -> None:
    experts = draft.count("num_experts", arguments.raw("num_experts", "num_moe_experts"), least=0)
    if experts == 1:
        draft.put("num_experts", 0)
        draft.note("num_experts 1 is a dense model")
    if not draft.integer("num_experts"):
        complete_experts(draft)
        return
    if draft.count("moe_top_k", arguments.raw("moe_router_topk", "topk", "moe_top_k")) is None:
        draft.default("moe_top_k", 1 if "topk" in arguments or "moe_expert_parallel_size" in arguments else 2)
    draft.count("moe_ffn_hidden_size", arguments.raw("moe_ffn_hidden_size"))
    share_experts(draft, as_count(arguments.raw("moe_shared_expert_intermediate_size")))
    draft.count("num_shared_experts", arguments.raw("num_shared_experts"), least=0)
    pattern = as_text(arguments.raw("moe_layer_freq", "expert_interval"))
    if pattern and layers:
        dense = dense_layers(pattern, layers)
        draft.put("num_dense_layers", dense)
        if dense is None:
            draft.ask("num_dense_layers", f"the expert pattern {pattern[:60]!r} cannot be read")
    draft.count("num_dense_layers", arguments.raw("first_k_dense_replace"), least=0)
    complete_experts(draft)
