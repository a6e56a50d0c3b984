"""GPT-NeoX YAML: Megatron and DeepSpeed settings in one flat file, keys with hyphens or underscores."""

from __future__ import annotations

import re
from typing import Final

from surrogate.ingest.configs.deepspeed import read_batch, read_zero
from surrogate.ingest.configs.derive import BatchRule
from surrogate.ingest.configs.known_names import vocabulary_of
from surrogate.ingest.configs.report import ConfigReport, Draft
from surrogate.ingest.configs.scalars import as_count, as_flag, as_text
from surrogate.ingest.configs.script_cluster import ask_accelerator
from surrogate.ingest.configs.shape import complete_attention, complete_experts, complete_pipeline
from surrogate.ingest.configs.tree import Tree, first, lookup, section

_GATED: Final = frozenset({"swiglu", "geglu", "reglu", "bilinear", "glu"})
_PRECISION: Final = {
    "bfloat16": "bf16",
    "bf16": "bf16",
    "fp16": "fp16",
    "half": "fp16",
    "fp32": "fp32",
    "float": "fp32",
}

_SPOKEN_OF: Final = re.compile(r"\b(\d{1,6}) GPUs", re.IGNORECASE)


def read_neox(tree: Tree, text: str = "") -> ConfigReport:
    """Read a GPT-NeoX configuration.

    Parameters
    ----------
    tree : dict
        Loaded YAML.
    text : str
        The file's text; its comments may name the accelerators.
    """
    flat = {str(key).replace("-", "_"): value for key, value in tree.items()}
    draft = Draft()
    draft.put("framework", "gpt-neox")
    _read_model(draft, flat)
    _read_experts(draft, flat)
    _read_layout(draft, flat)
    read_zero(draft, flat)
    _read_batch(draft, flat)
    _read_precision(draft, flat)
    _read_recompute(draft, flat)
    _read_knobs(draft, flat)
    comments = "\n".join(line for line in text[:20_000].splitlines() if "#" in line)
    ask_accelerator(draft, comments)
    spoken = _SPOKEN_OF.search(comments)
    hint = f"; a comment speaks of {spoken.group(1)} GPUs" if spoken else ""
    draft.ask("num_gpus", f"the launcher takes it from the hostfile{hint}")
    return draft.finish("gpt-neox")


def _read_model(draft: Draft, tree: Tree) -> None:
    draft.count("num_layers", tree.get("num_layers"))
    hidden = draft.count("hidden_size", tree.get("hidden_size"))
    draft.count("num_heads", tree.get("num_attention_heads"))
    draft.count("num_kv_heads", tree.get("num_kv_heads"))
    draft.count("seq_len", tree.get("seq_length"))
    activation = (as_text(tree.get("activation")) or "").lower()
    gated = activation in _GATED or as_text(tree.get("mlp_type")) == "llama"
    (draft.put if activation else draft.default)("gated_mlp", gated)
    if draft.count("ffn_hidden_size", tree.get("intermediate_size")) is None and hidden:
        draft.default("ffn_hidden_size", 4 * hidden)
    untied = as_flag(tree.get("no_weight_tying"))
    (draft.default if untied is None else draft.put)("tied_embeddings", not untied)
    tokenizer = as_text(tree.get("tokenizer_type")) or "GPT2BPETokenizer"
    if draft.count("vocab_size", first(tree, "padded_vocab_size", "vocab_size")) is None:
        draft.default("vocab_size", vocabulary_of(tokenizer) if "tokenizer_type" in tree else None)
    draft.ask("vocab_size", "it comes from the tokenizer, which the file does not size")
    complete_attention(draft)
    if as_flag(tree.get("gpt_j_residual")):
        draft.note("attention and MLP run in parallel (gpt_j_residual): one all-reduce per layer instead of two")
    window = as_count(tree.get("sliding_window_width"))
    draft.put("sliding_window", window)


def _read_experts(draft: Draft, tree: Tree) -> None:
    experts = as_count(first(tree, "moe_num_experts", "num_experts"), least=2)
    if experts:
        draft.put("num_experts", experts)
        draft.count("moe_top_k", tree.get("moe_top_k"))
        draft.default("moe_top_k", 1)
        every = as_count(first(tree, "expert_interval", "moe_expert_interval")) or (
            1 if "moe_num_experts" in tree else 2
        )
        if layers := draft.integer("num_layers"):
            draft.put("num_dense_layers", layers - -(-layers // every))
        draft.count("ep", tree.get("moe_expert_parallel_size"))
    draft.default("ep", 1)
    complete_experts(draft)


def _read_layout(draft: Draft, tree: Tree) -> None:
    draft.count("tp", tree.get("model_parallel_size"))
    draft.count("pp", as_count(tree.get("pipe_parallel_size")) or (None if "pipe_parallel_size" not in tree else 1))
    draft.count("cp", tree.get("context_parallel_size"))
    for column in ("tp", "pp", "cp"):
        draft.default(column, 1)
    draft.flag("sequence_parallel", tree.get("sequence_parallel"))
    draft.default("sequence_parallel", False)
    complete_pipeline(draft)
    nodes, per_node = as_count(tree.get("num_nodes")), as_count(tree.get("num_gpus"))
    draft.put("gpus_per_node", per_node)
    draft.put("num_gpus", as_count(tree.get("global_num_gpus")) or (nodes * per_node if nodes and per_node else None))


def _read_batch(draft: Draft, tree: Tree) -> None:
    read_batch(draft, {"gradient_accumulation_steps": tree.get("gas"), **tree})
    rule = draft.batch_rule
    if draft.integer("global_batch_size") and draft.integer("micro_batch_size") and rule.accumulation_steps is None:
        draft.batch_rule = BatchRule()


def _read_precision(draft: Draft, tree: Tree) -> None:
    name = (as_text(tree.get("precision")) or "").lower()
    half = section(tree, "fp16")
    if name:
        precision = _PRECISION.get(name)
    elif as_flag(lookup(tree, "bf16.enabled")):
        precision = "bf16"
    elif as_flag(half.get("enabled")) or as_flag(half.get("fp16")):
        precision = _PRECISION.get((as_text(half.get("type")) or "fp16").lower(), "fp16")
    else:
        precision = "fp32"
    draft.put("precision", precision)
    draft.ask("precision", f"precision {name!r} is not one this program knows")
    modules = ("te_columnparallel", "te_rowparallel", "te_layernorm_mlp", "te_mha")
    if as_text(tree.get("te_fp8_format")) and any(as_flag(tree.get(module)) for module in modules):
        draft.note("Transformer Engine layers with te_fp8_format: the layers named by te_* run in FP8")
        draft.put("precision", "fp8")
        draft.put("fp8_recipe", "delayed")
    if as_flag(tree.get("fp32_allreduce")):
        draft.put("grad_reduce_dtype", "fp32")


def _read_recompute(draft: Draft, tree: Tree) -> None:
    on = as_flag(tree.get("checkpoint_activations"))
    draft.put("recompute", "full" if on else None)
    draft.put("recompute_kind", "full" if on else None)
    draft.default("recompute", "none")


def _read_knobs(draft: Draft, tree: Tree) -> None:
    kinds = str(tree.get("attention_config") or "").lower()[:2000]
    flash = "flash" in kinds or as_flag(tree.get("te_mha")) is True
    (draft.put if kinds else draft.default)("flash_attention", flash)
    draft.default("attention_backend", "flash" if flash else "unfused")
    norms = [as_flag(first(tree, name)) for name in ("layernorm_fusion", "rmsnorm_fusion")]
    if any(norm is not None for norm in norms):
        draft.put("fused_norm", any(norms))
    name = (as_text(lookup(tree, "optimizer.type")) or "Adam").lower()
    draft.put("optimizer", "adam" if "adam" in name else name)
    for column in ("overlap_param_gather", "tp_comm_overlap"):
        draft.default(column, False)
