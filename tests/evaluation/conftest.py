"""Made-up runs of six publishers, and methods whose errors are known."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from surrogate.derive import check_table
from surrogate.evaluation.baselines import point_frame

PEAK_FLOPS_PER_S = {
    "V100-32GB": 125e12,
    "A100-40GB": 312e12,
    "A100-80GB": 312e12,
    "H100-80GB": 989e12,
    "GB200-186GB": 2450e12,
    "TPUv5p": 459e12,
}
SITES = {
    "vtrain-ground-truth": ("vtrain", "2024-09", "A100-80GB", (4, 8, 64)),
    "mosaic-2023": ("mosaicml", "2023-05", "A100-40GB", (8, 64, 512)),
    "mosaic-2024": ("mosaicml", "2024-01", "H100-80GB", (8, 64, 512)),
    "bridge-25": ("bridge", "2025-10", "GB200-186GB", (64, 256, 2048)),
    "tpu-24": ("maxtext", "2024-04", "TPUv5p", (64, 128, 256)),
    "early": ("classic", "2021-04", "V100-32GB", (8, 16, 32)),
}


def made_up_runs(layouts: int = 12) -> pd.DataFrame:
    rows = []
    for number, (source, (family, date, accelerator, sizes)) in enumerate(SITES.items()):
        for gpus in sizes:
            for layout in range(layouts):
                tp, pp = 2 ** (layout % 3), 2 ** (layout // 3 % 2)
                micro = 1 if layout < 6 else 2
                flops = 6 * (24 + 8 * (number % 4)) * 12 * 2048**2 * gpus * 8 * 2048
                mfu = 0.3 / (1 + 0.1 * layout) / (1 + 0.1 * number)
                rows.append(
                    {
                        "run_id": f"{source}-{gpus}-{layout}",
                        "source": source,
                        "publisher_family": family,
                        "date": date,
                        "model_name": f"m{number % 4}",
                        "num_layers": 24 + 8 * (number % 4),
                        "hidden_size": 2048,
                        "num_heads": 16,
                        "num_experts": 8 if source == "bridge-25" else None,
                        "moe_top_k": 2 if source == "bridge-25" else None,
                        "vocab_size": 51200,
                        "seq_len": 2048,
                        "accelerator": accelerator,
                        "num_gpus": gpus,
                        "tp": tp,
                        "pp": pp if gpus >= 8 else 1,
                        "micro_batch_size": micro,
                        "global_batch_size": gpus * 8,
                        "precision": "fp16" if source == "early" else "bf16",
                        "status": "ok",
                        "step_time_s": flops / (gpus * PEAK_FLOPS_PER_S[accelerator] * mfu),
                        "split_group": f"{source}-{gpus}-{layout // 2}"
                        if source == "early"
                        else f"{source}-{gpus}-{layout}",
                        "repeat_group": f"{source}-{gpus}-{layout}",
                    }
                )
    checked = check_table(pd.DataFrame(rows))
    assert not checked.problems, checked.problems[:3]
    return checked.good.reset_index(drop=True)


@pytest.fixture(scope="session")
def runs() -> pd.DataFrame:
    return made_up_runs()


class Oracle:
    """Knows every time, and is wrong by a factor until it saw own runs."""

    def __init__(self, factor: float = 1.0) -> None:
        self.factor = factor

    def fit(self, runs):
        self.trained_ = tuple(runs["run_id"])
        return self

    def condition(self, runs):
        assert not set(runs["run_id"]) & set(self.trained_)
        return Oracle().fit(runs)

    def predict_frame(self, runs):
        assert not set(runs["run_id"]) & set(self.trained_), "asked for a row it was shown"
        time = runs["measured_step_time_s"].to_numpy() * self.factor
        return point_frame(runs, time).assign(step_time_lower_s=time / 1.2, step_time_upper_s=time * 1.2)


class Mean:
    """Predicts the geometric mean of what it saw."""

    def fit(self, runs):
        self.time_ = float(np.exp(np.log(runs["measured_step_time_s"]).mean()))
        return self

    def condition(self, runs):
        return Mean().fit(runs)

    def predict_frame(self, runs):
        return point_frame(runs, np.full(len(runs), self.time_))


@pytest.fixture(scope="session")
def methods():
    """A predictor that is 10 % slow until it sees own runs, and one that knows a mean only."""
    return {"hybrid": lambda seed: Oracle(1.1), "mean": lambda seed: Mean()}
