"""How a run is operated, from a file and the command line."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final

from surrogate.errors import FileFormatError, UnknownNameError
from surrogate.forecast.inputs import RunPolicy
from surrogate.reliability.failures import ComponentRates, rates_from_dict

_KEYS: Final = tuple(field.name for field in fields(RunPolicy) if field.name != "rates")


def load_policy(operation: Path | None, rates: Path | None, given: Mapping[str, object]) -> RunPolicy:
    """Return the policy of an operation file, a rates file, and values that win over both.

    Parameters
    ----------
    operation : Path, optional
        YAML or JSON mapping with fields of `RunPolicy`.
    rates : Path, optional
        What `surrogate reliability fit -o` wrote.
    given : mapping
        Fields of `RunPolicy`.

    Raises
    ------
    FileFormatError
        When a file cannot be read as what it should be.
    InputError
        For an unknown field or a value out of range.
    """
    values: dict[str, Any] = {} if operation is None else dict(_read_mapping(operation))
    for key in values:
        if key not in _KEYS:
            raise UnknownNameError("operation", key, get_close_matches(key, _KEYS), f"one of {', '.join(_KEYS)}")
    own = None if rates is None else load_rates(rates)
    return RunPolicy(rates=own, **(values | dict(given)))


def load_rates(path: Path) -> ComponentRates:
    """Return failure rates written by `surrogate reliability fit -o`.

    Raises
    ------
    FileFormatError
        When the file is not JSON.
    InputError
        When rates are missing in it.
    """
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise FileFormatError(f"`{path}` cannot be read as failure rates: {error}") from error
    return rates_from_dict(content.get("rates", {}) if isinstance(content, dict) else {})


def _read_mapping(path: Path) -> Mapping[str, object]:
    import yaml  # not needed where no file is given

    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise FileFormatError(f"`{path}` cannot be read as YAML: {error}") from error
    if not isinstance(content, dict):
        raise FileFormatError(f"`{path}` must be a mapping of keys to values")
    return {str(key): value for key, value in content.items()}
