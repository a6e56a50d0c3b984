"""Every rule for what a row does not say, one example each, and the flags that tell."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from surrogate.analytic.software import AttentionKernel
from surrogate.analytic.workload import Offload, OptimizerKind, Precision, Recompute, Schedule
from surrogate.features import prepare_runs
from surrogate.features.imputation import (
    DEFAULT_YEAR,
    Imputer,
    default_expert_parallel_size,
    default_expert_tensor_size,
    default_micro_batch_size,
    default_virtual_stages,
)

OLD_MEGATRON = {"framework": "megatron-lm", "stack": "megatron-core", "date": "2021-04"}
MOE = {"num_experts": 8, "moe_ffn_hidden_size": 14336}


class TestFilledValues:
    @pytest.mark.parametrize(
        ("field", "given", "expected"),
        [
            ("num_kv_heads", {}, 32),
            ("gated_mlp", {}, False),
            ("gated_mlp", {"num_kv_heads": 8}, True),
            ("ffn_hidden_size", {}, 4 * 4096),
            ("ffn_hidden_size", {"gated_mlp": 1}, 8 / 3 * 4096),
            ("tied_embeddings", {}, True),
            ("tied_embeddings", {"gated_mlp": 1}, False),
            ("head_dim", {}, 128),
            ("head_dim", {"head_dim": 192}, 192),
            ("vocab_size", {}, 51200),
            ("num_dense_layers", {}, 32),
            ("num_dense_layers", MOE, 0),
            ("ffn_hidden_size", MOE, 0),
            ("moe_top_k", {}, 0),
            ("moe_top_k", MOE, 2),
            ("kv_lora_rank", {}, 0),
            ("kv_lora_rank", {"attention": "mla"}, 512),
            ("q_lora_rank", {"attention": "mla"}, 1536),
            ("windowed_layers_fraction", {}, 0),
            ("windowed_layers_fraction", {"sliding_window": 4096}, 1),
            ("windowed_layers_fraction", {"sliding_window": 4096, "windowed_layers_fraction": 0.5}, 0.5),
            ("sliding_window", {"sliding_window": 131072}, 8192),
            ("cp", {}, 1),
            ("dp", {}, 8),
            ("dp", {"cp": 2}, 4),
            ("micro_batch_size", {"num_layers": 8}, 4),
            ("micro_batch_size", {"num_layers": 320}, 1),
            ("micro_batch_size", {"global_batch_size": 8, "micro_batch_size": 4}, 1),
            ("ep", {}, 1),
            ("ep", MOE, 8),
            ("ep", MOE | {"num_gpus": 16}, 2),
            ("expert_tp", MOE, 1),
            ("expert_tp", MOE | {"ep": 1}, 4),
            ("vp", {}, 1),
            ("vp", {"num_layers": 30}, 3),
            ("vp", {"num_layers": 30, "pp": 1}, 1),
            ("vp", {"num_layers": 30, "stack": "torchtitan"}, 1),
            ("schedule", {}, Schedule.ONE_F_ONE_B),
            ("schedule", {"num_layers": 30}, Schedule.INTERLEAVED),
            ("schedule", {"pipeline_schedule": "zb-h1"}, Schedule.ZB_H1),
            ("schedule", {"pipeline_schedule": "zb-h1", "pp": 1}, Schedule.ONE_F_ONE_B),
            ("sequence_parallel", {}, True),
            ("sequence_parallel", {"tp": 1}, False),
            ("sequence_parallel", OLD_MEGATRON, False),
            ("zero_stage", {}, 1),
            ("zero_stage", {"stack": "torchtitan"}, 3),
            ("zero_stage", {"stack": "maxtext"}, 3),
            ("zero_stage", OLD_MEGATRON, 0),
            ("shard_size", {}, 8),
            ("shard_size", {"hsdp_shard": 4}, 4),
            ("shard_size", {"hsdp_shard": 999}, 8),
            ("recompute", {}, Recompute.NONE),
            ("recompute", OLD_MEGATRON, Recompute.FULL),
            ("recompute", {"recompute": "selective"}, Recompute.SELECTIVE),
            ("recompute", {"recompute": "selective", "stack": "torchtitan"}, Recompute.OP_SELECTIVE),
            ("recompute", {"recompute": "selective", "recompute_kind": "op-selective"}, Recompute.OP_SELECTIVE),
            ("recompute_layers", {}, 0),
            ("recompute_layers", {"recompute": "full"}, 16),
            ("recompute_layers", {"recompute": "full", "recompute_layers": 8}, 8),
            ("flash_attention", {}, True),
            ("flash_attention", OLD_MEGATRON, False),
            ("flash_attention", {"framework": "megatron-lm", "date": "2024-02"}, False),
            ("overlap_grad_reduce", {}, 1.0),
            ("overlap_grad_reduce", OLD_MEGATRON, 0.3),
            ("overlap_param_gather", {}, 0.8),
            ("overlap_param_gather", {"zero_stage": 3}, 1.0),
            ("overlap_param_gather", OLD_MEGATRON, 0.2),
            ("tp_comm_overlap", {}, 0.7),
            ("tp_comm_overlap", {"stack": "torchtitan"}, 0.0),
            ("ep_overlap", {}, 0.0),
            ("cuda_graphs", {}, 0.0),
            ("cuda_graphs", {"cuda_graphs": "full"}, 1.0),
            ("compiled", {}, 0.0),
            ("compiled", {"stack": "maxtext"}, 1.0),
            ("compiled", {"accelerator": "TPUv5p"}, 1.0),
            ("grad_bytes", {}, 2.0),
            ("grad_bytes", {"stack": "torchtitan"}, 4.0),
            ("grad_bytes", {"grad_reduce_dtype": "fp32"}, 4.0),
            ("optimizer", {}, OptimizerKind.ADAM_FP32_MASTER),
            ("offload", {}, Offload.NONE),
            ("offload", {"cpu_offload": "optimizer"}, Offload.OPTIMIZER),
            ("precision", {}, Precision.BITS_16),
            ("precision", {"precision": "fp8"}, Precision.FP8),
        ],
    )
    def test_rule(self, make_runs, field, given, expected):
        value = getattr(prepare_runs(make_runs(given)).workload, field)
        assert value[0] == pytest.approx(expected)

    @pytest.mark.parametrize(
        ("given", "kernel"),
        [
            ({}, AttentionKernel.FLASH_3),
            ({"accelerator": "A100-80GB"}, AttentionKernel.FLASH_2),
            ({"date": "2023-04"}, AttentionKernel.FLASH_1),
            ({"date": "2023-04", "flash_attention": 0}, AttentionKernel.FUSED_SOFTMAX),
            ({"attention_backend": "torch", "flash_attention": 0}, AttentionKernel.UNFUSED),
            ({"attention_backend": "flash1", "flash_attention": 1}, AttentionKernel.FLASH_1),
        ],
    )
    def test_attention_kernel(self, make_runs, given, kernel):
        assert prepare_runs(make_runs(given)).software.attention_kernel[0] == kernel

    def test_plans_without_a_date_are_as_new_as_the_newest_run(self, make_runs):
        assert prepare_runs(make_runs()).stack.year[0] == DEFAULT_YEAR

    def test_fused_norm_unknown_is_half(self, make_runs):
        runs = make_runs({}, {"fused_norm": 1}, {"fused_norm": 0})
        assert list(prepare_runs(runs).software.fused_norm) == [0.5, 1.0, 0.0]


class TestDefaults:
    def test_micro_batch_size(self):
        size = default_micro_batch_size(
            num_params=np.array([1e9, 1e9, 1e9, 70e9]), sequences_per_rank=np.array([16.0, 6.0, 5.0, 16.0])
        )
        assert list(size) == [4.0, 2.0, 1.0, 1.0]

    def test_expert_parallel_size(self):
        size = default_expert_parallel_size(
            num_experts=np.array([0.0, 8.0, 160.0, 160.0, 8.0]), ranks=np.array([64.0, 64.0, 1024.0, 24.0, 1.0])
        )
        assert list(size) == [1.0, 8.0, 64.0, 16.0, 1.0]

    def test_expert_tensor_size(self):
        assert list(default_expert_tensor_size(ep=np.array([1.0, 8.0]), tp=np.array([4.0, 4.0]))) == [4.0, 1.0]

    def test_virtual_stages(self):
        stages = default_virtual_stages(
            num_layers=np.array([96.0, 96.0, 32.0, 96.0]),
            pp=np.array([8.0, 1.0, 4.0, 8.0]),
            interleaves=np.array([True, True, True, False]),
        )
        assert list(stages) == [3.0, 1.0, 1.0, 1.0]


class TestFlags:
    def test_only_missing_cells_are_flagged(self, make_runs):
        runs = make_runs({"cp": 2, "precision": "bf16"}, {"cp": None, "precision": None})
        first, second = prepare_runs(runs).imputer.imputed_columns()
        assert {"cp", "precision"} <= set(second)
        assert not {"cp", "precision"} & set(first)
        assert {"micro_batch_size", "vocab_size", "recompute", "flash_attention", "zero_stage"} <= set(first)

    def test_rows_where_a_column_does_not_apply_are_not_flagged(self, make_runs):
        imputer = prepare_runs(make_runs({}, {"attention": "mla"})).imputer
        relevant = {"kv_lora_rank": np.array([False, True])}
        first, second = imputer.imputed_columns(relevant)
        assert "kv_lora_rank" not in first
        assert "kv_lora_rank" in second

    def test_nothing_is_flagged_in_a_full_column(self):
        imputer = Imputer(pd.DataFrame({"tp": [1.0, 2.0]}))
        assert list(imputer.fill("tp", 9.0)) == [1.0, 2.0]
        assert imputer.imputed_columns() == [[], []]

    def test_named_settings_are_flagged_where_they_bear_on_time(self, make_runs):
        said = {
            "framework": "megatron-lm", "pipeline_schedule": "1f1b", "grad_reduce_dtype": "fp32", "optimizer": "adam",
            "attention_backend": "flash2", "cuda_graphs": "none",
        }  # fmt: skip
        runs = make_runs(said, {}, {"pp": 1, "num_gpus": 4, "flash_attention": 0})
        full, bare, alone = prepare_runs(runs).imputer.imputed_columns()
        names = {"stack", "pipeline_schedule", "grad_reduce_dtype", "optimizer", "attention_backend", "cuda_graphs"}
        assert not names & set(full)
        assert names <= set(bare)
        assert names & set(alone) == {"stack", "optimizer", "cuda_graphs"}

    def test_the_table_is_left_alone(self, make_runs):
        runs = make_runs({}, {"cp": 2})
        before = runs.copy()
        prepare_runs(runs)
        pd.testing.assert_frame_equal(runs, before)
