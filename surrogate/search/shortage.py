"""Candidates that do not fit: what binds, and which single change of the plan would make something fit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import pandas as pd

from surrogate.errors import InputError
from surrogate.feasibility.advice import items_to_attack
from surrogate.plan import PartialPlan
from surrogate.plan.values import Value
from surrogate.search.domains import SEARCHED_COLUMNS
from surrogate.search.enumeration import CodeBlock, count_candidates
from surrogate.search.evaluation import Evaluator, SearchPredictor
from surrogate.search.exhaustive import enumerate_best
from surrogate.search.objectives import Goal
from surrogate.search.preparation import candidate_frame
from surrogate.search.space import SearchSpace, SpaceRequest
from surrogate.units import GIB

MORE_GPUS: Final = (2, 4, 8)
"""Multiples of the accelerators that are tried when nothing fits."""
LARGEST_CHANGED_SPACE: Final = 1_000_000
"""Changed spaces with more candidates are not searched for a way out."""
_OPENED: Final = tuple(
    name for name in SEARCHED_COLUMNS if name not in ("accelerator", "global_batch_size", "num_gpus")
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Change:
    """Columns of the plan changed so that something fits."""

    values: Mapping[str, Value]
    """New values by column."""
    layout: Mapping[str, Any]
    """The searched columns of the best candidate under the change."""
    step_time_s: float
    oom_probability: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Shortage:
    """Why nothing fits."""

    constraint: str
    """The binding constraint of the least risky candidate, in words."""
    layout: Mapping[str, Any]
    oom_probability: float
    changes: tuple[Change, ...]
    """What would fit, fastest first; empty when no single change is enough."""


def binding_constraints(evaluator: Evaluator, codes: CodeBlock) -> list[str]:
    """Return what keeps each of n candidates from fitting, in words."""
    prepared = evaluator.prepare(codes)
    memory = evaluator.memory_in_full(prepared)
    usable = prepared.workload.hbm_bytes
    device = memory.breakdown.device_bytes
    sentences = []
    for row in range(len(prepared)):
        item = items_to_attack(memory.breakdown, row, limit=1, workload=prepared.workload)[0]
        sentences.append(
            f"memory: risk {memory.oom_probability[row]:.0%} > {evaluator.oom_risk:.0%}, {device[row] / GIB:.1f} of "
            f"{usable[row] / GIB:.1f} GiB, largest {item.item.removesuffix('_bytes').replace('_', ' ')} "
            f"({item.share:.0%}): {item.remedy}"
        )
    return sentences


def explain_shortage(
    evaluator: Evaluator, least_risky: CodeBlock, predictor: SearchPredictor, request: SpaceRequest
) -> Shortage:
    """Return why nothing fits and which single changes of the plan help.

    Parameters
    ----------
    evaluator : Evaluator
        Of the space in which nothing fits.
    least_risky : dict of ndarray of shape (1,)
        Its candidate with the smallest risk.
    predictor : SearchPredictor
        For changed spaces.
    request : SpaceRequest
        What was asked; each column that the plan fixes is opened in turn, and accelerators are added.
    """
    memory = evaluator.memory(evaluator.prepare(least_risky))
    found: list[Change] = []
    for opened in _openings(evaluator.space):
        found += [change for names in opened if (change := _try(names, evaluator, predictor, request)) is not None]
        if found:
            break
    return Shortage(
        constraint=binding_constraints(evaluator, least_risky)[0],
        layout=layout_of(evaluator.space, candidate_frame(evaluator.space, least_risky), 0),
        oom_probability=float(memory.oom_probability[0]),
        changes=tuple(sorted(found, key=lambda change: change.step_time_s)),
    )


def layout_of(space: SearchSpace, frame: pd.DataFrame, row: int) -> dict[str, Any]:
    """Return the searched columns of one candidate as plain values; None where nothing is said."""
    return {name: plain(frame[name].iloc[row]) for name in shown_columns(space)}


def shown_columns(space: SearchSpace) -> tuple[str, ...]:
    """Return the columns that tell candidates apart, as a plan names them."""
    names = ["recompute_layers" if name == "recompute_share" else name for name in space.open_columns]
    follows = ["pipeline_schedule"] if "pipeline_schedule" not in names and "vp" in names else []
    return tuple(names + follows + (["dp"] if {"tp", "pp", "cp", "num_gpus"} & set(names) else []))


def plain(value: Any) -> Any:
    """Return a cell as a Python value; None for NA and NaN."""
    if value is None or value is pd.NA or (isinstance(value, float) and np.isnan(value)):
        return None
    item = value.item() if hasattr(value, "item") else value
    return int(item) if isinstance(item, float) and item.is_integer() else item


def _openings(space: SearchSpace) -> list[list[tuple[str, ...]]]:
    """Return which columns to open: one at a time or more accelerators, then all, then all with more accelerators."""
    fixed = tuple(name for name in _OPENED if space.domains[name].is_fixed and name in space.plan.values)
    return [[*((name,) for name in fixed), ("num_gpus",)], [fixed], [(*fixed, "num_gpus")]]


def _try(
    names: tuple[str, ...], evaluator: Evaluator, predictor: SearchPredictor, request: SpaceRequest
) -> Change | None:
    """Return the best candidate with some columns opened, or None if nothing fits then either."""
    vary = {column: values for column, values in request.vary.items() if column not in names}
    values = {column: value for column, value in request.plan.values.items() if column not in (*names, "dp")}
    if "num_gpus" in names:
        most = max(int(value) for value in evaluator.space.domains["num_gpus"].values)
        vary["num_gpus"] = tuple(most * factor for factor in MORE_GPUS)
    try:
        space = replace(request, plan=PartialPlan(name=request.plan.name, values=values), vary=vary).build()
    except InputError:
        return None
    if not 0 < count_candidates(space, at_most=LARGEST_CHANGED_SPACE) <= LARGEST_CHANGED_SPACE:
        return None
    changed = Evaluator.of_predictor(space, Goal(), predictor, oom_risk=evaluator.oom_risk)
    best = enumerate_best(changed, top=1).best
    if best is None:
        return None
    frame = candidate_frame(space, best.codes)
    times = changed.step_times.predict(frame)
    risk = changed.memory(changed.prepare(best.codes)).oom_probability
    return Change(
        values={
            name: value for name in names if (value := plain(frame[name].iloc[0])) != request.plan.values.get(name)
        },
        layout=layout_of(space, frame, 0),
        step_time_s=float(times.step_time_s[0]),
        oom_probability=float(risk[0]),
    )
