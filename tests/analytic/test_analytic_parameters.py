"""Parameter counts: exact integers of published models, and sums over GPUs."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from surrogate.analytic.model_parameters import layer_parameters, model_parameters, parameters_per_gpu
from surrogate.analytic.stages import largest_stage_layers, stage_layers

LLAMA = {"vocab_size": 128256, "num_kv_heads": 8}
MODELS = {
    "llama2-7b": ({"ffn_hidden_size": 11008, "vocab_size": 32000, "num_kv_heads": 32}, 6_738_415_616),
    "llama3-8b": (LLAMA, 8_030_261_248),
    "llama3-70b": (
        LLAMA | {"num_layers": 80, "hidden_size": 8192, "num_heads": 64, "ffn_hidden_size": 28672},
        70_553_706_496,
    ),
    "llama3-405b": (
        LLAMA | {"num_layers": 126, "hidden_size": 16384, "num_heads": 128, "ffn_hidden_size": 53248},
        405_853_388_800,
    ),
}
MIXTRAL = {
    "vocab_size": 32000, "num_experts": 8, "moe_top_k": 2, "moe_ffn_hidden_size": 14336, "ffn_hidden_size": 0,
}  # fmt: skip
DEEPSEEK_V3 = {
    "num_layers": 61, "num_dense_layers": 3, "hidden_size": 7168, "ffn_hidden_size": 18432, "num_heads": 128,
    "num_kv_heads": 128, "is_mla": True, "q_lora_rank": 1536, "kv_lora_rank": 512, "qk_nope_head_dim": 128,
    "qk_rope_head_dim": 64, "v_head_dim": 128, "num_experts": 256, "moe_top_k": 8, "num_shared_experts": 1,
    "moe_ffn_hidden_size": 2048, "vocab_size": 129280, "seq_len": 4096,
}  # fmt: skip


@pytest.mark.parametrize(("values", "expected"), MODELS.values(), ids=MODELS.keys())
def test_dense_model_counts_are_exact(make_workload, values, expected):
    model = model_parameters(make_workload(**values))
    assert int(model.total[0]) == expected
    assert int(model.active[0]) == expected


def test_mixtral_counts_are_exact(make_workload):
    model = model_parameters(make_workload(**MIXTRAL))
    assert int(model.total[0]) == 46_702_792_704
    assert int(model.active[0]) == 12_879_925_248


def test_deepseek_v3_counts_are_exact_up_to_the_routing_bias(make_workload):
    w = make_workload(**DEEPSEEK_V3)
    assert int(model_parameters(w).total[0]) + 58 * 256 == 671_026_419_200
    layer = layer_parameters(w)
    assert int((layer.attention_divided + layer.attention_whole)[0]) == 187_107_328
    assert int(layer.attention_matrices[0]) == 187_107_328 - 1536 - 512


def test_multi_token_prediction_is_one_more_expert_layer(make_workload):
    w = make_workload(**DEEPSEEK_V3, num_mtp_layers=1)
    layer = layer_parameters(w)
    expected = 187_107_328 + 5 * 7168 + 257 * 3 * 7168 * 2048 + 256 * 7168 + 2 * 7168**2
    assert int(model_parameters(w).multi_token_prediction[0]) == expected
    assert int(layer.norms[0]) == 2 * 7168


def test_mla_without_query_latent_projects_from_the_hidden_state(make_workload):
    layer = layer_parameters(make_workload(**DEEPSEEK_V3 | {"q_lora_rank": 0}))
    query = 7168 * 128 * 192
    assert int(layer.attention_divided[0]) == query + 512 * 128 * 256 + 128 * 128 * 7168
    assert int(layer.attention_whole[0]) == 7168 * (512 + 64) + 512


def test_hand_worked_parameters_of_one_gpu(make_workload):
    w = make_workload(
        tp=2, pp=4, dp=4, ep=4, num_experts=8, moe_ffn_hidden_size=100, moe_top_k=2, hidden_size=64, num_heads=4,
        num_kv_heads=2, head_dim=16, vocab_size=1000, num_layers=8, ffn_hidden_size=0,
    )  # fmt: skip
    per_gpu = parameters_per_gpu(w)
    attention = 64 * 16 * (8 + 4) / 2 + 2 * 64
    dense = 2 * (attention + 8 * 64)
    assert per_gpu.middle.dense[0] == dense
    assert per_gpu.middle.expert[0] == 2 * 8 * 3 * 64 * 100 / 4
    assert per_gpu.middle.embedding[0] == 0
    assert per_gpu.first.embedding[0] == 1000 * 64 / 2
    assert per_gpu.last.dense[0] == dense + 64


@pytest.mark.parametrize("num_mtp_layers", [0, 1])
@pytest.mark.parametrize("values", [{}, MIXTRAL, DEEPSEEK_V3, {"gated_mlp": False}], ids=["gqa", "moe", "mla", "plain"])
def test_a_single_gpu_holds_the_whole_model(make_workload, values, num_mtp_layers):
    w = make_workload(**values, num_mtp_layers=num_mtp_layers)
    model, per_gpu = model_parameters(w), parameters_per_gpu(w)
    assert per_gpu.first.total[0] == per_gpu.last.total[0] == model.total[0] + model.multi_token_prediction[0]


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("pp", [1, 2, 4, 8, 16])
def test_stages_add_up_to_the_model(make_workload, pp, tied):
    w = make_workload(pp=pp, tied_embeddings=tied)
    per_gpu = parameters_per_gpu(w)
    stages = per_gpu.first.total + (per_gpu.last.total if pp > 1 else 0) + max(pp - 2, 0) * per_gpu.middle.total
    tied_copy = w.vocab_size * w.hidden_size * (tied and pp > 1)
    assert stages[0] == model_parameters(w).total[0] + tied_copy[0]


@pytest.mark.parametrize(
    ("layers", "pp", "expected"),
    [
        (126, 16, (7, 8, 7)),
        (33, 4, (8, 9, 8)),
        (35, 4, (9, 9, 8)),
        (32, 4, (8, 8, 8)),
        (3, 2, (2, 1, 1)),
        (5, 1, (5, 5, 5)),
    ],
)
def test_uneven_stages_lack_a_layer_at_the_ends(make_workload, layers, pp, expected):
    stages = stage_layers(make_workload(num_layers=layers, pp=pp))
    assert tuple(int(stage.total[0]) for stage in stages) == expected
    assert largest_stage_layers(make_workload(num_layers=layers, pp=pp)).total[0] == max(expected)


def test_dense_layers_lead_when_they_fit_and_alternate_otherwise(make_workload):
    leading = stage_layers(make_workload(**DEEPSEEK_V3, pp=16))
    assert (leading.first.dense[0], leading.middle.dense[0], leading.last.dense[0]) == (3, 0, 0)
    alternating = stage_layers(make_workload(**MIXTRAL, num_layers=48, num_dense_layers=24, pp=8))
    assert (alternating.first.dense[0], alternating.first.moe[0], alternating.last.dense[0]) == (3, 3, 3)


@given(seed=st.integers(0, 2**16))
def test_active_never_exceeds_total(make_random_workload, seed):
    model = model_parameters(make_random_workload(seed, 50))
    assert np.all(model.active_matrix <= model.active)
    assert np.all(model.active <= model.total)
