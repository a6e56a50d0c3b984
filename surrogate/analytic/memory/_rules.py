"""Combinations no framework can place in memory: each rule with its way out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from surrogate.analytic.workload import BoolArray, IntArray, Recompute, Schedule, Workload
from surrogate.errors import InputError

NO_RULE_BROKEN = -1

ENDS = 2
"""Embedding and head may each take a layer's place in the pipeline (BLOOM: 70 layers on 72 stages)."""

SPLIT_BACKWARD = (
    Schedule.ZB_H1,
    Schedule.ZB_H2,
    Schedule.ZB_V,
    Schedule.DUALPIPE,
    Schedule.V_HALF,
    Schedule.V_MIN,
)
"""Schedules that run weight gradients apart from input gradients: they need the weights twice per micro-batch, and
reduce gradients when all micro-batches are done."""


@dataclass(frozen=True, kw_only=True, slots=True)
class MemoryRule:
    """One rule of placement: where it is broken, what it says, how to mend it."""

    field: str
    rule: str
    way_out: str
    broken: Callable[[Workload], BoolArray]


def _layers_per_stage(w: Workload) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    return np.ceil(w.num_layers / w.pp)


RULES: tuple[MemoryRule, ...] = (
    MemoryRule(
        field="pp",
        rule="must not exceed num_layers + 2",
        way_out="use at most one pipeline stage per layer, and one each for embedding and head",
        broken=lambda w: w.pp > w.num_layers + ENDS,
    ),
    MemoryRule(
        field="vp",
        rule="must be 1 without a pipeline, and pp * vp at most num_layers + 2",
        way_out="lower vp",
        broken=lambda w: (w.vp > 1) & ((w.pp <= 1) | (w.pp * w.vp > w.num_layers + ENDS)),
    ),
    MemoryRule(
        field="num_heads",
        rule="must be a multiple of tp",
        way_out="choose tp among the divisors of num_heads",
        broken=lambda w: np.mod(w.num_heads, w.tp) != 0,
    ),
    MemoryRule(
        field="num_kv_heads",
        rule="must be a multiple of tp, or tp a multiple of it (heads are then replicated)",
        way_out="choose tp among the divisors or multiples of num_kv_heads",
        broken=lambda w: ~w.is_mla & (np.mod(w.num_kv_heads, w.tp) != 0) & (np.mod(w.tp, w.num_kv_heads) != 0),
    ),
    MemoryRule(
        field="ep",
        rule="must be 1 for a dense model",
        way_out="set ep to 1",
        broken=lambda w: (w.ep > 1) & (w.num_experts == 0),
    ),
    MemoryRule(
        field="num_experts",
        rule="must be a multiple of ep",
        way_out="choose ep among the divisors of num_experts",
        broken=lambda w: (w.num_experts > 0) & (np.mod(w.num_experts, w.ep) != 0),
    ),
    MemoryRule(
        field="ep",
        rule="times expert_tp must divide tp * cp * dp",
        way_out="lower ep or expert_tp, or raise dp",
        broken=lambda w: (w.num_experts > 0) & (np.mod(w.tp * w.cp * w.dp, w.ep * w.expert_tp) != 0),
    ),
    MemoryRule(
        field="recompute_layers",
        rule="must not exceed the layers of a pipeline stage",
        way_out="lower recompute_layers, or leave it out to recompute all of them",
        broken=lambda w: (w.recompute == Recompute.FULL) & (w.recompute_layers > _layers_per_stage(w)),
    ),
    MemoryRule(
        field="zero_stage",
        rule="must be at most 1 under a pipeline schedule that splits the backward pass",
        way_out="set zero_stage to 1, or pipeline_schedule to 1f1b",
        broken=lambda w: (w.zero_stage >= 2) & (w.pp > 1) & np.isin(w.schedule, SPLIT_BACKWARD),
    ),
    MemoryRule(
        field="pp",
        rule="must be even for dualpipe",
        way_out="choose an even pp, or pipeline_schedule 1f1b",
        broken=lambda w: (w.schedule == Schedule.DUALPIPE) & (w.pp > 1) & (np.mod(w.pp, 2) != 0),
    ),
)


def first_broken_rule(w: Workload) -> IntArray:
    """Index into `RULES` of the first rule each row breaks, `NO_RULE_BROKEN` where none (shape (n,))."""
    first = np.full(len(w), NO_RULE_BROKEN, dtype=np.int64)
    for index in reversed(range(len(RULES))):
        first[RULES[index].broken(w)] = index
    return first


def broken_rule_errors(w: Workload) -> dict[int, InputError]:
    """Return the error of each row that breaks a rule, by row: the field, the rule, the value and the way out."""
    first = first_broken_rule(w)
    errors = {}
    for row in np.flatnonzero(first != NO_RULE_BROKEN).tolist():
        rule = RULES[first[row]]
        errors[row] = InputError(rule.field, rule.rule, getattr(w, rule.field)[row].item(), rule.way_out)
    return errors


def check_memory_rules(w: Workload) -> None:
    """Refuse combinations that cannot be placed.

    Raises
    ------
    InputError
        For the first row that breaks a rule: the field, the rule, the value and the way out.
    """
    for error in broken_rule_errors(w).values():
        raise error
