"""The predictors that an evaluation puts side by side, by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final, Self

import pandas as pd

from surrogate.analytic.workload import IntArray
from surrogate.evaluation.analytic_baseline import CalibratedAnalytic, TextbookAnalytic
from surrogate.evaluation.baselines import ConstantMfu, NearestOwnMfu, StepTimeMethod
from surrogate.evaluation.tree_baselines import TreesOnKnobs

if TYPE_CHECKING:
    from surrogate.estimators import HybridPredictor

HYBRID: Final = "hybrid"
MethodFactory = Callable[[int], StepTimeMethod]
"""Gives an unfitted method for a seed."""


class Hybrid:
    """The product's predictor as it ships."""

    def __init__(self, predictor: HybridPredictor) -> None:
        self.predictor = predictor

    def limited_to(self, levels: tuple[str, ...]) -> Hybrid:
        """Return the unfitted predictor that conformalizes these levels of site knowledge only."""
        self.predictor.set_params(conformal_levels=levels)
        return self

    def fit(self, runs: pd.DataFrame) -> Self:
        """Train on measured runs."""
        self.predictor.fit(runs)
        return self

    def condition(self, runs: pd.DataFrame) -> Hybrid:
        """Return the predictor conditioned on a site's own runs."""
        return Hybrid(self.predictor.condition(runs))

    def choose(self, candidates: pd.DataFrame, targets: pd.DataFrame, count: int) -> IntArray:
        """Return the own runs that would narrow the targets' intervals most, from inputs only."""
        from surrogate.estimators.design import choose_runs

        return choose_runs(self.predictor, candidates, targets, count)

    def predict_frame(self, runs: pd.DataFrame) -> pd.DataFrame:
        """Return predictions with their 90 % interval."""
        return self.predictor.predict_frame(runs)


def hybrid(random_state: int) -> Hybrid:
    """Return the product's predictor, unfitted, on one thread."""
    from surrogate.estimators import HybridPredictor

    return Hybrid(HybridPredictor(random_state=random_state, num_threads=1))


METHODS: Final[Mapping[str, MethodFactory]] = {
    HYBRID: hybrid,
    "analytic, calibrated": lambda _: CalibratedAnalytic(),
    "analytic, textbook": lambda _: TextbookAnalytic(),
    "XGBoost on time/roofline": lambda seed: TreesOnKnobs(over_roofline=True, random_state=seed),
    "XGBoost on raw knobs": lambda seed: TreesOnKnobs(over_roofline=False, random_state=seed),
    "nearest own run's MFU": lambda _: NearestOwnMfu(),
    "constant MFU": lambda _: ConstantMfu(),
}
"""The predictor and the baselines of an evaluation."""
