"""Memory by hand, by published figures, and by what must hold for any configuration."""

from __future__ import annotations

import csv
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from surrogate.analytic.memory import (
    TEXTBOOK,
    MemoryBreakdown,
    memory_at,
    num_microbatches,
    peak_memory,
    stage_memory,
)
from surrogate.analytic.workload import Offload, OptimizerKind, Precision, Recompute, Schedule
from surrogate.errors import InputError
from surrogate.units import GIB, GIGA

REFERENCE = Path(__file__).parents[2] / "data" / "reference"
LLAMA3_8B_PARAMS = 8_030_261_248
LAYER_ACTIVATIONS = (
    "norm_activations_bytes", "attention_activations_bytes", "mlp_activations_bytes", "recomputation_bytes",
)  # fmt: skip


def read(path: str, *quantities: str) -> list[dict[str, str]]:
    with (REFERENCE / path).open(newline="") as file:
        return [row for row in csv.DictReader(file) if not quantities or row["quantity"] in quantities]


def gpt(make_workload, row, **values):
    """Return a published GPT layout with enough micro-batches to fill its pipeline, without flash attention."""
    size = {name: float(row[name]) for name in ("num_layers", "hidden_size", "num_heads", "tp")}
    size |= {name: float(row[name]) for name in ("pp", "vp", "micro_batch_size") if name in row}
    schedule = Schedule.INTERLEAVED if size.get("vp", 1) > 1 else Schedule.ONE_F_ONE_B
    hidden = size["hidden_size"]
    defaults = {
        "ffn_hidden_size": 4 * hidden, "num_kv_heads": size["num_heads"], "head_dim": hidden / size["num_heads"],
        "seq_len": 2048, "vocab_size": 51200, "gated_mlp": False, "tied_embeddings": True, "flash_attention": False,
        "schedule": int(schedule), "global_batch_size": 1024.0, "zero_stage": 0,
    }  # fmt: skip
    return make_workload(**(defaults | size | values))


def layer_activations(breakdown: MemoryBreakdown) -> float:
    return float(sum(getattr(breakdown, name) for name in LAYER_ACTIVATIONS)[0])


@pytest.mark.parametrize(
    ("quantity", "settings"),
    [
        ("activations_tensor_parallel", {}),
        ("activations_sequence_parallel_selective", {"sequence_parallel": True, "recompute": int(Recompute.SELECTIVE)}),
    ],
)
def test_activations_match_selective_recompute_figure_1(make_workload, quantity, settings) -> None:
    rows = read("selective-recompute/figure1.csv", quantity)
    assert len(rows) == 4
    for row in rows:
        first_stage = memory_at(gpt(make_workload, row, **settings), np.zeros(1))
        published = float(row["value"]) * GIB
        assert layer_activations(first_stage) == pytest.approx(published, rel=1e-5), row["model"]


SHARES = {
    "sequence_parallel": {"sequence_parallel": True},
    "selective": {"recompute": int(Recompute.SELECTIVE)},
    "sequence_parallel_and_selective": {"sequence_parallel": True, "recompute": int(Recompute.SELECTIVE)},
}


@pytest.mark.parametrize("row", read("selective-recompute/figure7.csv", *SHARES), ids=lambda row: row["model"])
def test_shares_match_selective_recompute_figure_7(make_workload, row) -> None:
    alone = layer_activations(memory_at(gpt(make_workload, row), np.zeros(1)))
    with_setting = layer_activations(memory_at(gpt(make_workload, row, **SHARES[row["quantity"]]), np.zeros(1)))
    assert 100.0 * with_setting / alone == pytest.approx(float(row["value"]), abs=0.2)


@pytest.mark.parametrize("row", read("zero/figure1.csv"), ids=lambda row: f"zero-{row['zero_stage']}")
def test_model_states_match_zero_figure_1(make_workload, row) -> None:
    # a model of exactly 7.5e9 parameters: one weight matrix in place of layers, none of the rest worth a digit
    params = float(row["num_params_1e9"]) * GIGA
    w = make_workload(
        num_layers=1, hidden_size=1, num_heads=1, num_kv_heads=1, head_dim=1, ffn_hidden_size=params / 3, vocab_size=1,
        dp=float(row["num_ranks"]), zero_stage=int(row["zero_stage"]), grad_bytes=2.0,
    )  # fmt: skip
    assert peak_memory(w).static_bytes[0] / GIGA == pytest.approx(float(row["value"]), rel=0.016)


def test_static_bytes_of_llama3_8b_by_hand(make_workload) -> None:
    unsharded = peak_memory(make_workload(zero_stage=0, dp=64.0))
    distributed = peak_memory(make_workload(zero_stage=1, dp=64.0))
    fully_sharded = peak_memory(make_workload(zero_stage=3, dp=64.0))
    assert unsharded.static_bytes[0] == pytest.approx(18 * LLAMA3_8B_PARAMS, rel=1e-6)  # 134.62 GiB
    assert distributed.static_bytes[0] == pytest.approx((6 + 12 / 64) * LLAMA3_8B_PARAMS, rel=1e-6)  # 46.27 GiB
    assert fully_sharded.static_bytes[0] == pytest.approx(18 / 64 * LLAMA3_8B_PARAMS, rel=1e-6)  # 2.10 GiB


def test_activations_of_llama3_8b_by_hand(make_workload) -> None:
    # 12 h + 4 n_kv d_h + 6 f + 4 a = 139,392 bytes per token and layer
    expected = 139_392 * 8192 * 32
    assert layer_activations(peak_memory(make_workload())) == pytest.approx(expected, rel=1e-9)


def test_logits_sit_on_the_last_stage_only(make_workload) -> None:
    stages = stage_memory(make_workload(pp=4.0, global_batch_size=16.0))
    assert stages.logits_bytes[:3].tolist() == [0.0, 0.0, 0.0]
    # 10 bytes per logit, and the input and the norm of the head: 4 h
    assert stages.logits_bytes[3] == pytest.approx(8192 * (TEXTBOOK.logits_bytes * 128256 + 4 * 4096))


@pytest.mark.parametrize(
    ("optimizer", "bytes_per_param"),
    [
        (OptimizerKind.ADAM_FP32_MASTER, 12),
        (OptimizerKind.ADAM_BF16, 8),
        (OptimizerKind.ADAM_8BIT, 6),
    ],
)
def test_optimizer_states(make_workload, optimizer, bytes_per_param) -> None:
    states = peak_memory(make_workload(zero_stage=0, optimizer=int(optimizer))).optimizer_bytes[0]
    assert states == pytest.approx(bytes_per_param * LLAMA3_8B_PARAMS, rel=1e-6)


def test_muon_keeps_adam_for_what_is_no_matrix(make_workload) -> None:
    others = 2 * 128256 * 4096 + 65 * 4096
    states = peak_memory(make_workload(zero_stage=0, optimizer=int(OptimizerKind.MUON))).optimizer_bytes[0]
    assert states == pytest.approx(8 * (LLAMA3_8B_PARAMS - others) + 12 * others, rel=1e-6)


def test_fp32_needs_no_master_copy(make_workload) -> None:
    fp32 = peak_memory(make_workload(zero_stage=0, precision=int(Precision.FP32)))
    assert fp32.weights_bytes[0] == pytest.approx(4 * LLAMA3_8B_PARAMS, rel=1e-6)
    assert fp32.optimizer_bytes[0] == pytest.approx(8 * LLAMA3_8B_PARAMS, rel=1e-6)


def test_step_gradient_copy_hides_behind_activations(make_workload) -> None:
    small = peak_memory(make_workload(zero_stage=0, grad_bytes=2.0, seq_len=128.0))
    large = peak_memory(make_workload(zero_stage=0, grad_bytes=2.0))
    assert small.optimizer_step_bytes[0] > 0
    assert large.optimizer_step_bytes[0] == 0


def test_offload_moves_bytes_to_the_host(make_workload) -> None:
    here = peak_memory(make_workload(zero_stage=3, dp=8.0))
    away = peak_memory(make_workload(zero_stage=3, dp=8.0, offload=int(Offload.OPTIMIZER), offload_fraction=1.0))
    half = peak_memory(make_workload(zero_stage=3, dp=8.0, offload=int(Offload.ACTIVATIONS), offload_fraction=0.5))
    everything = peak_memory(make_workload(zero_stage=3, dp=8.0, offload=int(Offload.PARAMS), offload_fraction=1.0))
    assert away.optimizer_bytes[0] == away.gradients_bytes[0] == 0
    assert away.host_bytes[0] == pytest.approx(here.optimizer_bytes[0] + here.gradients_bytes[0])
    assert half.activations_bytes[0] == pytest.approx(here.activations_bytes[0] / 2)
    assert half.host_bytes[0] == pytest.approx(here.activations_bytes[0] / 2)
    assert everything.static_bytes[0] == 0


def test_recomputing_part_of_the_layers_lies_between_none_and_all(make_workload) -> None:
    full = int(Recompute.FULL)
    none, some, every = (
        memory_at(
            make_workload(pp=2.0, recompute=code, recompute_layers=layers, global_batch_size=1.0), np.zeros(1)
        ).activations_bytes[0]
        for code, layers in ((0, 0.0), (full, 8.0), (full, 16.0))
    )
    one_layer = 139_392 * 8192
    assert none == 16 * one_layer
    assert every == 16 * 2 * 4096 * 8192 + one_layer
    assert some == (none + every + one_layer) / 2


def test_experts_divide_over_expert_parallel_ranks(make_workload) -> None:
    mixtral = {
        "num_experts": 8.0, "moe_top_k": 2.0, "moe_ffn_hidden_size": 14336.0, "num_dense_layers": 0.0,
        "ffn_hidden_size": 0.0, "vocab_size": 32000.0, "zero_stage": 0, "dp": 8.0,
    }  # fmt: skip
    together = peak_memory(make_workload(**mixtral))
    spread = peak_memory(make_workload(**mixtral, ep=8.0))
    assert together.weights_bytes[0] == pytest.approx(2 * 46_702_792_704, rel=1e-6)
    experts = 2 * 32 * 8 * 3 * 4096 * 14336
    assert together.weights_bytes[0] - spread.weights_bytes[0] == pytest.approx(experts * 7 / 8)


def test_capacity_factor_sets_the_expert_load(make_workload) -> None:
    moe = {
        "num_experts": 64.0, "moe_top_k": 8.0, "moe_ffn_hidden_size": 1024.0, "num_dense_layers": 0.0, "ep": 8.0,
        "dp": 8.0, "num_shared_experts": 0.0,
    }  # fmt: skip
    dropless = peak_memory(make_workload(**moe)).expert_activations_bytes[0]
    capped = peak_memory(make_workload(**moe, capacity_factor=1.0)).expert_activations_bytes[0]
    router = 8192 * 32 * 8 * 64
    assert (dropless - router) / (capped - router) == pytest.approx(TEXTBOOK.expert_imbalance)


def test_fully_sharded_pipelines_keep_the_stage_gathered(make_workload) -> None:
    flat = peak_memory(make_workload(zero_stage=3, dp=8.0))
    piped = stage_memory(make_workload(zero_stage=3, dp=8.0, pp=2.0, global_batch_size=64.0))
    table = 128256 * 4096
    assert flat.gathered_parameters_bytes[0] == pytest.approx((2 * 2 + 4) * table)
    half_model = 16 * 218_112_000 + table
    assert piped.gathered_parameters_bytes[0] == pytest.approx((2 + 4) * half_model, rel=1e-6)


def test_grouped_heads_below_tp_are_replicated(make_workload) -> None:
    w = make_workload(num_kv_heads=8.0, tp=16.0, vocab_size=1.0, zero_stage=0)
    as_many = make_workload(num_kv_heads=16.0, tp=16.0, vocab_size=1.0, zero_stage=0)
    assert peak_memory(w).static_bytes == pytest.approx(peak_memory(as_many).static_bytes)


@pytest.mark.parametrize(
    ("layers", "pp", "expected"),
    [(126, 8, [15, 16, 16, 16, 16, 16, 16, 15]), (61, 4, [15, 16, 15, 15]), (7, 4, [2, 2, 2, 1]), (8, 4, [2, 2, 2, 2])],
)
def test_uneven_layers_spare_head_and_embedding(make_workload, layers, pp, expected) -> None:
    w = make_workload(num_layers=float(layers), pp=float(pp), vocab_size=1.0, global_batch_size=1.0)
    per_layer = 139_392 * 8192
    assert (stage_memory(w).activations_bytes / per_layer).round(6).tolist() == expected


def test_dualpipe_holds_weights_twice(make_workload) -> None:
    plain, twice = (
        stage_memory(make_workload(pp=4.0, schedule=int(code), global_batch_size=64.0)).weights_bytes
        for code in (Schedule.ONE_F_ONE_B, Schedule.DUALPIPE)
    )
    assert twice[1] == pytest.approx(2 * plain[1])
    assert twice[0] == pytest.approx(twice[3])


def test_stage_table_refuses_columns(make_workload) -> None:
    with pytest.raises(InputError, match="must hold one row"):
        stage_memory(make_workload(tp=[1.0, 2.0]))


def test_worst_stage_is_the_largest_of_the_stage_table(make_random_workload) -> None:
    w = make_random_workload(3, 60)
    peaks = peak_memory(w)
    for row in range(len(w)):
        stages = stage_memory(w.take(slice(row, row + 1)))
        assert peaks.device_bytes[row] >= 0.97 * stages.device_bytes.max()
        assert peaks.device_bytes[row] == pytest.approx(stages.device_bytes[int(peaks.stage[row])])


def test_items_sum_to_the_device_peak(make_random_workload) -> None:
    peaks = peak_memory(make_random_workload(4, 300))
    assert sum(peaks.items().values()) == pytest.approx(peaks.device_bytes)
    assert (peaks.allocated_bytes <= peaks.reserved_bytes).all()
    assert (peaks.reserved_bytes < peaks.device_bytes).all()
    assert all((values >= 0).all() for values in peaks.items().values())


def test_blocks_and_order_do_not_matter(make_random_workload, monkeypatch) -> None:
    w = make_random_workload(5, 200)
    order = np.random.default_rng(0).permutation(200)
    whole = peak_memory(w)
    monkeypatch.setattr("surrogate.analytic.memory._peak.ROWS_PER_BLOCK", 7)
    pieces = peak_memory(w.take(order))
    for field in fields(MemoryBreakdown):
        np.testing.assert_array_equal(getattr(pieces, field.name), getattr(whole, field.name)[order])


@given(seed=st.integers(0, 10_000), field=st.sampled_from(["micro_batch_size", "seq_len", "vocab_size"]))
def test_more_of_it_never_takes_less(make_random_workload, seed, field) -> None:
    w = make_random_workload(seed, 20)
    more = replace(w, **{field: 2 * getattr(w, field), "global_batch_size": w.global_batch_size * 2})
    assert (num_microbatches(more) >= num_microbatches(w)).all()
    assert (peak_memory(more).device_bytes >= peak_memory(w).device_bytes * (1 - 1e-12)).all()


@given(seed=st.integers(0, 10_000))
def test_higher_zero_stages_shrink_static_bytes(make_random_workload, seed) -> None:
    w = make_random_workload(seed, 20)
    index = np.zeros(len(w))
    static = [memory_at(replace(w, zero_stage=np.full(20, stage)), index).static_bytes for stage in range(4)]
    for lower, higher in zip(static[1:], static[:-1], strict=True):
        assert (lower <= higher * (1 + 1e-12)).all()


ZERO_BUBBLE_SHAPES = {
    "1.5B": {"num_layers": 22.0, "hidden_size": 2304.0, "num_heads": 24.0, "pp": 8.0, "micro_batch_size": 6.0},
    "6.2B": {"num_layers": 30.0, "hidden_size": 4096.0, "num_heads": 32.0, "pp": 8.0, "micro_batch_size": 3.0},
    "14.6B": {"num_layers": 46.0, "hidden_size": 5120.0, "num_heads": 40.0, "pp": 16.0, "micro_batch_size": 1.0},
    "28.3B": {"num_layers": 62.0, "hidden_size": 6144.0, "num_heads": 48.0, "pp": 32.0, "micro_batch_size": 1.0},
}
ZERO_BUBBLE_PEAKS_GIB = {
    Schedule.ONE_F_ONE_B: (30, 39, 32, 43),
    Schedule.ZB_H1: (32, 42, 33, 44),
    Schedule.ZB_H2: (59, 70, 51, 74),
}


@pytest.mark.parametrize("schedule", ZERO_BUBBLE_PEAKS_GIB, ids=lambda code: f"arXiv 2401.10241 table 4 {code.name}")
@pytest.mark.parametrize("model", ZERO_BUBBLE_SHAPES)
def test_peaks_match_zero_bubble_table_4(make_workload, schedule, model) -> None:
    shape = ZERO_BUBBLE_SHAPES[model]
    w = gpt(make_workload, shape | {"tp": 1.0}, seq_len=1024.0, schedule=int(schedule), vocab_size=50304.0)
    published = ZERO_BUBBLE_PEAKS_GIB[schedule][list(ZERO_BUBBLE_SHAPES).index(model)]
    assert peak_memory(w).reserved_bytes[0] / GIB == pytest.approx(published, rel=0.08)
