"""FLOPs: hand-worked operators, identities between closed forms and row sums, conventions."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from surrogate.analytic.flops import (
    attention_core_flops,
    causal_fraction,
    causal_keys_per_query,
    forward_flops_per_token,
    layer_flops_per_token,
)
from surrogate.analytic.model_flops import (
    causal_model_flops_per_token,
    gpt_full_recompute_flops,
    gpt_model_flops,
    gpt_selective_recompute_flops,
    model_flops_per_token,
)
from surrogate.analytic.model_parameters import model_parameters
from surrogate.analytic.recompute import hardware_flops_per_token, recompute_flops_per_token, recomputed_layer_fraction
from surrogate.analytic.workload import Recompute

GPT = {"num_layers": 24, "hidden_size": 2304, "seq_len": 2048, "vocab_size": 51200}
GPT_COLUMNS = GPT | {
    "gated_mlp": False, "ffn_hidden_size": 4 * 2304, "num_heads": 24, "num_kv_heads": 24, "head_dim": 96,
}  # fmt: skip
LLAMA3 = {
    "num_layers": [32, 80, 126], "hidden_size": [4096, 8192, 16384], "num_heads": [32, 64, 128],
    "ffn_hidden_size": [14336, 28672, 53248],
}  # fmt: skip


def test_one_layer_of_llama3_8b(make_workload):
    layer = layer_flops_per_token(make_workload())
    assert int(8192 * layer.projections[0]) == 687_194_767_360
    assert int(8192 * layer.core_full[0]) == 2 * 549_755_813_888
    assert int(8192 * layer.dense_mlp[0]) == 2_886_218_022_912
    assert layer.routed_experts[0] == layer.shared_experts[0] == layer.router[0] == 0


def test_training_flops_per_token_of_llama3(make_workload):
    w = make_workload(**LLAMA3)
    # the worked figures take kappa = 1/2, the code (1 + 1/s) / 2
    np.testing.assert_allclose(causal_model_flops_per_token(w) / 1e9, [51.470, 449.223, 2523.96], rtol=3e-5)
    full = 3.0 * forward_flops_per_token(w).total_full
    np.testing.assert_allclose(full / 1e9, [57.913, 481.435, 2625.42], rtol=1e-5)
    np.testing.assert_allclose(6.0 * model_parameters(w).total / 1e9, [48.182, 423.322, 2435.12], rtol=1e-5)
    np.testing.assert_allclose(model_flops_per_token(w), full, rtol=1e-12)


def test_causal_keys_are_the_mean_of_their_sum():
    for seq_len, window in ((7, 3), (8, 8), (5, 1), (6, 100)):
        expected = np.mean([min(query + 1, window) for query in range(seq_len)])
        assert causal_keys_per_query(seq_len=seq_len, window=window) == pytest.approx(expected)
    assert causal_fraction(seq_len=8) * 8 == causal_keys_per_query(seq_len=8, window=8)


def test_windows_shorten_attention_on_their_share_of_layers(make_workload):
    w = make_workload(sliding_window=1024, windowed_layers_fraction=[0.0, 0.5, 1.0])
    core = layer_flops_per_token(w).core_full
    per_key = attention_core_flops(num_tokens=1, keys_per_query=1, num_heads=32, head_dim=128)
    np.testing.assert_allclose(core / per_key, [8192, 4608, 1024])


def test_closed_forms_equal_the_sum_of_operators(make_workload):
    tokens = 512 * 2048
    forward = forward_flops_per_token(make_workload(**GPT_COLUMNS))
    closed = gpt_model_flops(**GPT, batch_size=512)
    assert 3.0 * tokens * forward.total_full[0] == pytest.approx(float(closed), rel=1e-12)
    full = tokens * (4.0 * forward.total_full[0] - forward.head[0])
    assert full == pytest.approx(float(gpt_full_recompute_flops(**GPT, batch_size=512)), rel=1e-12)
    selective = tokens * (3.0 * forward.total_full[0] + forward.attention_core_full[0])
    assert selective == pytest.approx(float(gpt_selective_recompute_flops(**GPT, batch_size=512)), rel=1e-12)


def test_moe_counts_k_of_the_experts(make_workload):
    w = make_workload(num_experts=8, moe_top_k=2, moe_ffn_hidden_size=14336, num_shared_experts=1, ffn_hidden_size=0)
    layer = layer_flops_per_token(w)
    assert layer.routed_experts[0] == 2 * 6 * 4096 * 14336
    assert layer.shared_experts[0] == 6 * 4096 * 14336
    assert layer.router[0] == 2 * 8 * 4096
    assert forward_flops_per_token(w).mlp[0] == 0


def test_multi_token_prediction_adds_a_layer_a_projection_and_a_head(make_workload):
    plain, with_mtp = (forward_flops_per_token(make_workload(num_mtp_layers=n)) for n in (0, 1))
    layer = layer_flops_per_token(make_workload())
    extra = layer.projections + layer.core_causal + layer.dense_mlp + 4.0 * 4096**2 + 2.0 * 4096 * 128256
    np.testing.assert_allclose(with_mtp.total_causal - plain.total_causal, extra)


def test_recomputation_repeats_what_it_names(make_workload):
    kinds = [Recompute.NONE, Recompute.SELECTIVE, Recompute.OP_SELECTIVE, Recompute.FULL]
    w = make_workload(recompute=kinds, flash_attention=False)
    forward = forward_flops_per_token(w)
    core, everything = forward.attention_core_causal, forward.total_causal - forward.head
    np.testing.assert_allclose(recompute_flops_per_token(w), np.array([0, 1, 0, 0]) * core + [0, 0, 0, 1] * everything)
    np.testing.assert_allclose(
        hardware_flops_per_token(w), causal_model_flops_per_token(w) + recompute_flops_per_token(w)
    )


def test_recomputed_modules_and_layers(make_workload):
    moe = {"num_experts": 8, "moe_top_k": 2, "moe_ffn_hidden_size": 512, "num_shared_experts": 1}
    w = make_workload(**moe, recompute=Recompute.SELECTIVE, recompute_moe=[False, True], recompute_layers=16)
    layer = layer_flops_per_token(w)
    assert recomputed_layer_fraction(w).tolist() == [0.5, 0.5]
    experts = layer.routed_experts + layer.shared_experts + layer.router
    expected = 16 * (layer.core_causal + [0, 1] * experts)
    np.testing.assert_allclose(recompute_flops_per_token(w), expected)


def test_fused_attention_executes_half_a_core_more(make_workload):
    w = make_workload(flash_attention=[False, True])
    hardware = hardware_flops_per_token(w)
    assert hardware[1] - hardware[0] == pytest.approx(0.5 * forward_flops_per_token(w).attention_core_causal[0])


@given(seed=st.integers(0, 2**16))
def test_hardware_flops_are_between_model_flops_and_twice_them(make_random_workload, seed):
    w = make_random_workload(seed, 40)
    forward = forward_flops_per_token(w)
    assert np.all(forward.total_causal <= forward.total_full)
    assert np.all(forward.total_full >= np.max(np.stack(forward), axis=0))
    model, hardware = causal_model_flops_per_token(w), hardware_flops_per_token(w)
    assert np.all(hardware >= model)
    assert np.all(hardware <= 2.0 * model)
