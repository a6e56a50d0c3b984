"""Plans from what people have: plan files, launch scripts and training configurations of the usual frameworks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from surrogate.errors import FileFormatError, InputError
from surrogate.plan import PLAN_COLUMNS, Plan, PlanError, load_plan
from surrogate.plan.text import read_mapping

_SECTIONS: Final = frozenset({"model", "cluster", "parallelism", "training"})
_PLAN_SUFFIXES: Final = frozenset({".yaml", ".yml", ".json"})


def read_plan(path: str | Path, overrides: Mapping[str, object] | None = None) -> Plan:
    """Read a plan, or a launch configuration that says as much as one.

    Parameters
    ----------
    path : str or Path
        A plan (YAML, JSON), or a script, arguments dump or configuration that `ingest.configs.read_config` knows.
    overrides : Mapping[str, object], optional
        Flat keys that win over the file's.

    Raises
    ------
    FileFormatError
        If the file cannot be read as either.
    InputError
        If required values are missing (all are named), a value is impossible, or the parts contradict each other.
    """
    path = Path(path)
    if not path.is_file():
        raise FileFormatError(f"{path}: no such file")
    if _is_plan(path):
        return load_plan(path, overrides)
    from surrogate.ingest.configs import config_to_plan, read_config

    report = read_config(path)
    try:
        return config_to_plan(report, overrides, name=path.name)
    except PlanError:
        raise
    except InputError as error:
        raise PlanError(path.name, error) from error


def read_plans(paths: Sequence[str | Path], overrides: Mapping[str, object] | None = None) -> list[Plan]:
    """Read several plans; two of one file name are told apart by their paths."""
    repeated = {name for name, times in Counter(Path(path).name for path in paths).items() if times > 1}
    plans = [read_plan(path, overrides) for path in paths]
    return [
        _renamed(plan, str(path)) if Path(path).name in repeated else plan
        for path, plan in zip(paths, plans, strict=True)
    ]


def _renamed(plan: Plan, name: str) -> Plan:
    from dataclasses import replace

    return replace(plan, name=name)


def _is_plan(path: Path) -> bool:
    """Return whether a file reads as a plan; what is neither plan nor configuration counts as a (bad) plan."""
    if path.suffix.lower() not in _PLAN_SUFFIXES:
        return False
    mapping = read_mapping(path)
    told = set(mapping)
    if told & {"cluster", "parallelism"} or told & set(PLAN_COLUMNS) >= {"num_gpus", "accelerator"}:
        return True
    from surrogate.ingest.configs.read import detect_format

    format_name = detect_format(path.read_text(encoding="utf-8-sig"), mapping, str(path))
    return format_name is None or (told <= _SECTIONS | set(PLAN_COLUMNS) and format_name != "huggingface")
