"""What stands before the message: time stamps, and the launcher's word for who printed the line."""

from __future__ import annotations

import calendar
import re
from functools import lru_cache
from typing import Final

from surrogate.ingest.numbers import NAN
from surrogate.units import SECONDS_PER_HOUR, SECONDS_PER_MINUTE

_HEAD_CHARS: Final = 160
_TIME: Final = r"(?P<h>\d\d):(?P<m>\d\d):(?P<s>\d\d(?:[.,]\d{1,9})?)"
_ISO: Final = re.compile(r"(?P<Y>\d{4})-(?P<M>\d\d)-(?P<D>\d\d)[ T]" + _TIME)
_AMERICAN: Final = re.compile(r"(?P<M>\d\d)/(?P<D>\d\d)/(?P<Y>\d{4}|\d\d) " + _TIME)
_COMPACT: Final = re.compile(r"(?P<Y>\d{4})(?P<M>\d\d)(?P<D>\d\d) " + _TIME)
_STAMPS: Final = (_ISO, _AMERICAN, _COMPACT)

_ZONE: Final = r"(?:Z|[+-]\d\d:?\d\d)?"
_NOT_A_TAG: Final = re.compile(
    rf"\d{{4}}-\d\d-\d\d[ T][\d:.,]+{_ZONE}|\d\d/\d\d/\d{{2,4}} [\d:.,]+|\d{{8}} [\d:.,]+|"
    r"\b(?:INFO|WARNING|DEBUG|ERROR|root|titan)\b|line \d+|:\d+\b|[\s|\[\](),\-]+"
)


@lru_cache(maxsize=64)
def _day_s(year: int, month: int, day: int) -> int:
    return calendar.timegm((year, month, day, 0, 0, 0))


def parse_clock(text: str) -> float:
    """Seconds of the first time stamp near the start of the line; NaN without one.

    Zones are ignored: only differences within a file are used.

    Examples
    --------
    >>> parse_clock("[2023-04-18 01:46:59,500] [INFO]") - parse_clock("04/18/2023 01:46:58 [INFO|DP=0]")
    1.5
    """
    head = text[:_HEAD_CHARS]
    for stamp in _STAMPS:
        match = stamp.search(head)
        if match is not None:
            break
    else:
        return NAN
    year, month, day = int(match["Y"]), int(match["M"]), int(match["D"])
    if not (1 <= month <= 12 and 1 <= day <= 31):
        return NAN
    seconds = float(match["s"].replace(",", "."))
    of_day = int(match["h"]) * SECONDS_PER_HOUR + int(match["m"]) * SECONDS_PER_MINUTE + seconds
    return _day_s(year + 2000 if year < 100 else year, month, day) + of_day


def rank_tag(prefix: str) -> str:
    """Who printed the line, from what stands before the record: "" when nothing says so.

    Examples
    --------
    >>> rank_tag(" [default7]: "), rank_tag("[2023-04-18 01:46:59,171] "), rank_tag("3: ")
    ('default7:', '', '3:')
    """
    return _NOT_A_TAG.sub("", prefix) if prefix else ""
