"""Model presets: published counts, exact integers, names, and what the columns must satisfy."""

from __future__ import annotations

import re

import pytest

from surrogate.analytic import parameters
from surrogate.catalog import ModelPreset, load_models, resolve_model
from surrogate.errors import UnknownNameError

PRESETS = list(load_models().values())
ONE_BIAS_PER_WIDTH = ("palm", "mpt", "dbrx")  # LayerNorm without bias


def matrix_parameters(m: ModelPreset) -> float:
    """Weights of all matrices, from the analytic layer's formulas."""
    width = {"hidden_size": m.hidden_size}
    if m.attention == "mla":
        attention = (
            parameters.mla_down_parameters(
                **width, q_lora_rank=m.q_lora_rank, kv_lora_rank=m.kv_lora_rank, qk_rope_head_dim=m.qk_rope_head_dim
            )
            + parameters.mla_query_up_parameters(
                **width,
                num_heads=m.num_heads,
                q_lora_rank=m.q_lora_rank,
                qk_head_dim=m.qk_nope_head_dim + m.qk_rope_head_dim,
            )
            + parameters.mla_key_value_up_parameters(
                num_heads=m.num_heads,
                kv_lora_rank=m.kv_lora_rank,
                qk_nope_head_dim=m.qk_nope_head_dim,
                v_head_dim=m.v_head_dim,
            )
            + parameters.mla_output_parameters(**width, num_heads=m.num_heads, v_head_dim=m.v_head_dim)
            + m.q_lora_rank
            + m.kv_lora_rank
        )
    else:
        attention = parameters.attention_parameters(
            **width, num_heads=m.num_heads, num_kv_heads=m.num_kv_heads, head_dim=m.head_dim
        )
    dense = parameters.mlp_parameters(**width, ffn_hidden_size=m.ffn_hidden_size, gated=m.gated_mlp)
    head = parameters.embedding_and_head_parameters(**width, vocab_size=m.vocab_size, tied=m.tied_embeddings)
    dense_layers = m.num_dense_layers if m.num_experts else m.num_layers
    total = m.num_layers * attention + dense_layers * dense + head
    if m.num_experts:
        expert = parameters.mlp_parameters(**width, ffn_hidden_size=m.moe_ffn_hidden_size, gated=True)
        router = parameters.router_parameters(**width, num_experts=m.num_experts, has_bias=False)
        total += (m.num_layers - dense_layers) * ((m.num_experts + m.num_shared_experts) * expert + router)
    return float(total)


def total_parameters(m: ModelPreset) -> float:
    """All parameters: matrices, norms, biases and learned positions."""
    per_norm = m.hidden_size * (1 if m.norm == "rmsnorm" or m.name.startswith(ONE_BIAS_PER_WIDTH) else 2)
    norms = (2 * m.num_layers + 1) * per_norm
    positions = m.max_seq_len * m.hidden_size if m.positions == "learned" else 0
    qkv_bias = (m.num_heads + 2 * m.num_kv_heads) * m.head_dim
    mlp_bias = m.hidden_size + m.ffn_hidden_size * (2 if m.gated_mlp else 1)
    bias = {
        "none": 0,
        "qkv": qkv_bias,
        "attn": qkv_bias + m.hidden_size,
        "mlp": mlp_bias,
        "all": qkv_bias + m.hidden_size + (m.num_experts or 1) * mlp_bias,
    }[m.bias]
    return matrix_parameters(m) + norms + positions + m.num_layers * bias


@pytest.mark.parametrize("preset", PRESETS, ids=lambda preset: preset.name)
def test_count_reproduces_the_published_one_within_one_percent(preset: ModelPreset) -> None:
    deviation = abs(total_parameters(preset) / preset.published_params - 1)
    if preset.count_deviation:
        assert 0.01 < deviation < 0.035, "an exception that is none must lose its reason"
    else:
        assert deviation < 0.01


@pytest.mark.parametrize(
    ("name", "count"),
    [
        ("llama3-8b", 8_030_261_248),
        ("llama3-70b", 70_553_706_496),
        ("llama3.1-405b", 405_853_388_800),
        ("llama2-7b", 6_738_415_616),
        ("mixtral-8x7b", 46_702_792_704),
    ],
)
def test_exact_count_of_the_checkpoint(name: str, count: int) -> None:
    assert total_parameters(resolve_model(name)) == count


def test_exact_count_of_deepseek_v3_without_mtp_with_its_routing_bias() -> None:
    preset = resolve_model("deepseek-v3")
    routing_bias = (preset.num_layers - preset.num_dense_layers) * preset.num_experts
    assert total_parameters(preset) + routing_bias == 671_026_419_200


def test_gpt3_count() -> None:
    assert total_parameters(resolve_model("gpt3")) == pytest.approx(174.6e9, rel=1e-3)


def test_the_exceptions_are_the_twelve_known_ones() -> None:
    assert {preset.name for preset in PRESETS if preset.count_deviation} == {
        *("gpt3-350m", "gpt3-1.3b", "gpt3-2.7b", "gpt3-13b", "megatron-1.7b", "megatron-3.6b", "opt-1.3b", "opt-13b"),
        *("falcon-7b", "falcon-40b", "llama4-scout", "kimi-k2"),
    }


@pytest.mark.parametrize("preset", PRESETS, ids=lambda preset: preset.name)
def test_columns_are_consistent_cited_and_dated(preset: ModelPreset) -> None:
    assert preset.sources
    assert re.fullmatch(r"20\d\d-(0[1-9]|1[0-2])", preset.date)
    assert preset.attention == "mla" or preset.num_heads % preset.num_kv_heads == 0
    kind = "mha" if preset.num_kv_heads == preset.num_heads else "mqa" if preset.num_kv_heads == 1 else "gqa"
    assert preset.attention in ("mla", kind)
    assert (preset.sliding_window is None) == (preset.windowed_layers_fraction is None)
    if preset.num_experts:
        assert 0 < preset.moe_top_k <= preset.num_experts
        assert 0 <= preset.num_dense_layers < preset.num_layers
    for alias in (preset.name, *preset.aliases):
        assert resolve_model(alias).name == preset.name


@pytest.mark.parametrize(
    ("name", "fraction"),
    [("gemma2-9b", 1 / 2), ("gemma3-27b", 5 / 6), ("gpt-oss-20b", 1 / 2), ("llama4-scout", 3 / 4), ("mistral-7b", 1)],
)
def test_share_of_windowed_layers(name: str, fraction: float) -> None:
    assert resolve_model(name).windowed_layers_fraction == pytest.approx(fraction, rel=1e-5)


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        ("Llama3-70B", "llama3-70b"),
        ("meta-llama/Meta-Llama-3.1-8B-Instruct", "llama3.1-8b"),
        ("Qwen/Qwen3-30B-A3B", "qwen3-30b-a3b"),
        ("openai/gpt-oss-120b", "gpt-oss-120b"),
        ("llama3-405b", "llama3.1-405b"),
        ("gpt3", "gpt3-175b"),
        ("mt-nlg-530b", "mt-nlg-530b"),
    ],
)
def test_model_names_and_aliases(asked: str, found: str) -> None:
    assert resolve_model(asked).name == found


FAMILIES = [
    *("gpt3", "llama-", "llama2", "llama3", "llama4", "mixtral", "deepseek-v2", "deepseek-v3", "qwen2", "qwen3"),
    *("nemotron", "bloom", "mpt", "falcon", "gemma", "gpt-oss"),
]


@pytest.mark.parametrize("family", FAMILIES)
def test_well_known_family_is_there(family: str) -> None:
    assert any(name.startswith(family) for name in load_models())


def test_number_of_presets() -> None:
    assert len(PRESETS) == 140


def test_unknown_model_lists_near_matches() -> None:
    with pytest.raises(UnknownNameError) as caught:
        resolve_model("lama3-8b")
    assert "llama3-8b" in caught.value.near
