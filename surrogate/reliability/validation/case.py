"""One row of the validation table, and the tables of published figures it is read from."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from surrogate.errors import FileFormatError

Verdict = Literal["pass", "fail", "within", "outside", "shown"]


@dataclass(frozen=True, kw_only=True, slots=True)
class CaseResult:
    """A prediction beside what was published.

    Only ``pass`` and ``fail`` are gates. ``within`` and ``outside`` judge figures known at second hand; ``shown`` is
    what the truth does not fix the inputs of, so that nothing can pass or fail.
    """

    group: str
    case: str
    predicted: str
    published: str
    verdict: Verdict
    remark: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class PublishedCase:
    """A figure with its unit, the relative tolerance it must meet, and its source; no gate when it is second-hand."""

    case: str
    published: float
    unit: str
    relative_tolerance: float
    gate: bool
    citation: str


def read_table(path: Path) -> list[dict[str, str]]:
    """Return the rows of a CSV table.

    Raises
    ------
    FileFormatError
        When the file is missing or empty.
    """
    try:
        rows = list(csv.DictReader(path.read_text(encoding="utf-8").splitlines()))
    except OSError as error:
        raise FileFormatError(f"`{path}` cannot be read: {error.strerror}") from error
    if not rows:
        raise FileFormatError(f"`{path}` has no rows")
    return rows


def read_published_cases(path: Path) -> dict[str, PublishedCase]:
    """Return the cases of `validation_cases.csv` by id."""
    return {
        row["id"]: PublishedCase(
            case=row["case"],
            published=float(row["published"]),
            unit=row["unit"],
            relative_tolerance=float(row["relative_tolerance"]),
            gate=row["gate"] == "yes",
            citation=row["citation"],
        )
        for row in read_table(path)
    }


def within(group: str, case: str, *, predicted: float, low: float, high: float, published: float) -> CaseResult:
    """Return a row that passes when what was published lies inside a predicted interval."""
    return CaseResult(
        group=group,
        case=case,
        predicted=f"{predicted:.0f} [{low:.0f}, {high:.0f}]",
        published=f"{published:.0f}",
        verdict="pass" if low <= published <= high else "fail",
        remark=f"interval spans a factor of {high / max(low, 1.0):.1f}",
    )
