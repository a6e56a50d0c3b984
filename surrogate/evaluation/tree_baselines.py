"""XGBoost without physics: what a table of knobs alone can learn."""

from __future__ import annotations

from typing import Any, Final, Self

import numpy as np
import pandas as pd

from surrogate.analytic.workload import FloatArray
from surrogate.evaluation.baselines import point_frame, roofline_step_time_s
from surrogate.evaluation.scores import MEASURED
from surrogate.features.columns import numbers, texts

SIZES: Final = (
    "num_layers",
    "hidden_size",
    "ffn_hidden_size",
    "num_heads",
    "num_kv_heads",
    "vocab_size",
    "seq_len",
    "num_experts",
    "moe_top_k",
    "moe_ffn_hidden_size",
    "num_gpus",
    "gpus_per_node",
    "inter_node_bytes_per_s",
    "tp",
    "pp",
    "cp",
    "dp",
    "ep",
    "vp",
    "micro_batch_size",
    "global_batch_size",
    "peak_flops_per_s",
)
"""Given to the trees as logarithms."""
FLAGS: Final = (
    "gated_mlp",
    "sequence_parallel",
    "zero_stage",
    "flash_attention",
    "overlap_grad_reduce",
    "tp_comm_overlap",
    "compiled",
)
CATEGORIES: Final = (
    "accelerator",
    "precision",
    "recompute",
    "stack",
    "attention_backend",
    "pipeline_schedule",
    "fsdp",
)
_PARAMETERS: Final[dict[str, Any]] = {
    "n_estimators": 300,
    "max_depth": 6,
    "learning_rate": 0.1,
    "subsample": 0.8,
    "colsample_bytree": 0.7,
    "min_child_weight": 3,
    "tree_method": "hist",
    "n_jobs": 1,
}
"""Fixed, not tuned: a good default for a few thousand rows."""


class TreesOnKnobs:
    """XGBoost on log step time, or on the log of step time over roofline, from raw knobs.

    Parameters
    ----------
    over_roofline : bool
        Learn log(time/roofline) instead of log(time).
    random_state : int
        Seed of row and column sampling.
    """

    def __init__(self, *, over_roofline: bool, random_state: int = 0) -> None:
        self.over_roofline = over_roofline
        self.random_state = random_state

    def fit(self, runs: pd.DataFrame) -> Self:
        """Learn the trees `booster_` and the known texts of each categorical column."""
        from xgboost import XGBRegressor

        self.known_texts_ = {column: sorted(set(texts(runs, column)) - {""}) for column in CATEGORIES}
        target = np.log(numbers(runs, MEASURED)) - self._log_scale(runs)
        self.centre_ = float(target.mean())
        self.booster_ = XGBRegressor(**_PARAMETERS, random_state=self.random_state)
        self.booster_.fit(self._features(runs), target - self.centre_)
        return self

    def predict_frame(self, runs: pd.DataFrame) -> pd.DataFrame:
        """Return step times."""
        predicted = self.booster_.predict(self._features(runs)).astype(np.float64)
        return point_frame(runs, np.exp(predicted + self.centre_ + self._log_scale(runs)))

    def _log_scale(self, runs: pd.DataFrame) -> FloatArray:
        return np.log(roofline_step_time_s(runs)) if self.over_roofline else np.zeros(len(runs))

    def _features(self, runs: pd.DataFrame) -> FloatArray:
        columns = [np.log1p(numbers(runs, column)) for column in SIZES]
        columns += [numbers(runs, column) for column in FLAGS]
        for column in CATEGORIES:
            values = np.asarray(texts(runs, column), dtype=object)
            columns += [(values == text).astype(np.float64) for text in self.known_texts_[column]]
        return np.stack(columns, axis=1)
