"""Hugging Face configs give the same architecture as the catalogue's presets."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from surrogate.catalog import resolve_model
from surrogate.errors import InputError
from surrogate.plan import SECTION_COLUMNS, load_plan, model_fields, parse_plan

ARCHITECTURE = [
    column
    for column in SECTION_COLUMNS["model"]
    if column not in ("model_name", "arch_from", "published_params", "published_active_params")
]

LLAMA3_8B = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 4096, "intermediate_size": 14336,
    "num_attention_heads": 32, "num_hidden_layers": 32, "num_key_value_heads": 8, "vocab_size": 128256,
    "tie_word_embeddings": False,
}  # fmt: skip
CONFIGS = {
    "llama3-8b": LLAMA3_8B,
    "mistral-7b": {
        "model_type": "mistral", "hidden_size": 4096, "intermediate_size": 14336, "num_attention_heads": 32,
        "num_hidden_layers": 32, "num_key_value_heads": 8, "sliding_window": 4096, "vocab_size": 32000,
    },
    "mixtral-8x7b": {
        "model_type": "mixtral", "hidden_size": 4096, "intermediate_size": 14336, "num_attention_heads": 32,
        "num_hidden_layers": 32, "num_key_value_heads": 8, "num_local_experts": 8, "num_experts_per_tok": 2,
        "sliding_window": None, "vocab_size": 32000,
    },
    "qwen2-7b": {
        "model_type": "qwen2", "hidden_size": 3584, "intermediate_size": 18944, "num_attention_heads": 28,
        "num_hidden_layers": 28, "num_key_value_heads": 4, "sliding_window": 131072, "use_sliding_window": False,
        "max_window_layers": 28, "tie_word_embeddings": False, "vocab_size": 152064,
    },
    "qwen1.5-moe-a2.7b": {
        "model_type": "qwen2_moe", "hidden_size": 2048, "intermediate_size": 5632, "num_attention_heads": 16,
        "num_hidden_layers": 24, "num_key_value_heads": 16, "num_experts": 60, "num_experts_per_tok": 4,
        "moe_intermediate_size": 1408, "shared_expert_intermediate_size": 5632, "decoder_sparse_step": 1,
        "vocab_size": 151936,
    },
    "qwen3-30b-a3b": {
        "model_type": "qwen3_moe", "hidden_size": 2048, "intermediate_size": 6144, "num_attention_heads": 32,
        "head_dim": 128, "num_hidden_layers": 48, "num_key_value_heads": 4, "num_experts": 128,
        "num_experts_per_tok": 8, "moe_intermediate_size": 768, "mlp_only_layers": [], "decoder_sparse_step": 1,
        "vocab_size": 151936,
    },
    "deepseek-v2-lite": {
        "model_type": "deepseek_v2", "hidden_size": 2048, "intermediate_size": 10944, "num_attention_heads": 16,
        "num_hidden_layers": 27, "num_key_value_heads": 16, "n_routed_experts": 64, "num_experts_per_tok": 6,
        "n_shared_experts": 2, "moe_intermediate_size": 1408, "first_k_dense_replace": 1, "q_lora_rank": None,
        "kv_lora_rank": 512, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128, "vocab_size": 102400,
    },
    "deepseek-v3": {
        "model_type": "deepseek_v3", "hidden_size": 7168, "intermediate_size": 18432, "num_attention_heads": 128,
        "num_hidden_layers": 61, "num_key_value_heads": 128, "n_routed_experts": 256, "num_experts_per_tok": 8,
        "n_shared_experts": 1, "moe_intermediate_size": 2048, "first_k_dense_replace": 3, "q_lora_rank": 1536,
        "kv_lora_rank": 512, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128, "vocab_size": 129280,
        "num_nextn_predict_layers": 1,
    },
    "gpt-oss-20b": {
        "model_type": "gpt_oss", "hidden_size": 2880, "intermediate_size": 2880, "num_attention_heads": 64,
        "head_dim": 64, "num_hidden_layers": 24, "num_key_value_heads": 8, "num_local_experts": 32,
        "num_experts_per_tok": 4, "sliding_window": 128, "vocab_size": 201088,
        "layer_types": ["sliding_attention", "full_attention"] * 12,
    },
    "gemma-7b": {
        "model_type": "gemma", "hidden_size": 3072, "intermediate_size": 24576, "num_attention_heads": 16,
        "head_dim": 256, "num_hidden_layers": 28, "num_key_value_heads": 16, "vocab_size": 256000,
    },
    "gemma2-9b": {
        "model_type": "gemma2", "hidden_size": 3584, "intermediate_size": 14336, "num_attention_heads": 16,
        "head_dim": 256, "num_hidden_layers": 42, "num_key_value_heads": 8, "sliding_window": 4096,
        "vocab_size": 256000,
    },
    "gemma3-27b": {
        "model_type": "gemma3", "vision_config": {"hidden_size": 1152},
        "text_config": {
            "model_type": "gemma3_text", "hidden_size": 5376, "intermediate_size": 21504, "num_attention_heads": 32,
            "head_dim": 128, "num_hidden_layers": 62, "num_key_value_heads": 16, "sliding_window": 1024,
            "vocab_size": 262144,
        },
    },
    "falcon-7b": {
        "model_type": "falcon", "hidden_size": 4544, "num_attention_heads": 71, "num_hidden_layers": 32,
        "multi_query": True, "new_decoder_architecture": False, "vocab_size": 65024,
    },
    "falcon-40b": {
        "model_type": "falcon", "hidden_size": 8192, "num_attention_heads": 128, "num_hidden_layers": 60,
        "num_kv_heads": 8, "new_decoder_architecture": True, "vocab_size": 65024,
    },
    "bloom-176b": {
        "model_type": "bloom", "n_embed": 14336, "n_layer": 70, "num_attention_heads": 112, "vocab_size": 250880,
    },
    "mpt-30b": {
        "model_type": "mpt", "d_model": 7168, "n_heads": 64, "n_layers": 48, "expansion_ratio": 4,
        "attn_config": {"alibi": True}, "vocab_size": 50432,
    },
    "gpt2-1.5b": {
        "model_type": "gpt2", "n_embd": 1600, "n_head": 25, "n_layer": 48, "n_inner": None, "vocab_size": 50257,
    },
    "gpt-neox-20b": {
        "model_type": "gpt_neox", "hidden_size": 6144, "intermediate_size": 24576, "num_attention_heads": 64,
        "num_hidden_layers": 44, "vocab_size": 50432, "tie_word_embeddings": False,
    },
    "gpt-j-6b": {
        "model_type": "gptj", "n_embd": 4096, "n_head": 16, "n_layer": 28, "vocab_size": 50400,
        "tie_word_embeddings": False,
    },
    "opt-6.7b": {
        "model_type": "opt", "hidden_size": 4096, "ffn_dim": 16384, "num_attention_heads": 32, "num_hidden_layers": 32,
        "vocab_size": 50272,
    },
    "phi-2": {
        "model_type": "phi", "hidden_size": 2560, "intermediate_size": 10240, "num_attention_heads": 32,
        "num_hidden_layers": 32, "vocab_size": 51200, "tie_word_embeddings": False,
    },
    "phi-3-mini": {
        "model_type": "phi3", "hidden_size": 3072, "intermediate_size": 8192, "num_attention_heads": 32,
        "num_hidden_layers": 32, "num_key_value_heads": 32, "sliding_window": 2047, "vocab_size": 32064,
    },
    "phi-3.5-moe": {
        "model_type": "phimoe", "hidden_size": 4096, "intermediate_size": 6400, "num_attention_heads": 32,
        "num_hidden_layers": 32, "num_key_value_heads": 8, "num_local_experts": 16, "num_experts_per_tok": 2,
        "vocab_size": 32064,
    },
    "llama4-maverick": {
        "model_type": "llama4",
        "text_config": {
            "model_type": "llama4_text", "hidden_size": 5120, "intermediate_size": 8192,
            "intermediate_size_mlp": 16384, "num_attention_heads": 40, "head_dim": 128, "num_hidden_layers": 48,
            "num_key_value_heads": 8, "num_local_experts": 128, "num_experts_per_tok": 1,
            "interleave_moe_layer_step": 2, "attention_chunk_size": 8192, "vocab_size": 202048,
        },
    },
    "dbrx": {
        "model_type": "dbrx", "d_model": 6144, "n_heads": 48, "n_layers": 40, "vocab_size": 100352,
        "attn_config": {"kv_n_heads": 8}, "tie_word_embeddings": False,
        "ffn_config": {"ffn_hidden_size": 10752, "moe_num_experts": 16, "moe_top_k": 4},
    },
    "kimi-k2": {
        "model_type": "kimi_k2", "hidden_size": 7168, "intermediate_size": 18432, "num_attention_heads": 64,
        "num_hidden_layers": 61, "num_key_value_heads": 64, "n_routed_experts": 384, "num_experts_per_tok": 8,
        "n_shared_experts": 1, "moe_intermediate_size": 2048, "first_k_dense_replace": 1, "q_lora_rank": 1536,
        "kv_lora_rank": 512, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128, "vocab_size": 163840,
    },
}  # fmt: skip
CLUSTER = {"accelerator": "H100", "num_gpus": 8, "tp": 1, "pp": 1, "seq_len": 2048, "global_batch_size": 8}


@pytest.mark.parametrize("name", CONFIGS)
def test_config_gives_the_presets_architecture(name: str) -> None:
    from_config = parse_plan({"model": CONFIGS[name], **CLUSTER}, "config").model
    preset = resolve_model(name)
    found = {column: getattr(from_config, column) or 0 for column in ARCHITECTURE}
    expected = {column: getattr(preset, column) or 0 for column in ARCHITECTURE}
    fraction = expected.pop("windowed_layers_fraction")
    assert found.pop("windowed_layers_fraction") == pytest.approx(fraction, rel=1e-5)
    assert found == expected


def test_window_counts_the_listed_layer_types() -> None:
    kinds = ["sliding_attention"] * 5 + ["full_attention"]
    config = {**LLAMA3_8B, "sliding_window": 512, "layer_types": kinds}
    assert model_fields(config)["windowed_layers_fraction"] == pytest.approx(5 / 6)


def test_qwen_window_that_is_switched_on_covers_the_layers_above_the_limit() -> None:
    config = CONFIGS["qwen2-7b"] | {"use_sliding_window": True, "max_window_layers": 21}
    assert model_fields(config)["windowed_layers_fraction"] == pytest.approx(7 / 28)


def test_every_other_layer_dense_by_the_sparse_step() -> None:
    config = CONFIGS["qwen3-30b-a3b"] | {"decoder_sparse_step": 2}
    assert model_fields(config)["num_dense_layers"] == 24


def test_gemma3_defaults_that_its_configs_leave_out() -> None:
    config = {"model_type": "gemma3", "text_config": {"hidden_size": 2560, "num_hidden_layers": 34}}
    fields = model_fields(config)
    assert (fields["num_heads"], fields["num_kv_heads"], fields["head_dim"]) == (8, 4, 256)


@pytest.mark.parametrize(
    ("config", "column", "value"),
    [
        ({"model_type": "gpt_bigcode", "n_head": 48, "n_embd": 6144, "multi_query": True}, "num_kv_heads", 1),
        (CONFIGS["falcon-7b"] | {"multi_query": False}, "num_kv_heads", 71),
        (CONFIGS["mpt-30b"] | {"ffn_config": {"ffn_type": "mptglu"}}, "gated_mlp", True),
        (CONFIGS["mpt-30b"] | {"attn_config": {"kv_n_heads": 8}}, "num_kv_heads", 8),
        (CONFIGS["llama4-maverick"]["text_config"] | {"moe_layers": [1, 3, 5]}, "num_dense_layers", 45),
        (CONFIGS["qwen3-30b-a3b"] | {"mlp_only_layers": [0, 1]}, "num_dense_layers", 2),
        (CONFIGS["gemma2-9b"] | {"sliding_window_pattern": 4}, "windowed_layers_fraction", 0.75),
        (CONFIGS["gpt2-1.5b"] | {"n_inner": 5000}, "ffn_hidden_size", 5000),
    ],
)
def test_single_rules_of_families(config: dict[str, object], column: str, value: object) -> None:
    assert model_fields(config)[column] == value


def test_encoder_decoder_is_refused() -> None:
    with pytest.raises(InputError, match="decoder-only"):
        model_fields({"model_type": "t5", "is_encoder_decoder": True})


def test_what_a_config_leaves_open_is_named_with_the_way_out() -> None:
    with pytest.raises(InputError, match=r"`num_heads` must be given .* --set num_heads"):
        parse_plan({"model": {"model_type": "llama", "hidden_size": 4096, "num_hidden_layers": 32}, **CLUSTER}, "x")


def test_config_file_beside_the_plan_with_a_change(tmp_path: Path) -> None:
    (tmp_path / "my-model.config.json").write_text(json.dumps(LLAMA3_8B))
    plan_file = tmp_path / "plan.yaml"
    plan_file.write_text(json.dumps({"model": "my-model.config.json", **CLUSTER}))
    assert load_plan(plan_file).model.model_name == "my-model"
    plan_file.write_text(json.dumps({"model": {"hf_config": "my-model.config.json", "num_layers": 16}, **CLUSTER}))
    changed = load_plan(plan_file).model
    inline = parse_plan({"model": {"hf_config": LLAMA3_8B, "num_layers": 16}, **CLUSTER}, "x").model
    assert (inline.num_layers, inline.model_name) == (16, "llama-modified")
    assert (changed.num_layers, changed.hidden_size, changed.model_name) == (16, 4096, "my-model-modified")


def test_json_that_is_no_config_is_refused(tmp_path: Path) -> None:
    (tmp_path / "other.json").write_text('{"a": 1}')
    (tmp_path / "plan.json").write_text(json.dumps({"model": "other.json", **CLUSTER}))
    with pytest.raises(Exception, match=r"other\.json: must be a Hugging Face config"):
        load_plan(tmp_path / "plan.json")


@pytest.mark.skipif("SURROGATE_INPUTS" not in os.environ, reason="the folder of real files is not given")
@pytest.mark.parametrize("name", ["deepseek-v3", "llama-3.1-8b", "llama3.1-405b", "mixtral-8x7b", "qwen3-30b-a3b"])
def test_real_config_files(name: str) -> None:
    path = Path(os.environ["SURROGATE_INPUTS"]) / "configs" / "hf" / f"{name}.config.json"
    found = parse_plan({"model": str(path), **CLUSTER}, name).model
    preset = resolve_model(name)
    assert {c: getattr(found, c) for c in ARCHITECTURE} == {c: getattr(preset, c) for c in ARCHITECTURE}
