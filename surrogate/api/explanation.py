"""Why a plan takes as long as it does, and what single changes would do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from surrogate.api.changes import Effect, effects_of_changes
from surrogate.api.predictor import PARTS, Predictor

if TYPE_CHECKING:
    from surrogate.feasibility import ItemAdvice, NearbyLayout

_MAX_ITEMS = 6
_WORTH_TELLING = 0.002
"""Changes below 0.2 % are left out."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Term:
    """One cause of a step's time."""

    cause: str
    seconds: float
    share: float


@dataclass(frozen=True, kw_only=True, slots=True)
class MemoryAccount:
    """The peak of the worst pipeline stage, item by item, and what to do when it does not fit."""

    worst_stage: int
    """From 0."""
    num_stages: int
    usable_bytes: float
    head_room_bytes: float
    """Usable less predicted peak; negative when it does not fit."""
    host_bytes: float
    items: Sequence[ItemAdvice]
    """Largest first, each with what lowers it."""
    nearest_layouts: Sequence[NearbyLayout]
    """Layouts one or two changes away that fit, fastest first; none are looked for when the plan fits."""


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


def account_for_memory(plan: pd.DataFrame, predictor: Predictor) -> MemoryAccount:
    """Itemise the worst stage's peak of one plan; when it does not fit, name the nearest layouts that do.

    Parameters
    ----------
    plan : DataFrame of one row
        Canonical columns.
    predictor : Predictor
        The one that predicted it.
    """
    from surrogate.estimators.oom import DEFAULT_OOM_RISK
    from surrogate.feasibility import items_to_attack, nearest_layouts
    from surrogate.features import prepare_runs

    workload = prepare_runs(plan).workload
    memory = predictor.memory.predict(plan, workload)
    usable, peak = float(workload.hbm_bytes[0]), float(memory.peak_bytes[0])
    fits = float(memory.oom_probability[0]) <= DEFAULT_OOM_RISK
    return MemoryAccount(
        worst_stage=int(memory.breakdown.stage[0]),
        num_stages=int(workload.pp[0]),
        usable_bytes=usable,
        head_room_bytes=usable - peak,
        host_bytes=float(memory.breakdown.host_bytes[0]),
        items=items_to_attack(memory.breakdown, limit=_MAX_ITEMS),
        nearest_layouts=[] if fits else nearest_layouts(plan, predictor.predict_frame),
    )
