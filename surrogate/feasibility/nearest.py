"""The layouts nearest to a plan that fit, each with its price in step time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations, product
from typing import Final, NamedTuple

import numpy as np
import pandas as pd

from surrogate.analytic.workload import Offload, Recompute, Workload
from surrogate.estimators.oom import DEFAULT_OOM_RISK
from surrogate.feasibility.candidates import (
    Changes,
    PlanPredictor,
    build_variants,
    consequences,
    current_settings,
    is_partly_recomputed,
    is_placeable,
)

FACTORS: Final = (0.5, 2.0, 4.0)
"""How far tensor, pipeline and context parallelism may move."""

MAX_CHANGES: Final = 2


@dataclass(frozen=True, kw_only=True, slots=True)
class NearbyLayout:
    """One layout that fits."""

    changes: Changes
    """Fields to change and their new values; None drops the field."""
    consequences: Changes
    """What has to follow: chunks, schedule or details that no longer fit, and their new values; None drops them."""
    step_time_s: float
    step_time_ratio: float
    """Over the step time predicted for the plan as it stands: the price."""
    peak_memory_bytes: float
    oom_probability: float


class _Fitting(NamedTuple):
    """A placeable variant that fits."""

    row: int
    """Among the placeable ones."""
    changes: Changes
    step_time_s: float


def nearest_layouts(
    plan: pd.DataFrame,
    predict: PlanPredictor,
    *,
    settings: Workload | None = None,
    oom_risk: float = DEFAULT_OOM_RISK,
    limit: int = 5,
) -> list[NearbyLayout]:
    """Find the fastest layouts one or two changes away that fit.

    Parameters
    ----------
    plan : DataFrame of one row
        Canonical columns.
    predict : PlanPredictor
        Called once, with the plan and all its variants.
    settings : Workload of one row, optional
        The plan's complete settings, where they are known already.
    oom_risk : float
        Largest probability of running out of memory that counts as fitting.
    limit : int
        Layouts to return at most.

    Returns
    -------
    list of NearbyLayout
        Fastest first. A pair of changes is left out when one of the two alone fits and is as fast; the fastest single
        change that fits is always among them. Empty when nothing within two changes fits.

    Raises
    ------
    InputError
        If `plan` is not one row.
    """
    changes = list(_changes(current_settings(plan) if settings is None else settings))
    variants = build_variants(plan, changes)
    placeable = np.flatnonzero(is_placeable(variants))
    table = predict(pd.concat([plan, variants.iloc[placeable]], ignore_index=True))
    step_time_s = table["step_time_s"].to_numpy(dtype=np.float64)
    risk = table["oom_probability"].to_numpy(dtype=np.float64)[1:]
    order = np.argsort(step_time_s[1:], kind="stable")
    fitting = [
        _Fitting(int(row), changes[placeable[row]], float(step_time_s[1 + row]))
        for row in order
        if risk[row] <= oom_risk
    ]
    return [
        NearbyLayout(
            changes=found.changes,
            consequences=consequences(plan, variants, int(placeable[found.row]), found.changes),
            step_time_s=found.step_time_s,
            step_time_ratio=float(found.step_time_s / step_time_s[0]),
            peak_memory_bytes=float(table["peak_memory_bytes"].iloc[1 + found.row]),
            oom_probability=float(risk[found.row]),
        )
        for found in _shortened(_without_needless_pairs(fitting), limit)
    ]


def _changes(w: Workload) -> Iterator[Changes]:
    """Enumerate every single change and every pair of changes of different fields."""
    moves = {field: values for field, values in _moves(w).items() if values}
    for count in range(1, MAX_CHANGES + 1):
        for fields in combinations(moves, count):
            for values in product(*(moves[field] for field in fields)):
                yield dict(zip(fields, values, strict=True))


def _moves(w: Workload) -> dict[str, list[object]]:
    """List what each field may become; the workload has one row."""
    recompute = {Recompute.NONE: ["selective", "full"], Recompute.FULL: []}.get(
        Recompute(int(w.recompute[0])), ["full"]
    )
    micro_batch = int(w.micro_batch_size[0])
    sizes = {field: int(getattr(w, field)[0]) for field in ("tp", "pp", "cp")}
    return {
        "micro_batch_size": [size for size in range(1, micro_batch) if micro_batch % size == 0],
        "recompute": list(recompute),
        "recompute_layers": [None] if is_partly_recomputed(w) else [],
        "zero_stage": list(range(int(w.zero_stage[0]) + 1, 4)),
        **{field: [int(size * by) for by in FACTORS if size * by >= 1] for field, size in sizes.items()},
        "sequence_parallel": [] if w.sequence_parallel[0] else [True],
        "cpu_offload": ["optimizer", "activations"] if w.offload[0] == Offload.NONE else [],
    }


def _shortened(layouts: list[_Fitting], limit: int) -> list[_Fitting]:
    """Keep the fastest, the last place being for the fastest single change where it is not among them."""
    kept = layouts[:limit]
    single = next((layout for layout in layouts if len(layout.changes) == 1), None)
    return kept if single is None or single in kept else [*kept[:-1], single]


def _without_needless_pairs(fitting: list[_Fitting]) -> list[_Fitting]:
    singles = [layout for layout in fitting if len(layout.changes) == 1]

    def is_needless(layout: _Fitting) -> bool:
        return len(layout.changes) > 1 and any(
            single.changes.items() <= layout.changes.items() and single.step_time_s <= layout.step_time_s
            for single in singles
        )

    return [layout for layout in fitting if not is_needless(layout)]
