"""A factory of workloads: a small dense model on one GPU unless told otherwise."""

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
    "head_dim": 128, "vocab_size": 128256, "seq_len": 8192, "num_dense_layers": 32,
}  # fmt: skip
H100 = {
    "peak_flops_per_s": 989.4e12, "peak_16bit_flops_per_s": 989.4e12, "hbm_bytes": 80 * 2.0**30,
    "hbm_bytes_per_s": 3.35e12, "fast_link_bytes_per_s": 450e9, "fast_domain_gpus": 8, "gpus_per_node": 8,
    "network_bytes_per_s": 50e9, "host_link_bytes_per_s": 64e9,
}  # fmt: skip
ONES = ("num_gpus", "tp", "pp", "cp", "dp", "ep", "expert_tp", "vp", "micro_batch_size", "global_batch_size")


def build_workload(**values: object) -> Workload:
    """Return a workload of the broadcast length of `values`, the rest being Llama 3 8B on one H100."""
    defaults: dict[str, object] = {field.name: 0.0 for field in fields(Workload)}
    defaults |= {name: 1.0 for name in ONES} | FLAGS | CODES | LLAMA3_8B | H100 | {"grad_bytes": 4.0}
    layout = {"num_layers", "num_dense_layers"}
    if "num_layers" in values and "num_dense_layers" not in values and not values.get("num_experts", 0):
        defaults["num_dense_layers"] = values["num_layers"]
    merged = defaults | values
    merged.setdefault("sliding_window", merged["seq_len"])
    if "sliding_window" not in values:
        merged["sliding_window"] = merged["seq_len"]
    if "shard_size" not in values:
        merged["shard_size"] = np.multiply(merged["dp"], merged["cp"])
    if "recompute_layers" not in values:
        merged["recompute_layers"] = np.ceil(np.divide(merged["num_layers"], merged["pp"]))
    shape = np.broadcast_shapes((1,), *(np.shape(value) for value in merged.values()))
    assert layout <= merged.keys()
    return Workload(**{name: _column(name, value, shape) for name, value in merged.items()})


def _column(name: str, value: object, shape: tuple[int, ...]) -> np.ndarray:
    kind = np.bool_ if name in FLAGS else np.int64 if name in CODES else np.float64
    return np.broadcast_to(np.asarray(value), shape).astype(kind)


@pytest.fixture
def make_workload() -> Callable[..., Workload]:
    """Return the factory."""
    return build_workload
