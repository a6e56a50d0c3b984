"""What a command line says about a search, as typed values."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from surrogate.catalog import resolve_accelerator
from surrogate.errors import InputError, UnknownNameError
from surrogate.forecast import RunPolicy
from surrogate.plan import load_partial_plan, parse_overrides
from surrogate.plan.text import parse_scalar
from surrogate.plan.values import Value, check_value
from surrogate.schema.columns import COLUMN_BY_NAME
from surrogate.search.domains import SEARCHED_COLUMNS
from surrogate.search.objectives import Goal, Objective
from surrogate.search.sampler import Algorithm
from surrogate.search.search import SearchOptions
from surrogate.search.space import Conditions, SpaceRequest
from surrogate.search.study import StudyOptions


def parse_vary(assignments: Iterable[str]) -> dict[str, tuple[Value, ...]]:
    """Return the columns to vary, each with its values in ascending order.

    Parameters
    ----------
    assignments : iterable of str
        ``COLUMN=VALUE,VALUE,...``

    Raises
    ------
    InputError
        If one has another form, a column cannot be searched or is given twice, or a value is impossible.

    Examples
    --------
    >>> parse_vary(["num_gpus=128,64", "accelerator=h100"])
    {'num_gpus': (64, 128), 'accelerator': ('H100-80GB',)}
    """
    varied: dict[str, tuple[Value, ...]] = {}
    for assignment in assignments:
        name, equals, text = assignment.partition("=")
        name = name.strip()
        if not equals or not text.strip():
            raise InputError("--vary", "must be COLUMN=VALUE,VALUE,...", assignment, "e.g. --vary num_gpus=64,128")
        if name not in SEARCHED_COLUMNS or name == "recompute_share":
            raise InputError("--vary", f"must name one of {', '.join(_NAMES)}", name)
        if name in varied:
            raise InputError("--vary", f"must give `{name}` once", assignment)
        varied[name] = _distinct([_value(name, part.strip()) for part in text.split(",")])
    return varied


def parse_objectives(names: Iterable[str]) -> tuple[Objective, ...]:
    """Return objectives by name.

    Raises
    ------
    UnknownNameError
        If there is no such objective.
    """
    known = [str(objective) for objective in Objective]
    for name in names:
        if name not in known:
            raise UnknownNameError("--objective", name, known)
    return tuple(Objective(name) for name in names)


def space_request(
    path: Path, overrides: Iterable[str], vary: Iterable[str], conditions: tuple[list[str], list[str], list[str]]
) -> SpaceRequest:
    """Return what to search: a plan file, ``KEY=VALUE`` overrides, columns to vary, and conditions.

    Parameters
    ----------
    conditions : (list, list, list) of str
        Required, forbidden, and built-in habits to waive.
    """
    plan = load_partial_plan(path, parse_overrides(overrides))
    require, forbid, waive = conditions
    return SpaceRequest(
        plan=plan,
        vary=parse_vary(vary),
        conditions=Conditions(require=tuple(require), forbid=tuple(forbid), waive=tuple(waive)),
    )


def search_options(
    *,
    goal: tuple[list[str], float | None, float | None, bool],
    study: tuple[str, int, float | None, int, str | None, str],
    oom_risk: float,
    top: int,
    enumeration: tuple[bool, bool],
) -> SearchOptions:
    """Return how to search.

    Parameters
    ----------
    goal : (objectives, tokens, price, robust)
        What is wanted.
    study : (sampler, trials, seconds, seed, storage, name)
        How Optuna searches.
    oom_risk : float
        Risk of running out of memory to accept.
    top : int
        Candidates wanted.
    enumeration : (exhaustive, enumerate small spaces)
        What is enumerated.

    Raises
    ------
    InputError
        If an objective or sampler is unknown, or something an objective needs is missing.
    """
    names, tokens, price, robust = goal
    sampler, trials, seconds, seed, storage, name = study
    if sampler not in set(Algorithm):
        raise UnknownNameError("--sampler", sampler, [str(algorithm) for algorithm in Algorithm])
    policy = RunPolicy(price_per_gpu_hour=price)
    exhaustive, small = enumeration
    return SearchOptions(
        goal=Goal(objectives=parse_objectives(names), tokens=tokens, policy=policy, is_robust=robust),
        top=top,
        oom_risk=oom_risk,
        is_exhaustive=exhaustive,
        is_enumerated_when_small=small,
        study=StudyOptions(
            algorithm=Algorithm(sampler), trials=trials, seconds=seconds, seed=seed, storage=storage, name=name
        ),
    )


_NAMES = tuple(name for name in SEARCHED_COLUMNS if name != "recompute_share")


def _value(name: str, text: str) -> Value:
    if name == "accelerator":
        return resolve_accelerator(text).name
    value = parse_scalar(text)
    if not isinstance(value, int | float | str | bool):
        raise InputError("--vary", f"must give values of `{name}`", text)
    check_value(COLUMN_BY_NAME[name], value)
    return value


def _distinct(values: list[Value]) -> tuple[Value, ...]:
    unique = list(dict.fromkeys(values))
    return tuple(unique if isinstance(unique[0], str) else sorted(unique))
