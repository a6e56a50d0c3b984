"""Runs tables that hold only what is required to predict, plus what a test says."""

from __future__ import annotations

from collections.abc import Callable

import pandas as pd
import pytest

REQUIRED = {
    "num_layers": 32, "hidden_size": 4096, "num_heads": 32, "seq_len": 8192, "accelerator": "H100-80GB",
    "num_gpus": 64, "global_batch_size": 128, "tp": 4, "pp": 2,
}  # fmt: skip
TEXTS = (
    "accelerator", "framework", "stack", "date", "precision", "recompute", "recompute_kind", "recompute_modules",
    "attention", "attention_backend", "pipeline_schedule", "cuda_graphs", "grad_reduce_dtype", "cpu_offload",
    "optimizer", "source", "publisher_family",
)  # fmt: skip

MakeRuns = Callable[..., pd.DataFrame]


@pytest.fixture
def make_runs() -> MakeRuns:
    """Return a table with one row per given dict of changes; None leaves the cell missing."""

    def make(*changes: dict[str, object], **common: object) -> pd.DataFrame:
        table = pd.DataFrame([REQUIRED | common | change for change in changes or [{}]])
        given = {name: "string" if name in TEXTS else "Float64" for name in table.columns}
        return table.astype(given)

    return make
