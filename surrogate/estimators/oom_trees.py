"""What the item factors miss at sites whose failures are known: boosted trees on the log odds of running out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
from scipy.special import expit, logit

from surrogate.analytic.workload import BoolArray, FloatArray, Workload

if TYPE_CHECKING:
    import xgboost

FEATURES: Final[tuple[str, ...]] = (
    "margin",
    "log_fill",
    "log_micro_batch_size",
    "log_seq_len",
    "log_tp",
    "log_pp",
    "log_shard_size",
    "log_layers_per_stage",
    "log_hidden_size",
    "flash_attention",
    "fused_norm",
    "sequence_parallel",
    "recompute",
    "zero_stage",
)

NEVER_SAFER_WITH_MORE: Final = frozenset({"margin", "log_fill", "log_micro_batch_size", "log_seq_len"})

NUM_ROUNDS: Final = 60

PROBABILITY_FLOOR: Final = 1e-3
"""Keeps log odds finite, and the trees able to overrule them."""


def oom_features(workload: Workload, margin: FloatArray, device_bytes: FloatArray) -> FloatArray:
    """Build the trees' features, shape (n, num_features).

    Parameters
    ----------
    workload : Workload
        n rows.
    margin : array of shape (n,)
        Standardised log peak over usable memory.
    device_bytes : array of shape (n,)
        Textbook peak of the whole device.
    """
    w = workload
    return np.column_stack(
        [
            margin,
            np.log(device_bytes / w.hbm_bytes),
            np.log(w.micro_batch_size),
            np.log(w.seq_len),
            np.log(w.tp),
            np.log(w.pp),
            np.log(w.shard_size),
            np.log(w.num_layers / w.pp),
            np.log(w.hidden_size),
            w.flash_attention,
            w.fused_norm,
            w.sequence_parallel,
            w.recompute,
            w.zero_stage,
        ]
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class OomTrees:
    """A fitted correction of the log odds of running out of memory."""

    booster: xgboost.Booster

    @classmethod
    def fit(
        cls, features: FloatArray, probability: FloatArray, out_of_memory: BoolArray, *, random_state: int
    ) -> OomTrees:
        """Fit trees on top of a probability.

        Parameters
        ----------
        features : array of shape (n, num_features)
            From `oom_features`.
        probability : array of shape (n,)
            Of each row, predicted without the row's group: otherwise the trees learn to trust what leaks.
        out_of_memory : array of bool, shape (n,)
            Outcomes.
        random_state : int
            Seed of the row sampling.
        """
        import xgboost

        data = xgboost.DMatrix(features, out_of_memory.astype(float), base_margin=_log_odds(probability))
        settings = {
            "objective": "binary:logistic",
            "max_depth": 3,
            "eta": 0.1,
            "subsample": 0.8,
            "reg_lambda": 2.0,
            "monotone_constraints": tuple(int(name in NEVER_SAFER_WITH_MORE) for name in FEATURES),
            "nthread": 1,
            "seed": random_state,
        }
        return cls(booster=xgboost.train(settings, data, NUM_ROUNDS))

    @classmethod
    def from_bytes(cls, content: bytes) -> OomTrees:
        """Read what `to_bytes` wrote (UBJSON)."""
        import xgboost

        return cls(booster=xgboost.Booster(model_file=bytearray(content)))

    def to_bytes(self) -> bytes:
        """Serialise as UBJSON."""
        return bytes(self.booster.save_raw("ubj"))

    def correct(self, features: FloatArray, probability: FloatArray) -> FloatArray:
        """Correct probabilities (shape (n,)) by features (shape (n, num_features))."""
        import xgboost

        data = xgboost.DMatrix(features, base_margin=_log_odds(probability))
        corrected: FloatArray = expit(np.asarray(self.booster.predict(data, output_margin=True), dtype=np.float64))
        return corrected


def _log_odds(probability: FloatArray) -> FloatArray:
    odds: FloatArray = logit(np.clip(probability, PROBABILITY_FLOOR, 1.0 - PROBABILITY_FLOOR))
    return odds
