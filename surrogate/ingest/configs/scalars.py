"""Scalars as people write them in configurations: `220_000_000`, `5e7`, `"True"`, `null`, `auto`.

What a file leaves to its environment travels as text with a marker inside: `unset("SLURM_NNODES")` for a variable
nobody sets, `opaque("$(hostname)")` for something that only running the file could tell.
"""

from __future__ import annotations

import math
import re
from typing import Final

Value = str | int | float | bool
"""A settled setting."""

OPEN: Final = "\ue000"
CLOSE: Final = "\ue001"
_MARKER: Final = re.compile(f"{OPEN}(!?)([^{OPEN}{CLOSE}]*){CLOSE}")
_BLANK: Final = re.compile(r"\s+")
_NOT_PLAIN: Final = re.compile(r"[^\w./:=,+*%|-]")
"""What would be read again as shell syntax inside a marker."""

_VISIBLE_BLANK: Final = "\u2423"
"""Stands for a space inside a marker, so that splitting text into words never cuts one."""

_MISSING_WORDS: Final = frozenset({"", "none", "null", "~", "na", "n/a"})
_TRUE_WORDS: Final = frozenset({"true", "yes", "on", "1"})
_FALSE_WORDS: Final = frozenset({"false", "no", "off", "0"})
_MAX_COUNT: Final = 10**18
_MAX_DIGITS: Final = 40


def unset(name: str) -> str:
    """Return the marker of a variable that only the environment could set."""
    return f"{OPEN}{name}{CLOSE}"


def opaque(what: str) -> str:
    """Return the marker of a value that only running the file could tell."""
    clean = _NOT_PLAIN.sub(" ", what).strip()
    return f"{OPEN}!{_BLANK.sub(_VISIBLE_BLANK, clean[:60])}{CLOSE}"


def marked_name(text: str) -> str | None:
    """Return what the first marker in `text` stands for, or None when there is none."""
    found = _MARKER.search(text)
    return found.group(2).replace(_VISIBLE_BLANK, " ") if found else None


def has_opaque(text: str) -> bool:
    """Tell whether `text` holds something that only running the file could tell."""
    return any(match.group(1) for match in _MARKER.finditer(text))


def without_unset(text: str) -> str:
    """Return `text` as an empty environment would have it: markers of unset variables removed."""
    return _MARKER.sub(lambda match: match.group(0) if match.group(1) else "", text)


def as_text(value: object) -> str | None:
    """Return `value` as bare text without quotes around it, or None when it says nothing."""
    if value is None or isinstance(value, dict):
        return None
    text = str(value).strip()
    if len(text) >= 2 and text[0] == text[-1] and text[0] in "'\"":
        text = text[1:-1].strip()
    return None if text.lower() in _MISSING_WORDS else text


def as_float(value: object) -> float | None:
    """Return a finite number, or None."""
    if isinstance(value, bool):
        return None
    text = as_text(value)
    if text is None or len(text) > _MAX_DIGITS:
        return None
    try:
        number = float(text.replace("_", "").replace(",", ""))
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def as_count(value: object, *, least: int = 1) -> int | None:
    """Return an integer between `least` and 10**18, or None."""
    number = as_float(value)
    if number is None or number != int(number) or not least <= number <= _MAX_COUNT:
        return None
    return int(number)


def as_flag(value: object) -> bool | None:
    """Return a truth value, or None when `value` is neither true nor false."""
    if isinstance(value, bool):
        return value
    text = (as_text(value) or "").lower()
    if text in _TRUE_WORDS:
        return True
    return False if text in _FALSE_WORDS else None
