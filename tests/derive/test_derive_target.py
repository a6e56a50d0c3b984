"""The step time by each publication's own convention, and what follows from it."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from surrogate.derive import derive_columns
from surrogate.derive.architecture import architecture_of
from surrogate.derive.conventions import CONVENTIONS, source_flops_per_token
from surrogate.derive.target import printed_rounding
from surrogate.schema import validate_runs

GPT3 = {
    "num_layers": 96, "hidden_size": 12288, "num_heads": 96, "ffn_hidden_size": 49152, "vocab_size": 51200,
    "seq_len": 2048, "accelerator": "A100-80GB", "num_gpus": 1024, "global_batch_size": 1536, "tp": 8, "pp": 16,
    "precision": "fp16",
}  # fmt: skip
LLAMA3_8B = {
    "num_layers": 32, "hidden_size": 4096, "num_heads": 32, "num_kv_heads": 8, "ffn_hidden_size": 14336,
    "gated_mlp": True, "vocab_size": 128256, "tied_embeddings": False, "seq_len": 8192, "accelerator": "H100-80GB",
    "num_gpus": 8, "global_batch_size": 128, "tp": 1, "pp": 1, "precision": "bf16",
}  # fmt: skip


def derive(**row: object) -> pd.Series:
    return derive_columns(validate_runs(pd.DataFrame([row]))).iloc[0]


def test_gpt3_parameters_and_flops():
    run = derive(**GPT3)
    # 12 L h^2 + V h, and 72 L h^2 (1 + s/6h + V/12Lh): arXiv 2104.04473, equations 2 and 3 without recompute
    assert run["num_params"] == 12 * 96 * 12288**2 + 51200 * 12288
    expected = 72 * 96 * 12288**2 * (1 + 2048 / (6 * 12288) + 51200 / (12 * 96 * 12288))
    assert run["model_flops_per_token"] == pytest.approx(expected, rel=1e-12)


def test_llama3_8b_parameters():
    # published 8.03e9; norms are the rest
    assert derive(**LLAMA3_8B)["num_params"] == pytest.approx(8.03e9, rel=1e-3)


def test_megatron_sc21_time():
    # arXiv 2104.04473, section 5.1: 140 TFLOP/s per GPU on 1024 A100, 300B tokens in 34 days
    run = derive(**GPT3, tflops_per_gpu=140, tflops_kind="hardware:megatron-96Bslh2")
    days = run["measured_step_time_s"] * 300e9 / (1536 * 2048) / 86400
    assert days == pytest.approx(34, rel=0.03)
    assert run["time_from"] == "tflops"


def test_megatron_bridge_halves_attention():
    # 51.47 GFLOP per token for Llama 3 8B at 8192 tokens
    run = derive(**LLAMA3_8B, tflops_per_gpu=700, tflops_kind="model:megatron-bridge (causal attention halved)")
    assert run["measured_step_time_s"] == pytest.approx(128 * 8192 / 8 * 51.47e9 / 700e12, rel=1e-3)


def test_extra_prediction_layer_counts_in_megatron_bridge(shipped):
    # DeepSeek-V3 with one such layer: 260.0 GFLOP per token by the publisher's count
    bridge = shipped[shipped["framework"] == "megatron-bridge"]
    rows = bridge[(bridge["model_name"] == "deepseek-v3") & (bridge["num_mtp_layers"] == 1)].head(1)
    assert source_flops_per_token(rows, architecture_of(rows)) == pytest.approx(260.0e9, rel=3e-3)


def test_utilisation_uses_the_stated_peak():
    kind = "model:nanotron (6N-like + attention) / 989"
    stated = derive(**LLAMA3_8B, mfu=0.4, tflops_kind=kind)
    dense = derive(**LLAMA3_8B, mfu=0.4, tflops_kind="model:nanotron")
    assert stated["measured_step_time_s"] / dense["measured_step_time_s"] == pytest.approx(989.4 / 989.0, rel=1e-9)
    assert dense["mfu_computed"] == pytest.approx(0.4)


@pytest.mark.parametrize(
    ("figures", "seconds", "time_from"),
    [
        ({"step_time_s": 7.0, "tokens_per_s_per_gpu": 18724.6}, 7.0, "step"),
        ({"tokens_per_s_per_gpu": 13107.2, "samples_per_s": 11.0}, 10.0, "tokens"),
        ({"samples_per_s": 12.8, "mfu": 0.5}, 10.0, "samples"),
    ],
)
def test_the_most_direct_figure_wins(figures, seconds, time_from):
    run = derive(**LLAMA3_8B, **figures)
    assert run["measured_step_time_s"] == pytest.approx(seconds)
    assert run["time_from"] == time_from


@pytest.mark.parametrize(
    "kind", ["model:automodel (formula not printed)", "hardware (counts recompute)", "hardware:8N (1.3B nominal)", None]
)
def test_unknown_conventions_give_no_time(kind):
    run = derive(**LLAMA3_8B, tflops_per_gpu=400, tflops_kind=kind)
    assert pd.isna(run["measured_step_time_s"])
    assert pd.isna(run["time_from"])


def test_windowed_attention_has_no_convention():
    run = derive(**LLAMA3_8B, sliding_window=128, tflops_per_gpu=400, tflops_kind="model:megatron-bridge")
    assert pd.isna(run["measured_step_time_s"])


def test_every_convention_is_cited():
    assert all(convention.reference for convention in CONVENTIONS)


def test_rounding_is_half_a_printed_unit():
    table = pd.DataFrame({"step_time_s": ["12.5", "29.0", "7", None], "tflops_per_gpu": ["160", "47.0", "", "x"]})
    rounding = printed_rounding(table)
    assert rounding["step_time_s"].tolist()[:3] == pytest.approx([0.05 / 12.5, 0.05 / 29, 0.5 / 7])
    assert rounding["achieved_flops_per_s"].tolist()[:2] == pytest.approx([0.5 / 160, 0.05 / 47])
    assert np.isnan(rounding["step_time_s"][3])


def test_numbers_round_by_their_shortest_form():
    rounding = printed_rounding(pd.DataFrame({"step_time_s": [12.5, 29.0], "achieved_flops_per_s": [1.6e14, 4.75e13]}))
    assert rounding["step_time_s"].tolist() == pytest.approx([0.05 / 12.5, 0.5 / 29])
    assert rounding["achieved_flops_per_s"].tolist() == pytest.approx([0.5 / 160, 0.05 / 47.5])


def test_peak_follows_precision_and_falls_back_to_sixteen_bits():
    fp8, unknown = derive(**LLAMA3_8B | {"precision": "fp8"}), derive(**LLAMA3_8B | {"precision": None})
    assert fp8["peak_flops_per_s"] == pytest.approx(1978.9e12)
    assert unknown["peak_flops_per_s"] == pytest.approx(989.4e12)


def test_sizes_not_given_have_their_standard_meaning():
    short = {key: GPT3[key] for key in GPT3 if key != "ffn_hidden_size"}
    assert derive(**short)["num_params"] == derive(**GPT3)["num_params"]
