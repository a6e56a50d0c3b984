"""Model shape rules that every reader shares: attention kind, defaults of widths, dense models, layer patterns."""

from __future__ import annotations

import re
from typing import Final

from surrogate.ingest.configs.report import Draft

_PATTERN_TERM: Final = re.compile(r"\[([01, ]*)\](?:\*(\d{1,4}))?")
_STAGE_REPEAT: Final = re.compile(r"\(([^()]*)\)\*(\d{1,4})")


def complete_attention(draft: Draft) -> None:
    """Fill `num_kv_heads`, `head_dim` and `attention` from what is known.

    Without grouped queries each head has its own keys and values; without a head width it is hidden / heads, in latent
    attention the query-key width with and without rotary position together.
    """
    hidden, heads = draft.integer("hidden_size"), draft.integer("num_heads")
    is_latent = draft.values.get("attention") == "mla" or "kv_lora_rank" in draft.values
    if heads:
        draft.default("num_kv_heads", heads)
        if hidden and hidden % heads == 0 and not is_latent:
            draft.default("head_dim", hidden // heads)
    if is_latent:
        draft.put("attention", "mla")
        nope, rope = draft.integer("qk_nope_head_dim"), draft.integer("qk_rope_head_dim")
        draft.put("head_dim", nope + rope if nope and rope else None)
    elif heads and (groups := draft.integer("num_kv_heads")):
        draft.put("attention", "mha" if groups == heads else "mqa" if groups == 1 else "gqa")


def complete_experts(draft: Draft) -> None:
    """Fill the expert columns: zeros for a dense model, no dense layers and no shared experts unless said."""
    if not draft.integer("num_experts"):
        for column in ("num_experts", "moe_top_k", "num_shared_experts"):
            draft.default(column, 0)
        draft.default("ep", 1)
        return
    draft.default("num_shared_experts", 0)
    draft.default("num_dense_layers", 0)
    if (ffn := draft.integer("ffn_hidden_size")) is not None:
        draft.default("moe_ffn_hidden_size", ffn)


def share_experts(draft: Draft, shared_width: int | None) -> None:
    """Express the total width of the shared experts in units of `moe_ffn_hidden_size`."""
    width = draft.integer("moe_ffn_hidden_size") or draft.integer("ffn_hidden_size")
    if not shared_width or not width:
        return
    if shared_width % width == 0:
        draft.put("num_shared_experts", shared_width // width)
    else:
        draft.ask("num_shared_experts", f"shared width {shared_width} is not a multiple of the expert width {width}")


def dense_layers(pattern: str, num_layers: int) -> int | None:
    """Return how many layers are dense in an expert-layer pattern, or None when it cannot be read.

    Parameters
    ----------
    pattern : str
        ``N`` (layer i has experts when i is a multiple of N) or a list such as ``([0]*3+[1]*58)``, 1 for experts.
    num_layers : int
        Number of layers.

    Examples
    --------
    >>> dense_layers("([0]*3+[1]*58)", 61), dense_layers("2", 12)
    (3, 6)
    """
    text = pattern.replace(" ", "")
    if text.isdecimal() and 0 < len(text) < 5 and int(text) > 0:
        return num_layers - -(-num_layers // int(text))
    body = text.removeprefix("(").removesuffix(")")
    if not re.fullmatch(r"(\[[01,]*\](\*\d{1,4})?\+?)+", body[:2000]):
        return None
    kinds = [
        kind
        for digits, times in _PATTERN_TERM.findall(body[:2000])
        for kind in re.findall("[01]", digits) * min(int(times or 1), 1000)
    ]
    return kinds.count("0") if len(kinds) == num_layers else None


def layout_stages(layout: str) -> int:
    """Return the number of pipeline chunks in a layout such as ``Et*3|(tt|)*29m|L``: its bars, expanded, plus one."""
    bars = layout.count("|")
    for inner, times in _STAGE_REPEAT.findall(layout):
        bars += inner.count("|") * (int(times) - 1)
    return bars + 1


def complete_pipeline(draft: Draft) -> None:
    """Fill `vp` and the schedule's name from the pipeline sizes: one-forward-one-backward, interleaved with vp > 1."""
    pp = draft.integer("pp")
    if pp is None:
        return
    draft.default("vp", 1)
    if pp > 1 and (vp := draft.integer("vp")):
        draft.default("pipeline_schedule", "interleaved-1f1b" if vp > 1 else "1f1b")
