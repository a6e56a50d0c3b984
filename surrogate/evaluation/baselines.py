"""Simple predictors of step time that a surrogate must beat, on the same rows.

A utilisation u of the dense peak gives a step time of

    t = 6ND-like model FLOPs of the step / (accelerators x peak x u),

with model FLOPs per token and peak as `surrogate.derive` writes them (attention not halved, no recompute), so that
`mfu_computed` is u for a measured row.
"""

from __future__ import annotations

from typing import Protocol, Self, runtime_checkable

import numpy as np
import pandas as pd

from surrogate.analytic.workload import FloatArray, IntArray
from surrogate.evaluation.choice import nearest_rows
from surrogate.evaluation.scores import LOWER, PREDICTED, UPPER
from surrogate.features.columns import numbers, texts


class StepTimeMethod(Protocol):
    """What an evaluation asks of a predictor."""

    def fit(self, runs: pd.DataFrame) -> Self:
        """Learn from measured runs."""
        ...

    def predict_frame(self, runs: pd.DataFrame) -> pd.DataFrame:
        """Return `step_time_s` and, where there is an interval, its bounds, under the index of `runs`."""
        ...


@runtime_checkable
class AdaptsToOwnRuns(Protocol):
    """A method with a way of its own to take in a site's runs; others are scaled by the median ratio over them."""

    def condition(self, runs: pd.DataFrame) -> StepTimeMethod:
        """Return the method after a new site showed these measured runs."""
        ...


@runtime_checkable
class ConformalizesByKnowledge(Protocol):
    """A method that fits its intervals apart for each level of knowledge about a site."""

    def limited_to(self, levels: tuple[str, ...]) -> StepTimeMethod:
        """Return the unfitted method without the intervals of levels that nothing will ask for."""
        ...


@runtime_checkable
class ChoosesRuns(Protocol):
    """A method that says which own runs would teach it most, from their inputs only."""

    def choose(self, candidates: pd.DataFrame, targets: pd.DataFrame, count: int) -> IntArray:
        """Return positions among the candidates."""
        ...


def roofline_step_time_s(runs: pd.DataFrame) -> FloatArray:
    """Return the step time at full utilisation, shape (n,)."""
    tokens = numbers(runs, "global_batch_size") * numbers(runs, "seq_len")
    rate = numbers(runs, "num_gpus") * numbers(runs, "peak_flops_per_s")
    return np.asarray(numbers(runs, "model_flops_per_token") * tokens / rate)


def point_frame(runs: pd.DataFrame, step_time_s: FloatArray) -> pd.DataFrame:
    """Return predictions without an interval."""
    return pd.DataFrame({PREDICTED: step_time_s, LOWER: np.nan, UPPER: np.nan}, index=runs.index)


class ConstantMfu:
    """The median utilisation of the training runs of a precision; of all of them where a precision is new."""

    def fit(self, runs: pd.DataFrame) -> Self:
        """Learn the medians `mfu_by_precision_` and `mfu_`."""
        precision = np.asarray(texts(runs, "precision"), dtype=object)
        mfu = pd.Series(numbers(runs, "mfu_computed"))
        self.mfu_by_precision_ = mfu.groupby(precision).median()
        self.mfu_ = float(mfu.median())
        return self

    def predict_frame(self, runs: pd.DataFrame) -> pd.DataFrame:
        """Return step times at the constant utilisation."""
        precision = pd.Series(np.asarray(texts(runs, "precision"), dtype=object))
        mfu = precision.map(self.mfu_by_precision_).fillna(self.mfu_).to_numpy(dtype=np.float64)
        return point_frame(runs, roofline_step_time_s(runs) / mfu)


class NearestOwnMfu:
    """The utilisation of the nearest own run: of the same source, else of the same publisher family.

    Nearest in knob space; sites without own runs get no prediction.
    """

    def fit(self, runs: pd.DataFrame) -> Self:
        """Remember the runs."""
        self.runs_ = runs
        return self

    def condition(self, runs: pd.DataFrame) -> NearestOwnMfu:
        """Return the model that knows these runs too."""
        return NearestOwnMfu().fit(pd.concat([self.runs_, runs], ignore_index=True))

    def predict_frame(self, runs: pd.DataFrame) -> pd.DataFrame:
        """Return step times at the borrowed utilisation, NaN where there is no own run."""
        mfu = np.full(len(runs), np.nan)
        for family, rows in _positions(runs, "publisher_family").items():
            known = self.runs_[(self.runs_["publisher_family"] == family).to_numpy()]
            if len(known):
                mfu[rows] = _borrowed_mfu(runs.iloc[rows], known)
        return point_frame(runs, roofline_step_time_s(runs) / mfu)


def _borrowed_mfu(runs: pd.DataFrame, known: pd.DataFrame) -> FloatArray:
    """Return the utilisation of each run's nearest known run, those of its own source first."""
    source = runs["source"].to_numpy()[:, None]
    same = source == known["source"].to_numpy()[None, :]
    foreign = ~same & same.any(axis=1)[:, None]
    nearest = nearest_rows(runs, known, forbidden=foreign)
    return numbers(known, "mfu_computed")[nearest]


def _positions(runs: pd.DataFrame, column: str) -> dict[object, np.typing.NDArray[np.int64]]:
    """Return the row positions of each value of a column."""
    codes, names = pd.factorize(runs[column])
    return {name: np.flatnonzero(codes == code) for code, name in enumerate(names)}
