"""The residual: XGBoost on what the analytic model with site effects leaves over, clipped and gated by evidence.

Trees interpolate between configurations of a site that was measured densely; they know nothing about sites and sizes
they have not seen. The gate therefore counts the measured runs of the same publisher family near a configuration:
``s / (s + 3)`` with ``s`` the sum of Gaussian similarities of the knobs. Where nobody measured it is 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from surrogate.analytic.workload import FloatArray
from surrogate.estimators.kernels import squared_distances
from surrogate.features.levels import UNKNOWN, SiteLevels

if TYPE_CHECKING:
    import xgboost

LARGEST_RESIDUAL = 0.5
"""Corrections of log time are clipped to this: a factor of 1.65."""
GATE_LENGTH = 1.5
"""Distance in knob space over which a measured run counts as similar."""
GATE_HALF = 3.0
"""Similar runs at which the residual counts half."""
_CHUNK_ROWS = 4096


@dataclass(frozen=True, kw_only=True, slots=True)
class TreeSettings:
    """Hyper-parameters of the trees: deep and many, as dense sweeps want; the gate keeps them from doing harm."""

    max_depth: int = 8
    num_trees: int = 500
    learning_rate: float = 0.035
    column_share: float = 0.3
    row_share: float = 0.8
    min_child_weight: float = 3.0
    l2: float = 3.0


class ResidualModel:
    """Gradient-boosted trees on residuals of log time.

    Parameters
    ----------
    settings : TreeSettings
        Hyper-parameters.
    random_state : int
        Seed of row and column sampling.
    num_threads : int
        Threads of a fit.
    """

    def __init__(self, settings: TreeSettings | None = None, random_state: int = 0, num_threads: int = 1) -> None:
        self.settings = settings or TreeSettings()
        self.random_state = random_state
        self.num_threads = num_threads

    def fit(self, features: FloatArray, residual: FloatArray, levels: SiteLevels, knobs: FloatArray) -> ResidualModel:
        """Learn residuals of shape (n,) from features of shape (n, f); rows are the evidence of the gate too."""
        self.booster_ = self._booster()
        self.booster_.fit(features, np.clip(residual, -LARGEST_RESIDUAL, LARGEST_RESIDUAL))
        self.evidence_family_ = levels.publisher_family
        self.evidence_knobs_ = knobs
        return self

    def predict(self, features: FloatArray) -> FloatArray:
        """Return the trees' correction of log time before the gate, clipped, shape (m,)."""
        raw = self.booster_.get_booster().inplace_predict(np.ascontiguousarray(features, dtype=np.float32))
        return np.clip(np.asarray(raw, dtype=np.float64), -LARGEST_RESIDUAL, LARGEST_RESIDUAL)

    def gate(self, levels: SiteLevels, knobs: FloatArray, *, without_itself: bool = False) -> FloatArray:
        """Return the weight of the correction in [0, 1), shape (m,); `without_itself` for rows of the evidence."""
        similar = similar_runs(levels, knobs, self.evidence_family_, self.evidence_knobs_)
        if without_itself:
            similar = np.maximum(similar - 1.0, 0.0)
        return similar / (similar + GATE_HALF)

    def out_of_fold(self, features: FloatArray, residual: FloatArray, folds: NDArray[np.int64]) -> FloatArray:
        """Return corrections of rows by trees that did not see their fold, shape (n,)."""
        corrections = np.zeros(len(residual))
        target = np.clip(residual, -LARGEST_RESIDUAL, LARGEST_RESIDUAL)
        for fold in np.unique(folds):
            held = folds == fold
            if held.all():
                continue
            booster = self._booster(share_of_trees=0.5)
            booster.fit(features[~held], target[~held])
            corrections[held] = booster.predict(features[held])
        return np.clip(corrections, -LARGEST_RESIDUAL, LARGEST_RESIDUAL)

    def _booster(self, share_of_trees: float = 1.0) -> xgboost.XGBRegressor:
        import xgboost

        s = self.settings
        options: dict[str, Any] = {
            "max_depth": s.max_depth,
            "n_estimators": max(int(s.num_trees * share_of_trees), 1),
            "learning_rate": s.learning_rate / share_of_trees,
            "colsample_bytree": s.column_share,
            "subsample": s.row_share,
            "min_child_weight": s.min_child_weight,
            "reg_lambda": s.l2,
        }
        return xgboost.XGBRegressor(
            tree_method="hist", n_jobs=self.num_threads, random_state=self.random_state, **options
        )


def similar_runs(
    levels: SiteLevels, knobs: FloatArray, evidence_family: NDArray[np.object_], evidence_knobs: FloatArray
) -> FloatArray:
    """Return how many measured runs of its publisher family are like each row, shape (m,)."""
    count = np.zeros(len(levels))
    for family in set(levels.publisher_family) - {UNKNOWN}:
        of_family = evidence_family == family
        if not of_family.any():
            continue
        rows = np.flatnonzero(levels.publisher_family == family)
        for chunk in np.array_split(rows, len(rows) // _CHUNK_ROWS + 1):
            distance2 = squared_distances(knobs[chunk], evidence_knobs[of_family])
            count[chunk] = np.exp(distance2 * (-0.5 / GATE_LENGTH**2)).sum(axis=1)
    return count
