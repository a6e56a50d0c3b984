"""Candidates evaluated: memory as a hard constraint, objectives from the predictor, cheap bounds for pruning."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pandas as pd

from surrogate.analytic.workload import BoolArray, FloatArray, IntArray, Workload
from surrogate.errors import InputError
from surrogate.estimators.hybrid import HybridPredictor
from surrogate.estimators.memory_model import MemoryPrediction
from surrogate.features.workload import PreparedRuns
from surrogate.search.enumeration import CodeBlock
from surrogate.search.objectives import Goal
from surrogate.search.preparation import CandidatePreparer, candidate_frame
from surrogate.search.space import Codes, SearchSpace
from surrogate.search.step_time_models import HybridStepTime, StepTimeModel


class MemoryPredictor(Protocol):
    """Predicts memory of whole tables; `MemoryModel` does."""

    def predict(self, runs: pd.DataFrame, workload: Workload) -> MemoryPrediction:
        """Return peak, items and the probability of running out, for n rows."""
        ...


class SearchPredictor(Protocol):
    """What a search needs of a predictor; `surrogate.api.Predictor` has it."""

    @property
    def step_time(self) -> object:
        """The step-time model: a `HybridPredictor`."""
        ...

    @property
    def memory(self) -> MemoryPredictor:
        """The memory model."""
        ...

    def sited(self, plans: pd.DataFrame) -> pd.DataFrame:
        """Return plans with the predictor's site."""
        ...

    def predict_frame(self, plans: pd.DataFrame, *, coverage: float = 0.9) -> pd.DataFrame:
        """Return predictions of n plans with interval, parts, memory and risk."""
        ...


@dataclass(frozen=True, kw_only=True, slots=True)
class Memory:
    """Memory of n candidates, arrays of shape (n,)."""

    peak_bytes: FloatArray
    oom_probability: FloatArray


class Evaluator:
    """Evaluates candidates of one space.

    Parameters
    ----------
    space : SearchSpace
        The space.
    goal : Goal
        The objectives.
    step_times : StepTimeModel
        Of the space.
    memory : MemoryPredictor
        Of peaks and risks.
    oom_risk : float
        Largest probability of running out of memory that counts as fitting.
    """

    def __init__(
        self, space: SearchSpace, goal: Goal, step_times: StepTimeModel, memory: MemoryPredictor, *, oom_risk: float
    ) -> None:
        self.space, self.goal, self.step_times, self.oom_risk = space, goal, step_times, oom_risk
        self.preparer = CandidatePreparer(space)
        self._memory = memory

    @classmethod
    def of_predictor(cls, space: SearchSpace, goal: Goal, predictor: SearchPredictor, *, oom_risk: float) -> Evaluator:
        """Return an evaluator through a fitted hybrid and its memory model."""
        step_times = HybridStepTime(hybrid_of(predictor), CandidatePreparer(space))
        return cls(space, goal, step_times, predictor.memory, oom_risk=oom_risk)

    def prepare(self, codes: Mapping[str, Codes]) -> PreparedRuns:
        """Return candidates ready for the models."""
        return self.preparer.prepare(codes)

    def memory(self, prepared: PreparedRuns) -> Memory:
        """Return peaks and risks of n candidates."""
        predicted = self.memory_in_full(prepared)
        return Memory(peak_bytes=predicted.peak_bytes, oom_probability=predicted.oom_probability)

    def memory_in_full(self, prepared: PreparedRuns) -> MemoryPrediction:
        """Return peaks with their items."""
        return self._memory.predict(self.preparer.site_runs(len(prepared)), prepared.workload)

    def fits(self, memory: Memory) -> BoolArray:
        """Tell which candidates fit, shape (n,)."""
        return np.asarray(memory.oom_probability <= self.oom_risk)

    def bounds(self, prepared: PreparedRuns, memory: Memory | None = None) -> FloatArray:
        """Return what no loss of n candidates falls below, shape (n, objectives)."""
        peak = np.zeros(len(prepared)) if memory is None else memory.peak_bytes
        return self.goal.lower_bounds(prepared, self.step_times.lower_bound_s(prepared), peak)

    def losses(self, codes: CodeBlock, memory: Memory) -> FloatArray:
        """Return the objectives of n candidates, to be made small, shape (n, objectives)."""
        times = self.step_times.predict(candidate_frame(self.space, codes))
        seconds = times.upper_s if self.goal.is_robust else times.step_time_s
        return self.goal.losses(self.prepare(codes), seconds, memory.peak_bytes)


def hybrid_of(predictor: SearchPredictor) -> HybridPredictor:
    """Return a predictor's step-time model.

    Raises
    ------
    InputError
        If it is no hybrid: the bounds of a search are those of the hybrid.
    """
    model = predictor.step_time
    if not isinstance(model, HybridPredictor):
        raise InputError("--model-dir", "must hold a hybrid predictor to search", type(model).__name__)
    return model


def take(codes: Mapping[str, Codes], rows: IntArray | BoolArray | slice) -> CodeBlock:
    """Return the selected candidates."""
    return {name: column[rows] for name, column in codes.items()}


def join(blocks: list[CodeBlock]) -> CodeBlock:
    """Return blocks one after the other."""
    return {name: np.concatenate([block[name] for block in blocks]) for name in blocks[0]}
