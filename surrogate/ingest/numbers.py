"""Numbers as logs print them: `1,234`, `11.5K`, `2e+3`, `0:15:19.02`, `nan`."""

from __future__ import annotations

import math
import re
from typing import Final

from surrogate.units import GIGA, KILO, MEGA, SECONDS_PER_DAY, SECONDS_PER_HOUR, SECONDS_PER_MINUTE, TERA

NAN: Final = math.nan

_SUFFIX: Final = {"K": KILO, "M": MEGA, "G": GIGA, "B": GIGA, "T": TERA}
_DURATION: Final = re.compile(r"(?:(\d+) days?, )?(?:(\d+):)?(\d{1,2}):(\d{1,2}(?:\.\d+)?)\Z")


def parse_number(text: str) -> float:
    """Value of a printed number; NaN when it is none.

    Parameters
    ----------
    text : str
        Digits with optional thousands commas, exponent and one of the suffixes K, M, G, B, T (powers of 1000).

    Examples
    --------
    >>> parse_number("11.5K"), parse_number("7,034"), parse_number("2e+3")
    (11500.0, 7034.0, 2000.0)
    """
    text = text.strip().replace(",", "")
    scale = _SUFFIX.get(text[-1:].upper(), 1.0)
    try:
        value = float(text[:-1] if scale != 1.0 else text) * scale
    except ValueError:
        return NAN
    return value if math.isfinite(value) else NAN


def parse_positive(text: str) -> float:
    """Like :func:`parse_number`, and NaN also for zero and below: no time or rate can be."""
    value = parse_number(text)
    return value if value > 0 else NAN


def parse_duration(text: str) -> float:
    """Seconds of `MM:SS`, `H:MM:SS.ff`, `2 days, H:MM:SS` or a plain number of seconds; NaN otherwise.

    Examples
    --------
    >>> parse_duration("0:15:19.02"), parse_duration("01:30"), parse_duration("919.097")
    (919.02, 90.0, 919.097)
    """
    match = _DURATION.match(text.strip())
    if match is None:
        return parse_number(text)
    days, hours, minutes, seconds = (float(part or 0) for part in match.groups())
    return days * SECONDS_PER_DAY + hours * SECONDS_PER_HOUR + minutes * SECONDS_PER_MINUTE + seconds


def is_known(value: float) -> bool:
    """Whether a measured value is there: finite and above zero."""
    return math.isfinite(value) and value > 0
