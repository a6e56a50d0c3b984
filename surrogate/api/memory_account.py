"""Where a plan's memory goes: the worst pipeline stage item by item, every stage, and layouts that do fit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import pandas as pd

from surrogate.analytic.memory import MemoryBreakdown, build_stage
from surrogate.analytic.workload import Workload
from surrogate.api.predictor import Predictor
from surrogate.estimators.oom import DEFAULT_OOM_RISK
from surrogate.features.workload import prepare_runs

if TYPE_CHECKING:
    from surrogate.feasibility.advice import ItemAdvice
    from surrogate.feasibility.nearest import NearbyLayout

_ITEMS_TO_ATTACK: Final = 6

GROUPS: Final[Mapping[str, tuple[str, ...]]] = {
    "weights": ("weights_bytes",),
    "gradients": ("gradients_bytes",),
    "optimizer states": ("optimizer_bytes", "optimizer_step_bytes"),
    "activations": (
        "norm_activations_bytes",
        "attention_activations_bytes",
        "mlp_activations_bytes",
        "expert_activations_bytes",
        "gathered_inputs_bytes",
        "embedding_bytes",
        "transient_bytes",
    ),
    "recomputed layers": ("recomputation_bytes",),
    "logits": ("logits_bytes",),
    "communication buffers": ("communication_bytes",),
    "gathered parameters": ("gathered_parameters_bytes",),
    "fragmentation": ("fragmentation_bytes",),
    "driver and communicators": ("context_bytes",),
}
"""Items of `MemoryBreakdown` under the names people use; together they are the whole device's peak."""


@dataclass(frozen=True, kw_only=True, slots=True)
class StageMemory:
    """The peak of one pipeline stage, in bytes per accelerator."""

    stage: int
    """From 0."""
    layers: int
    microbatches_in_flight: float
    """Micro-batches of the whole stage whose activations live together at the peak."""
    items: Mapping[str, float]
    """By item of `MemoryBreakdown`; they sum to `device_bytes`."""
    allocated_bytes: float
    device_bytes: float


@dataclass(frozen=True, kw_only=True, slots=True)
class MemoryAccount:
    """The peak of the worst pipeline stage, item by item, and what to do when it does not fit."""

    worst_stage: int
    """From 0."""
    num_stages: int
    peak_bytes: float
    """Allocated by the framework."""
    peak_lower_bytes: float
    peak_upper_bytes: float
    """90 % interval."""
    device_bytes: float
    """Allocated, fragmentation, driver and communicators: what must fit."""
    usable_bytes: float
    head_room_bytes: float
    """Usable less `device_bytes`; negative when it does not fit."""
    host_bytes: float
    oom_probability: float
    groups: Mapping[str, float]
    """Bytes by name of `GROUPS`; they sum to `device_bytes`."""
    items: Sequence[ItemAdvice]
    """The largest items, each with what lowers it and is not set yet."""
    stages: Sequence[StageMemory]
    """Every pipeline stage, the first first; empty unless asked for."""
    nearest_layouts: Sequence[NearbyLayout]
    """Layouts one or two changes away that fit, fastest first; none are looked for when the plan fits."""

    @property
    def fits(self) -> bool:
        """Whether the risk of running out is within what is accepted."""
        return self.oom_probability <= DEFAULT_OOM_RISK


def account_for_memory(plan: pd.DataFrame, predictor: Predictor, *, with_stages: bool = True) -> MemoryAccount:
    """Itemise the worst stage's peak of one plan; when it does not fit, name the nearest layouts that do.

    Parameters
    ----------
    plan : DataFrame of one row
        Canonical columns.
    predictor : Predictor
        The one that predicted it.
    with_stages : bool
        Also itemise every pipeline stage.
    """
    from surrogate.feasibility.advice import items_to_attack
    from surrogate.feasibility.nearest import nearest_layouts

    sited = predictor.sited(plan)
    workload = prepare_runs(sited).workload
    memory = predictor.memory.predict(sited, workload)
    breakdown, usable, risk = memory.breakdown, float(workload.hbm_bytes[0]), float(memory.oom_probability[0])
    device = float(breakdown.device_bytes[0])
    return MemoryAccount(
        worst_stage=int(breakdown.stage[0]),
        num_stages=int(workload.pp[0]),
        peak_bytes=float(memory.peak_bytes[0]),
        peak_lower_bytes=float(memory.lower_bytes[0]),
        peak_upper_bytes=float(memory.upper_bytes[0]),
        device_bytes=device,
        usable_bytes=usable,
        head_room_bytes=usable - device,
        host_bytes=float(breakdown.host_bytes[0]),
        oom_probability=risk,
        groups=_grouped(breakdown),
        items=items_to_attack(breakdown, limit=_ITEMS_TO_ATTACK, workload=workload),
        stages=_stages(predictor.memory.predict_stages(sited, workload), workload) if with_stages else [],
        nearest_layouts=[]
        if risk <= DEFAULT_OOM_RISK
        else nearest_layouts(plan, predictor.predict_frame, settings=workload),
    )


def _grouped(breakdown: MemoryBreakdown) -> dict[str, float]:
    sizes = breakdown.items()
    return {group: sum(float(sizes[name][0]) for name in names) for group, names in GROUPS.items()}


def _stages(breakdown: MemoryBreakdown, workload: Workload) -> list[StageMemory]:
    """Turn columns of stages (shape (pp,)) into one record each; the workload has one row."""
    stage = build_stage(workload.take(breakdown.stage.astype("int64") * 0), breakdown.stage)
    sizes = breakdown.items()
    return [
        StageMemory(
            stage=row,
            layers=int(stage.layers[row]),
            microbatches_in_flight=float(stage.microbatches_in_flight[row]),
            items={name: float(values[row]) for name, values in sizes.items()},
            allocated_bytes=float(breakdown.allocated_bytes[row]),
            device_bytes=float(breakdown.device_bytes[row]),
        )
        for row in range(len(breakdown.stage))
    ]
