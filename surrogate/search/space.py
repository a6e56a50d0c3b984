"""The search space of a plan: domains of what it leaves open, constants of what it fixes, rules over both."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from surrogate.analytic.workload import BoolArray
from surrogate.errors import InputError
from surrogate.features.workload import PreparedRuns, prepare_runs
from surrogate.plan import PartialPlan
from surrogate.plan.values import Value
from surrogate.schema.columns import COLUMN_BY_NAME
from surrogate.search.derived import DERIVED
from surrogate.search.domains import LAYOUT_COLUMNS, ON_REQUEST, SEARCHED_COLUMNS, Domain, default_values
from surrogate.search.rules import RULES, Rule, own_rules, without_waived

Codes = NDArray[np.int16]

_SIZES: Final = (
    "num_layers",
    "hidden_size",
    "ffn_hidden_size",
    "num_heads",
    "num_kv_heads",
    "num_experts",
    "seq_len",
    "is_mla",
)
_OF_ACCELERATOR: Final = ("gpus_per_node", "fast_domain_gpus", "host_link_bytes_per_s")
_UNEQUAL_SHARES: Final = Rule(
    name="distinct-shares",
    requires="not repeats_share",
    column="recompute_layers",
    says="must differ between candidates",
)
_RECOMPUTED_STAGE: Final = Rule(
    name="recomputed-stage",
    requires="recompute_layers * pp <= num_layers + pp - 1",
    column="recompute_layers",
    says="must be at most the layers of a pipeline stage",
    way_out="leave it out to recompute every layer",
)
"""Binds where the plan fixes `recompute_layers`; shares of a stage, searched, always fit."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Conditions:
    """A user's own conditions, as text, and the habits that do not bind."""

    require: tuple[str, ...] = ()
    forbid: tuple[str, ...] = ()
    waive: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class SearchSpace:
    """What is searched.

    Parameters
    ----------
    plan : PartialPlan
        The fixed values.
    domains : Mapping[str, Domain]
        Every one of `SEARCHED_COLUMNS`, fixed ones with a single value, in the order of enumeration.
    constants : Mapping[str, ndarray of shape ()]
        Sizes and settings that rules may read.
    tables : Mapping[str, ndarray of shape (accelerators,)]
        Constants of each accelerator of its domain.
    rules : tuple of Rule
        What every layout meets.
    """

    plan: PartialPlan
    domains: Mapping[str, Domain]
    constants: Mapping[str, NDArray[Any]]
    tables: Mapping[str, NDArray[Any]]
    rules: tuple[Rule, ...]

    @property
    def open_columns(self) -> tuple[str, ...]:
        """Columns with something to choose."""
        return tuple(name for name, domain in self.domains.items() if not domain.is_fixed)

    @property
    def open_layout_columns(self) -> tuple[str, ...]:
        """Open columns that make a layout."""
        return tuple(name for name in self.open_columns if name in LAYOUT_COLUMNS)

    def inputs_of(self, name: str) -> frozenset[str]:
        """Return the searched columns that a name follows from."""
        if name in self.domains:
            return frozenset({name})
        if name in self.tables:
            return frozenset({"accelerator"})
        if name in self.constants:
            return frozenset()
        return frozenset().union(*(self.inputs_of(need) for need in DERIVED[name].needs))

    @cached_property
    def rule_inputs(self) -> Mapping[str, frozenset[str]]:
        """The searched columns that each rule reads, by the rule's name."""
        return {
            rule.name: frozenset().union(*(self.inputs_of(name) for name in rule.condition.names))
            for rule in self.rules
        }

    @cached_property
    def digest(self) -> str:
        """A fingerprint of plan, domains and rules: equal spaces have equal digests."""
        content = {
            "plan": dict(self.plan.values),
            "domains": {name: domain.values for name, domain in self.domains.items()},
            "rules": [rule.requires for rule in self.rules],
        }
        return hashlib.sha256(json.dumps(content, sort_keys=True, default=str).encode()).hexdigest()

    def columns(self, codes: Mapping[str, Codes]) -> CandidateColumns:
        """Return the columns of candidates that are given by their codes."""
        return CandidateColumns(self, codes)


@dataclass(frozen=True)
class CandidateColumns(Mapping[str, NDArray[Any]]):
    """Columns of n candidates, computed when asked for: searched, derived and constant ones.

    Constants have shape (), all others shape (n,).
    """

    space: SearchSpace
    codes: Mapping[str, Codes]
    _known: dict[str, NDArray[Any]] = field(default_factory=dict)

    def __getitem__(self, name: str) -> NDArray[Any]:
        if name not in self._known:
            self._known[name] = self._column(name)
        return self._known[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.codes)

    def __len__(self) -> int:
        return len(self.codes)

    def _column(self, name: str) -> NDArray[Any]:
        space = self.space
        if name in space.domains:
            values: NDArray[Any] = space.domains[name].array[self.codes[name]]
            return values
        if name in space.tables:
            entries: NDArray[Any] = space.tables[name][self.codes["accelerator"]]
            return entries
        if name in space.constants:
            return space.constants[name]
        return np.asarray(DERIVED[name].of(self))


@dataclass(frozen=True, kw_only=True, slots=True)
class SpaceRequest:
    """What a space is built from; see `build_space`."""

    plan: PartialPlan
    vary: Mapping[str, Sequence[Value]] = field(default_factory=dict)
    conditions: Conditions = Conditions()

    def build(self) -> SearchSpace:
        """Return the space; errors as in `build_space`."""
        return build_space(self.plan, vary=self.vary, conditions=self.conditions)


def build_space(
    plan: PartialPlan, *, vary: Mapping[str, Sequence[Value]] | None = None, conditions: Conditions | None = None
) -> SearchSpace:
    """Return the space of everything a plan leaves open.

    Parameters
    ----------
    plan : PartialPlan
        The fixed values.
    vary : Mapping[str, sequence of Value], optional
        Values of columns to search among; they win over the plan's.
    conditions : Conditions, optional
        The user's own.

    Raises
    ------
    InputError
        If sizes are missing, fixed values contradict each other, or a condition is no condition.
    """
    vary, conditions = dict(vary or {}), conditions or Conditions()
    values = {name: value for name, value in plan.values.items() if name not in vary}
    _check_sizes_given(values, vary)
    given: dict[str, Sequence[Value]] = {name: vary[name] if name in vary else (values[name],) for name in ON_REQUEST}
    bare = _bare_runs(values, given)
    prepared = prepare_runs(bare)
    sizes = {name: float(getattr(prepared.workload, name)[0]) for name in _SIZES}
    stack = str(prepared.stack.stack[0])
    domains = {}
    for name in SEARCHED_COLUMNS:
        chosen = vary.get(name) or _fixed_values(name, values)
        domains[name] = Domain(name=name, values=tuple(chosen or default_values(name, sizes, given, stack)))
    constants = _constants(values, sizes, prepared)
    known = (
        frozenset(constants) | frozenset(domains) | frozenset(DERIVED) | frozenset((*_OF_ACCELERATOR, "whole_program"))
    )
    own = own_rules(conditions.require, conditions.forbid, known)
    by_plan = (*_rule_of_given_dp(values), *([_RECOMPUTED_STAGE] if "recompute_layers" in values else []))
    space = SearchSpace(
        plan=PartialPlan(name=plan.name, values={name: v for name, v in values.items() if name != "dp"}),
        domains=domains,
        constants=constants,
        tables=_tables(prepared),
        rules=(*_binding(conditions.waive, domains), _UNEQUAL_SHARES, *by_plan, *own),
    )
    check_fixed_values(space)
    return space


def check_fixed_values(space: SearchSpace) -> None:
    """Raise on the first rule that the fixed values alone break.

    Raises
    ------
    InputError
        Naming column, rule, value and way out.
    """
    fixed = {name for name, domain in space.domains.items() if domain.is_fixed}
    columns = space.columns({name: np.zeros(1, dtype=np.int16) for name in space.domains})
    for rule in space.rules:
        if space.rule_inputs[rule.name] <= fixed and not bool(np.all(rule.condition.evaluate(columns))):
            raise InputError(rule.column, rule.says, _got(columns, rule), rule.way_out or "change the plan")


def meets(rule: Rule, columns: CandidateColumns, count: int) -> BoolArray:
    """Return which of n candidates meet a rule, shape (n,)."""
    return np.broadcast_to(rule.condition.evaluate(columns), (count,))


def _got(columns: CandidateColumns, rule: Rule) -> str:
    """Return the values a rule reads, as text."""
    values = {name: np.ravel(columns[name])[0].item() for name in sorted(rule.condition.names)}
    return ", ".join(
        f"{name}={value:g}" if isinstance(value, float) else f"{name}={value}" for name, value in values.items()
    )


def _check_sizes_given(values: Mapping[str, Value], vary: Mapping[str, Sequence[Value]]) -> None:
    required = ("num_layers", "hidden_size", "num_heads", "seq_len", *ON_REQUEST)
    missing = [name for name in required if name not in values and name not in vary]
    if missing:
        options = " ".join(f"--set {name}=..." for name in missing)
        raise InputError(", ".join(missing), "must be given to search", None, f"add them to the plan or pass {options}")
    for name in vary:
        if name not in SEARCHED_COLUMNS:
            raise InputError("--vary", f"must name one of {', '.join(SEARCHED_COLUMNS)}", name)


def _fixed_values(name: str, values: Mapping[str, Value]) -> tuple[Value, ...] | None:
    if name in values:
        return (values[name],)
    partly = name == "recompute_share" and ("recompute_layers" in values or values.get("recompute", "full") != "full")
    return (1.0,) if partly else None


def _bare_runs(values: Mapping[str, Value], given: Mapping[str, Sequence[Value]]) -> pd.DataFrame:
    """Return one row per accelerator on one GPU each: enough to complete sizes and hardware."""
    row = {name: value for name, value in values.items() if name not in SEARCHED_COLUMNS}
    layout = {"num_gpus": 1, "tp": 1, "pp": 1, "global_batch_size": 1}
    rows = [{**row, **layout, "accelerator": name} for name in given["accelerator"]]
    return typed_frame(pd.DataFrame(rows, dtype=object))


def typed_frame(frame: pd.DataFrame) -> pd.DataFrame:
    """Return a frame of plan columns with the dtypes of the schema."""
    return frame.astype({name: COLUMN_BY_NAME[name].kind.value for name in frame.columns if name in COLUMN_BY_NAME})


def _constants(
    values: Mapping[str, Value], sizes: Mapping[str, float], prepared: PreparedRuns
) -> Mapping[str, NDArray[Any]]:
    """Return what rules may read and no candidate changes, each of shape ()."""
    searched = frozenset(SEARCHED_COLUMNS) | frozenset(_OF_ACCELERATOR) | {"dp"}
    constants: dict[str, Any] = {name: value for name, value in values.items() if name not in searched}
    constants |= sizes
    constants |= {
        "is_mla": bool(sizes["is_mla"]),
        "stack": str(prepared.stack.stack[0]),
        "is_megatron": bool(prepared.stack.is_megatron[0]),
        "is_fsdp": bool(prepared.stack.is_torch_fsdp[0] or prepared.stack.is_xla[0]),
        "hsdp_shard": float(values.get("hsdp_shard", 1)),
    }
    return {name: np.asarray(value) for name, value in constants.items()}


def _tables(prepared: PreparedRuns) -> Mapping[str, NDArray[Any]]:
    tables = {name: getattr(prepared.workload, name) for name in _OF_ACCELERATOR}
    return {**tables, "whole_program": prepared.hardware.whole_program}


def _binding(waived: Iterable[str], domains: Mapping[str, Domain]) -> Iterator[Rule]:
    """Return the rules that bind: habits yield to a user who waives them or fixes their column."""
    for rule in without_waived(RULES, waived):
        if not (rule.is_habit and rule.column in domains and domains[rule.column].is_fixed):
            yield rule


def _rule_of_given_dp(values: Mapping[str, Value]) -> Iterable[Rule]:
    if "dp" not in values:
        return ()
    says = "must make tp*pp*cp*dp = num_gpus"
    return (Rule(name="given-dp", requires=f"dp == {values['dp']}", column="dp", says=says, way_out="leave dp out"),)
