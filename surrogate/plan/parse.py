"""Plans from files, mappings and command lines.

A plan is flat underneath: sections only group keys, so a key may stand in any section or beside them. Overrides come
last and win.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final

from surrogate.catalog import accelerator_index
from surrogate.errors import InputError
from surrogate.plan.edge import typed_values
from surrogate.plan.model_text import Values, changed_model, model_values
from surrogate.plan.plan import SECTION_COLUMNS, PartialPlan, Plan
from surrogate.plan.text import parse_scalar, read_mapping
from surrogate.plan.values import Value

_MODEL_COLUMNS: Final = frozenset(SECTION_COLUMNS["model"])
_DECIDE_DP: Final = frozenset({"tp", "pp", "cp", "num_gpus"})


class PlanError(InputError):
    """An error in a plan, with the plan's name in front."""

    def __init__(self, where: str, cause: InputError) -> None:
        super().__init__(cause.field, cause.rule, cause.got, cause.way_out)
        self.args = (f"{where}: {cause}",)


def load_plan(path: str | Path, overrides: Mapping[str, object] | None = None) -> Plan:
    """Read one plan that is ready to predict.

    Parameters
    ----------
    path : str or Path
        YAML or JSON.
    overrides : Mapping[str, object], optional
        Flat keys that win over the file's, for example from `parse_overrides`; None opens a field.

    Raises
    ------
    FileFormatError
        If the file cannot be read as a mapping.
    InputError
        If a key is unknown, a value is impossible, required values are missing or the parts contradict each other.
    """
    path = Path(path)
    return _located(path.name, load_partial_plan(path, overrides))


def load_partial_plan(path: str | Path, overrides: Mapping[str, object] | None = None) -> PartialPlan:
    """Read a plan whose fields may be open, for a search; parameters and errors as in `load_plan`."""
    path = Path(path)
    return parse_partial_plan(read_mapping(path), path.name, overrides, folder=path.parent)


def parse_plan(mapping: Mapping[str, object], name: str, overrides: Mapping[str, object] | None = None) -> Plan:
    """Return the plan a mapping spells out, ready to predict; errors as in `load_plan`.

    Examples
    --------
    >>> plan = parse_plan(
    ...     {
    ...         "model": "llama3-8b",
    ...         "cluster": {"accelerator": "H100", "num_gpus": 64, "inter_node_gbps": 3200},
    ...         "training": {"seq_len": 8192, "global_batch_size": 128, "micro_batch_size": 1},
    ...         "parallelism": {"tp": 2, "pp": 1},
    ...     },
    ...     "example",
    ... )
    >>> plan.dp, plan.num_microbatches, plan.cluster.inter_node_bytes_per_s
    (32, 4.0, 400000000000.0)
    """
    return _located(name, parse_partial_plan(mapping, name, overrides))


def parse_partial_plan(
    mapping: Mapping[str, object],
    name: str,
    overrides: Mapping[str, object] | None = None,
    *,
    folder: Path = Path(),
) -> PartialPlan:
    """Return the plan a mapping spells out, with open fields allowed.

    Parameters
    ----------
    mapping : Mapping[str, object]
        Sections `model`, `cluster`, `parallelism`, `training` and flat keys.
    name : str
        What the plan is listed under.
    overrides : Mapping[str, object], optional
        Flat keys that win; None opens a field.
    folder : Path, optional
        Where relative paths of a Hugging Face config start.
    """
    try:
        values = _values(mapping, folder)
        if overrides:
            values = _overridden(values, overrides, folder)
    except InputError as error:
        raise PlanError(name, error) from error
    given = {column: value for column, value in values.items() if value is not None}
    return PartialPlan(name=name, values=MappingProxyType(_with_canonical_accelerator(name, given)))


def parse_overrides(assignments: Iterable[str]) -> dict[str, object]:
    """Return the flat overrides of a command line.

    Parameters
    ----------
    assignments : iterable of str
        ``KEY=VALUE``; the value is YAML, an empty one opens the field. A section may prefix the key.

    Raises
    ------
    InputError
        If one has no ``=`` or a key is given twice.

    Examples
    --------
    >>> parse_overrides(["tp=8", "model=llama3-8b", "parallelism.vp="])
    {'tp': 8, 'model': 'llama3-8b', 'vp': None}
    """
    overrides: dict[str, object] = {}
    for assignment in assignments:
        key, equals, text = assignment.partition("=")
        key = key.strip()
        section, dot, column = key.partition(".")
        key = column if dot and section in SECTION_COLUMNS else key
        if not equals or not key:
            raise InputError("--set", "must be KEY=VALUE", assignment, "e.g. --set tp=8")
        if key in overrides:
            raise InputError("--set", f"must give `{key}` once", assignment)
        overrides[key] = parse_scalar(text)
    return overrides


def apply_overrides(plan: PartialPlan, assignments: Iterable[str], *, folder: Path = Path()) -> PartialPlan:
    """Return a plan with ``KEY=VALUE`` assignments applied; errors as in `parse_overrides` and `load_plan`."""
    values = _overridden(dict(plan.values), parse_overrides(assignments), folder)
    given = {column: value for column, value in values.items() if value is not None}
    return PartialPlan(name=plan.name, values=MappingProxyType(_with_canonical_accelerator(plan.name, given)))


def _located(name: str, partial: PartialPlan) -> Plan:
    try:
        return partial.complete()
    except InputError as error:
        raise PlanError(name, error) from error


def _values(mapping: Mapping[str, object], folder: Path) -> Values:
    """Flatten sections and resolve the model."""
    flat = _flattened(mapping)
    model = flat.pop("model", None)
    own = typed_values(flat)
    if model is None:
        return own
    base = model_values(model, folder=folder)
    twice = sorted(column for column in base.keys() & own.keys() if isinstance(model, Mapping) and column in model)
    if twice:
        raise InputError(twice[0], "must be given once", own[twice[0]], "it is in `model` and outside")
    changes = {column: value for column, value in own.items() if column in _MODEL_COLUMNS}
    return own | (changed_model(base, changes) if changes else base)


def _flattened(mapping: Mapping[str, object]) -> dict[str, object]:
    flat: dict[str, object] = {}
    for key, value in mapping.items():
        entries = value if key in SECTION_COLUMNS and key != "model" else {key: value}
        if entries is None:
            continue
        if not isinstance(entries, Mapping):
            raise InputError(key, "must be a mapping of keys to values", value, f"e.g. {key}: {{...}}")
        for inner, entry in entries.items():
            if inner in flat:
                raise InputError(str(inner), "must be given once", entry)
            flat[str(inner)] = entry
    return flat


def _overridden(values: Values, overrides: Mapping[str, object], folder: Path) -> Values:
    """Lay overrides over values; a new model replaces the old one whole, and dp follows what decides it."""
    flat = _flattened(overrides)
    replaced = values
    if "model" in flat:
        others = {column: value for column, value in values.items() if column not in _MODEL_COLUMNS}
        replaced = others | model_values(flat.pop("model"), folder=folder)
    changes = typed_values(flat)
    if changes.keys() & _DECIDE_DP and "dp" not in changes:
        replaced = {column: value for column, value in replaced.items() if column != "dp"}
    model_changes = {column: value for column, value in changes.items() if column in _MODEL_COLUMNS}
    if not model_changes:
        return replaced | changes
    model = {column: value for column, value in replaced.items() if column in _MODEL_COLUMNS}
    return replaced | dict.fromkeys(model) | changes | changed_model(model, model_changes)


def _with_canonical_accelerator(name: str, values: dict[str, Value]) -> dict[str, Value]:
    accelerator = values.get("accelerator")
    if isinstance(accelerator, str):
        try:
            values["accelerator"] = accelerator_index().resolve(accelerator)
        except InputError as error:
            raise PlanError(name, error) from error
    return values
