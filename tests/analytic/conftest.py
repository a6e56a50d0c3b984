"""A factory of workloads, and random layouts for property tests."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields

import numpy as np
import pytest

from surrogate.analytic.workload import Workload

FLAGS = {
    "gated_mlp": True,
    "tied_embeddings": False,
    "is_mla": False,
    "sequence_parallel": False,
    "recompute_mlp": False,
    "recompute_norm": False,
    "recompute_moe": False,
    "flash_attention": True,
    "fused_norm": True,
}
CODES = {"zero_stage": 1, "schedule": 0, "precision": 0, "recompute": 0, "optimizer": 0, "offload": 0}
LLAMA3_8B = {
    "num_layers": 32, "hidden_size": 4096, "ffn_hidden_size": 14336, "num_heads": 32, "num_kv_heads": 8,
    "head_dim": 128, "vocab_size": 128256, "seq_len": 8192,
}  # fmt: skip
H100 = {
    "peak_flops_per_s": 989.4e12, "peak_16bit_flops_per_s": 989.4e12, "hbm_bytes": 80 * 2.0**30,
    "hbm_bytes_per_s": 3.35e12, "fast_link_bytes_per_s": 450e9, "fast_domain_gpus": 8, "gpus_per_node": 8,
    "network_bytes_per_s": 50e9, "host_link_bytes_per_s": 64e9,
}  # fmt: skip
ONES = ("tp", "pp", "cp", "dp", "ep", "expert_tp", "vp", "micro_batch_size", "global_batch_size")


def build_workload(**values: object) -> Workload:
    """Return a workload of the broadcast length of `values`, the rest being Llama 3 8B on one H100."""
    rows: dict[str, object] = {field.name: 0.0 for field in fields(Workload)}
    rows |= dict.fromkeys(ONES, 1.0) | FLAGS | CODES | LLAMA3_8B | H100 | {"grad_bytes": 4.0} | values
    derived = {
        "num_gpus": np.prod(np.broadcast_arrays(*(rows[name] for name in ("tp", "pp", "cp", "dp"))), axis=0),
        "num_dense_layers": np.where(np.equal(rows["num_experts"], 0), rows["num_layers"], 0.0),
        "sliding_window": rows["seq_len"],
        "shard_size": np.multiply(rows["dp"], rows["cp"]),
        "recompute_layers": np.ceil(np.divide(rows["num_layers"], rows["pp"])),
    }
    rows |= {name: value for name, value in derived.items() if name not in values}
    shape = np.broadcast_shapes((1,), *(np.shape(value) for value in rows.values()))
    return Workload(**{name: _column(name, value, shape) for name, value in rows.items()})


def _column(name: str, value: object, shape: tuple[int, ...]) -> np.ndarray:
    kind = np.bool_ if name in FLAGS else np.int64 if name in CODES else np.float64
    return np.broadcast_to(np.asarray(value), shape).astype(kind)


def build_random_workload(seed: int, rows: int) -> Workload:
    """Return `rows` possible configurations of dense, expert and MLA models."""
    random = np.random.default_rng(seed)

    def choose(*options: float) -> np.ndarray:
        return random.choice(np.array(options, dtype=float), rows)

    moe, mla = random.random(rows) < 0.5, random.random(rows) < 0.3
    layers = choose(8, 24, 32, 61)
    tp, pp, cp, dp = choose(1, 2, 8), choose(1, 2, 4, 8), choose(1, 2), choose(1, 4, 16)
    expert_tp = np.where(moe, choose(1, 1, 2), 1.0)
    expert_tp = np.minimum(expert_tp, tp)
    ep = np.where(moe, np.minimum(choose(1, 2, 8), tp * cp * dp / expert_tp), 1.0)
    hidden = choose(1024, 4096)
    return build_workload(
        num_layers=layers, hidden_size=hidden, num_heads=hidden / 128, num_kv_heads=8,
        gated_mlp=random.random(rows) < 0.7, tied_embeddings=random.random(rows) < 0.3,
        is_mla=mla, q_lora_rank=mla * choose(0, 1536), kv_lora_rank=mla * 512, qk_nope_head_dim=mla * 128,
        qk_rope_head_dim=mla * 64, v_head_dim=mla * 128,
        num_experts=moe * choose(8, 64), moe_top_k=moe * choose(1, 2, 8), moe_ffn_hidden_size=moe * 1024,
        num_shared_experts=moe * choose(0, 1), num_dense_layers=np.where(moe, choose(0, 1, 4), layers),
        num_mtp_layers=choose(0, 0, 1), windowed_layers_fraction=choose(0, 0.5), sliding_window=1024,
        tp=tp, pp=pp, cp=cp, dp=dp, ep=ep, expert_tp=expert_tp, vp=choose(1, 2),
        sequence_parallel=random.random(rows) < 0.5, zero_stage=random.integers(0, 4, rows),
        schedule=random.integers(0, 9, rows), global_batch_size=dp * choose(8, 32), grad_bytes=choose(2, 4),
        recompute=random.integers(0, 4, rows), recompute_moe=random.random(rows) < 0.2,
        flash_attention=random.random(rows) < 0.7, optimizer=random.integers(0, 4, rows),
        capacity_factor=choose(0, 1, 1.5),
    )  # fmt: skip


@pytest.fixture(scope="session")
def make_workload() -> Callable[..., Workload]:
    """Return the factory of `build_workload`."""
    return build_workload


@pytest.fixture(scope="session")
def make_random_workload() -> Callable[[int, int], Workload]:
    """Return the factory of `build_random_workload`."""
    return build_random_workload
