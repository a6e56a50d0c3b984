"""Reference: every real configuration sample against values read by hand from the file."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from surrogate.ingest.configs import config_to_plan, read_config

ROOT = os.environ.get("SURROGATE_INPUTS", "")
pytestmark = pytest.mark.skipif(not ROOT, reason="SURROGATE_INPUTS names no folder with real files")

LLAMA3_8B = {
    "num_layers": 32,
    "hidden_size": 4096,
    "ffn_hidden_size": 14336,
    "num_heads": 32,
    "num_kv_heads": 8,
    "head_dim": 128,
    "vocab_size": 128256,
    "gated_mlp": True,
    "tied_embeddings": False,
    "attention": "gqa",
}
LLAMA3_405B = LLAMA3_8B | {"num_layers": 126, "hidden_size": 16384, "ffn_hidden_size": 53248, "num_heads": 128}
DEEPSEEK_V3 = {
    "num_layers": 61,
    "hidden_size": 7168,
    "ffn_hidden_size": 18432,
    "num_heads": 128,
    "num_kv_heads": 128,
    "vocab_size": 129280,
    "attention": "mla",
    "q_lora_rank": 1536,
    "kv_lora_rank": 512,
    "qk_nope_head_dim": 128,
    "qk_rope_head_dim": 64,
    "v_head_dim": 128,
    "num_experts": 256,
    "moe_top_k": 8,
    "moe_ffn_hidden_size": 2048,
    "num_shared_experts": 1,
    "num_dense_layers": 3,
    "gated_mlp": True,
    "tied_embeddings": False,
}
TITAN = {
    "framework": "torchtitan",
    "pp": 1,
    "cp": 1,
    "vp": 1,
    "zero_stage": 3,
    "fsdp": "fsdp2",
    "optimizer": "adam",
}

EXPECTED: dict[str, tuple[str, dict[str, object], set[str]]] = {
    "megatron-lm/gpt3_175b.sh": (
        "megatron-script",
        {
            "framework": "megatron-lm",
            "num_layers": 96,
            "hidden_size": 12288,
            "num_heads": 96,
            "num_kv_heads": 96,
            "ffn_hidden_size": 49152,
            "head_dim": 128,
            "attention": "mha",
            "gated_mlp": False,
            "tied_embeddings": True,
            "seq_len": 2048,
            "attention_backend": "auto",
            "micro_batch_size": 1,
            "global_batch_size": 1536,
            "precision": "fp16",
            "tp": 8,
            "pp": 16,
            "cp": 1,
            "ep": 1,
            "vp": 1,
            "zero_stage": 0,
            "sequence_parallel": False,
            "recompute": "none",
            "overlap_grad_reduce": False,
            "pipeline_schedule": "1f1b",
            "gpus_per_node": 8,
        },
        {"num_gpus", "accelerator", "vocab_size"},
    ),
    "megatron-lm/llama3_8b_h100_fp8.sh": (
        "megatron-script",
        LLAMA3_8B
        | {
            "seq_len": 8192,
            "tp": 1,
            "pp": 1,
            "cp": 1,
            "micro_batch_size": 1,
            "global_batch_size": 128,
            "precision": "fp8",
            "fp8_recipe": "delayed",
            "param_gather_dtype": "fp8",
            "grad_reduce_dtype": "bf16",
            "sequence_parallel": True,
            "zero_stage": 1,
            "overlap_grad_reduce": True,
            "overlap_param_gather": True,
            "attention_backend": "fused",
            "flash_attention": True,
            "recompute": "none",
            "num_gpus": 8,
            "gpus_per_node": 8,
            "dp": 8,
            "optimizer": "adam;distributed",
        },
        {"accelerator"},
    ),
    "megatron-lm/mixtral_8x7b.sh": (
        "megatron-script",
        {
            "num_layers": 32,
            "hidden_size": 4096,
            "ffn_hidden_size": 14336,
            "num_heads": 32,
            "num_kv_heads": 8,
            "attention": "gqa",
            "gated_mlp": True,
            "tied_embeddings": False,
            "seq_len": 4096,
            "num_experts": 8,
            "moe_top_k": 2,
            "moe_ffn_hidden_size": 14336,
            "num_shared_experts": 0,
            "num_dense_layers": 0,
            "moe_dispatcher": "alltoall",
            "tp": 1,
            "pp": 4,
            "ep": 8,
            "micro_batch_size": 1,
            "global_batch_size": 256,
            "precision": "bf16",
            "zero_stage": 1,
            "sequence_parallel": True,
            "overlap_grad_reduce": True,
            "overlap_param_gather": True,
            "recompute": "none",
        },
        {"num_gpus", "accelerator", "vocab_size"},
    ),
    "bigscience/tr11-176B-ml.slurm": (
        "megatron-script",
        {
            "framework": "megatron-deepspeed",
            "num_layers": 70,
            "hidden_size": 14336,
            "ffn_hidden_size": 57344,
            "num_heads": 112,
            "head_dim": 128,
            "attention": "mha",
            "gated_mlp": False,
            "vocab_size": 250880,
            "seq_len": 2048,
            "tp": 4,
            "pp": 12,
            "dp": 4,
            "num_gpus": 192,
            "gpus_per_node": 8,
            "micro_batch_size": 2,
            "global_batch_size": 2048,
            "precision": "bf16",
            "recompute": "full",
            "zero_stage": 1,
            "cpu_offload": "none",
            "optimizer": "adam",
        },
        {"accelerator"},
    ),
    "mlperf/llama31_405b_gb200_512.sh": (
        "mlperf",
        {k: v for k, v in LLAMA3_405B.items() if k != "vocab_size"}
        | {
            "tp": 4,
            "pp": 8,
            "cp": 2,
            "vp": 8,
            "dp": 8,
            "num_gpus": 512,
            "gpus_per_node": 4,
            "micro_batch_size": 1,
            "global_batch_size": 896,
            "seq_len": 8192,
            "precision": "fp8",
            "param_gather_dtype": "fp8",
            "tp_comm_overlap": True,
            "accelerator": "GB200-186GB",
            "pipeline_schedule": "interleaved-1f1b",
        },
        {"fp8_recipe"},
    ),
    "nemo/gpt3_175b.yaml": (
        "nemo",
        {
            "num_layers": 96,
            "hidden_size": 12288,
            "ffn_hidden_size": 49152,
            "num_heads": 96,
            "num_kv_heads": 96,
            "attention": "mha",
            "gated_mlp": False,
            "tied_embeddings": True,
            "seq_len": 2048,
            "tp": 4,
            "pp": 8,
            "vp": 6,
            "cp": 1,
            "num_gpus": 1024,
            "gpus_per_node": 8,
            "dp": 32,
            "micro_batch_size": 1,
            "global_batch_size": 2048,
            "precision": "bf16",
            "recompute": "none",
            "sequence_parallel": True,
            "zero_stage": 1,
            "overlap_grad_reduce": True,
            "overlap_param_gather": True,
            "tp_comm_overlap": False,
            "optimizer": "adam;distributed",
            "pipeline_schedule": "interleaved-1f1b",
        },
        {"accelerator"},
    ),
    "nemo/llama3_1_405b.yaml": (
        "nemo",
        LLAMA3_405B
        | {
            "num_kv_heads": 16,
            "seq_len": 8192,
            "tp": 8,
            "pp": 9,
            "vp": 7,
            "cp": 2,
            "num_gpus": 4608,
            "dp": 32,
            "micro_batch_size": 1,
            "global_batch_size": 2016,
            "precision": "bf16",
            "recompute": "none",
            "sequence_parallel": True,
            "tp_comm_overlap": True,
            "flash_attention": True,
            "zero_stage": 1,
        },
        {"accelerator"},
    ),
    "torchtitan/llama3_8b.toml": (
        "torchtitan",
        LLAMA3_8B
        | TITAN
        | {
            "seq_len": 8192,
            "tp": 1,
            "micro_batch_size": 1,
            "precision": "bf16",
            "recompute": "selective",
            "recompute_kind": "op-selective",
            "compiled": False,
        },
        {"num_gpus", "global_batch_size", "accelerator"},
    ),
    "torchtitan/llama3_8b_2024.toml": (
        "torchtitan",
        LLAMA3_8B
        | TITAN
        | {
            "seq_len": 8192,
            "tp": 1,
            "micro_batch_size": 1,
            "precision": "bf16",
            "recompute": "selective",
            "recompute_kind": "op-selective",
            "compiled": False,
        },
        {"num_gpus", "global_batch_size", "accelerator"},
    ),
    "torchtitan/llama3_405b.toml": (
        "torchtitan",
        LLAMA3_405B
        | TITAN
        | {
            "seq_len": 8192,
            "tp": 8,
            "micro_batch_size": 2,
            "precision": "fp8",
            "param_gather_dtype": "fp8",
            "recompute": "full",
            "tp_comm_overlap": True,
            "sequence_parallel": True,
            "compiled": True,
        },
        {"num_gpus", "global_batch_size", "accelerator"},
    ),
    "torchtitan/deepseek_v3_671b.toml": (
        "torchtitan",
        DEEPSEEK_V3
        | TITAN
        | {
            "seq_len": 4096,
            "tp": 1,
            "ep": 1,
            "expert_tp": 1,
            "micro_batch_size": 4,
            "precision": "bf16",
            "recompute": "selective",
            "recompute_kind": "op-selective",
        },
        {"num_gpus", "global_batch_size", "accelerator"},
    ),
    "nanotron/tiny_llama.yaml": (
        "nanotron",
        {
            "num_layers": 28,
            "hidden_size": 2048,
            "ffn_hidden_size": 11008,
            "num_heads": 16,
            "num_kv_heads": 2,
            "attention": "gqa",
            "vocab_size": 128256,
            "gated_mlp": True,
            "tied_embeddings": True,
            "seq_len": 4096,
            "dp": 4,
            "tp": 2,
            "pp": 1,
            "num_gpus": 8,
            "micro_batch_size": 3,
            "global_batch_size": 12,
            "precision": "bf16",
            "zero_stage": 0,
            "sequence_parallel": True,
            "tp_comm_overlap": True,
            "grad_reduce_dtype": "fp32",
            "recompute": "none",
        },
        {"accelerator"},
    ),
    "nanotron/qwen_moe.yaml": (
        "nanotron",
        {
            "num_layers": 12,
            "hidden_size": 256,
            "ffn_hidden_size": 768,
            "num_heads": 4,
            "num_kv_heads": 4,
            "vocab_size": 128256,
            "gated_mlp": True,
            "tied_embeddings": True,
            "num_experts": 8,
            "moe_top_k": 1,
            "num_shared_experts": 1,
            "num_dense_layers": 0,
            "moe_dispatcher": "alltoall",
            "sliding_window": 20,
            "flash_attention": True,
            "dp": 2,
            "tp": 1,
            "pp": 1,
            "cp": 1,
            "ep": 1,
            "num_gpus": 2,
            "seq_len": 4096,
            "micro_batch_size": 3,
            "global_batch_size": 6,
            "precision": "bf16",
            "recompute": "none",
            "fused_norm": True,
        },
        {"accelerator"},
    ),
    "gpt-neox/20B.yml": (
        "gpt-neox",
        {
            "num_layers": 44,
            "hidden_size": 6144,
            "ffn_hidden_size": 24576,
            "num_heads": 64,
            "num_kv_heads": 64,
            "gated_mlp": False,
            "tied_embeddings": False,
            "seq_len": 2048,
            "tp": 2,
            "pp": 4,
            "zero_stage": 1,
            "overlap_grad_reduce": True,
            "micro_batch_size": 4,
            "precision": "fp16",
            "recompute": "full",
            "flash_attention": False,
            "fused_norm": False,
            "optimizer": "adam",
        },
        {"num_gpus", "global_batch_size", "accelerator", "vocab_size"},
    ),
    "llm-foundry/mpt-30b.yaml": (
        "llm-foundry",
        {
            "num_layers": 48,
            "hidden_size": 7168,
            "ffn_hidden_size": 28672,
            "num_heads": 56,
            "num_kv_heads": 56,
            "vocab_size": 50368,
            "gated_mlp": False,
            "tied_embeddings": True,
            "flash_attention": True,
            "seq_len": 2048,
            "global_batch_size": 2048,
            "micro_batch_size": 8,
            "precision": "bf16",
            "zero_stage": 3,
            "fsdp": "fsdp1",
            "recompute": "full",
            "cpu_offload": "none",
            "tp": 1,
            "pp": 1,
            "optimizer": "adam",
        },
        {"num_gpus", "accelerator"},
    ),
    "deepspeed/ds_config_bf16.json": (
        "deepspeed",
        {"micro_batch_size": 1, "global_batch_size": 16, "zero_stage": 0, "precision": "bf16"},
        {"num_layers", "hidden_size", "num_heads", "seq_len", "tp", "pp", "num_gpus", "accelerator", "recompute"},
    ),
    "deepspeed/ds_config_zero3.json": (
        "deepspeed",
        {
            "micro_batch_size": 1,
            "zero_stage": 3,
            "precision": "bf16",
            "overlap_grad_reduce": True,
            "optimizer": "adam",
            "cpu_offload": "none",
        },
        {"global_batch_size", "num_gpus", "num_layers"},
    ),
    "deepspeed/llama2_zero3_hf_auto.json": (
        "deepspeed",
        {"zero_stage": 3, "precision": "bf16", "overlap_grad_reduce": False},
        {"global_batch_size", "micro_batch_size", "num_gpus", "num_layers"},
    ),
    "deepspeed/zero2_offload.json": (
        "deepspeed",
        {"global_batch_size": 4, "zero_stage": 2, "precision": "fp16", "cpu_offload": "optimizer"},
        {"micro_batch_size", "num_gpus", "num_layers"},
    ),
    "hf/llama-3.1-8b.config.json": ("huggingface", LLAMA3_8B, {"seq_len", "num_gpus", "tp", "pp"}),
    "hf/llama3.1-405b.config.json": ("huggingface", LLAMA3_405B, {"seq_len", "num_gpus", "tp", "pp"}),
    "hf/deepseek-v3.config.json": ("huggingface", DEEPSEEK_V3 | {"num_mtp_layers": 1}, {"seq_len"}),
    "hf/mixtral-8x7b.config.json": (
        "huggingface",
        {
            "num_layers": 32,
            "hidden_size": 4096,
            "ffn_hidden_size": 14336,
            "num_heads": 32,
            "num_kv_heads": 8,
            "vocab_size": 32000,
            "num_experts": 8,
            "moe_top_k": 2,
            "moe_ffn_hidden_size": 14336,
            "num_dense_layers": 0,
        },
        {"seq_len"},
    ),
    "hf/qwen3-30b-a3b.config.json": (
        "huggingface",
        {
            "num_layers": 48,
            "hidden_size": 2048,
            "ffn_hidden_size": 6144,
            "num_heads": 32,
            "num_kv_heads": 4,
            "head_dim": 128,
            "vocab_size": 151936,
            "num_experts": 128,
            "moe_top_k": 8,
            "moe_ffn_hidden_size": 768,
            "num_shared_experts": 0,
            "num_dense_layers": 0,
        },
        {"seq_len"},
    ),
}


@pytest.mark.parametrize("name", EXPECTED)
def test_sample_reads_as_written(name: str) -> None:
    expected_format, values, unknown = EXPECTED[name]
    report = read_config(Path(ROOT) / "configs" / name)
    assert report.format == expected_format
    got = {column: report.values.get(column) for column in values}
    assert got == values
    named = {setting.name for setting in report.unknown}
    assert unknown <= named
    assert not named & report.values.keys()
    assert all(setting.reason for setting in report.unknown)


@pytest.mark.parametrize("name", EXPECTED)
def test_every_sample_is_listed_and_detected_as_what_it_is_forced_to(name: str) -> None:
    path = Path(ROOT) / "configs" / name
    detected = read_config(path)
    assert read_config(path, detected.format).values == detected.values


def test_every_sample_file_has_an_expectation() -> None:
    folder = Path(ROOT) / "configs"
    files = {str(path.relative_to(folder)) for path in folder.glob("*/*")}
    assert files == EXPECTED.keys()


def test_num_gpus_completes_a_torchtitan_preset() -> None:
    report = read_config(Path(ROOT) / "configs/torchtitan/llama3_405b.toml")
    assert "128 H100" in (report.reason("num_gpus") or "")
    plan = config_to_plan(report, {"num_gpus": 128, "accelerator": "H100-80GB"})
    assert plan.training.global_batch_size == 2 * 128 // 8
    assert plan.dp == 16


def test_the_neox_comment_says_96_gpus_which_gives_the_batch_of_1536() -> None:
    report = read_config(Path(ROOT) / "configs/gpt-neox/20B.yml")
    assert "96 GPUs" in (report.reason("num_gpus") or "")
    plan = config_to_plan(report, {"num_gpus": 96, "accelerator": "A100-40GB"})
    assert plan.training.global_batch_size == 4 * 32 * 12
