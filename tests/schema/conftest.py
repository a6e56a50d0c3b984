"""A small valid table in published units, one dict per row."""

from __future__ import annotations

from collections.abc import Callable

import pandas as pd
import pytest

BASE = {
    "run_id": "mine-1",
    "num_layers": 32,
    "hidden_size": 4096,
    "num_heads": 32,
    "num_kv_heads": 8,
    "seq_len": 8192,
    "accelerator": "H100-80GB",
    "num_gpus": 64,
    "global_batch_size": 128,
    "micro_batch_size": 2,
    "tp": 4,
    "pp": 2,
    "dp": 8,
    "step_time_s": 12.5,
}

MakeTable = Callable[..., pd.DataFrame]


@pytest.fixture
def make_table() -> MakeTable:
    """Return a table with one row per given dict of changes; None removes the cell."""

    def make(*changes: dict[str, object]) -> pd.DataFrame:
        rows = [BASE | {"run_id": f"mine-{place}"} | change for place, change in enumerate(changes or [{}], 1)]
        return pd.DataFrame(rows).dropna(axis="columns", how="all")

    return make
