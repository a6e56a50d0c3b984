"""Why a plan takes as long as it does, and what single changes would do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

import numpy as np
import pandas as pd

from surrogate.api.changes import Effect, effects_of_changes
from surrogate.api.memory_account import MemoryAccount, account_for_memory
from surrogate.api.predictor import PARTS, Predictor

_WORTH_TELLING = 0.002
"""Changes below 0.2 % are left out."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Term:
    """One cause of a step's time."""

    cause: str
    seconds: float
    share: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Explanation:
    """A step's time term by term."""

    terms: Sequence[Term]
    """Largest first."""
    lost_fraction: float
    """Share of the step in which no layer computes anything new: traffic, bubble, recomputation, stragglers, ..."""
    residual_factor: float
    """What the learned residual multiplies the analytic step time by."""
    site_knowledge: str
    """release, family or population: whose habits the coefficients follow."""
    changes: Sequence[Effect]
    """Single changes of the plan, the fastest first."""
    memory: MemoryAccount

    def to_dict(self) -> dict[str, object]:
        """Return the explanation in plain JSON."""
        return asdict(self)


def explain(plan: pd.DataFrame, predictor: Predictor) -> Explanation:
    """Explain the prediction of one plan.

    Parameters
    ----------
    plan : DataFrame of one row
        Canonical columns.
    predictor : Predictor
        The one that predicted it.
    """
    row = predictor.predict_frame(plan).iloc[0]
    seconds = row[list(PARTS)].to_numpy(dtype=np.float64)
    total = float(row["step_time_s"])
    terms = [
        Term(cause=part, seconds=float(value), share=float(value) / total)
        for part, value in zip(PARTS, seconds, strict=True)
        if value > 0.0
    ]
    useful = float(row["compute_s"] + row["head_s"])
    effects = effects_of_changes(plan, predictor)
    return Explanation(
        terms=sorted(terms, key=lambda term: -term.seconds),
        lost_fraction=1.0 - useful / total,
        residual_factor=total / float(row["analytic_step_time_s"]),
        site_knowledge=str(row["site_knowledge"]),
        changes=[effect for effect in effects if abs(effect.ratio - 1.0) >= _WORTH_TELLING],
        memory=account_for_memory(plan, predictor),
    )
