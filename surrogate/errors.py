"""Errors a user can cause, each saying which field, which rule, what was got and the way out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


class SurrogateError(Exception):
    """Base of every error shown to a user in one line, without a traceback (exit code 1)."""


class InputError(SurrogateError):
    """One value breaks one rule.

    Parameters
    ----------
    field : str
        Name of the column, plan key or option.
    rule : str
        What must hold, as the end of a sentence: ``"must be a positive integer"``.
    got : object
        The value that was given.
    way_out : str
        What to do instead; may be empty.
    """

    def __init__(self, field: str, rule: str, got: object, way_out: str = "") -> None:
        self.field, self.rule, self.got, self.way_out = field, rule, got, way_out
        super().__init__(f"`{field}` {rule}, got {got!r}" + (f": {way_out}" if way_out else ""))


class UnknownNameError(InputError):
    """A catalogue name that does not exist; the message lists near matches."""

    def __init__(self, field: str, got: str, near: Sequence[str], way_out: str = "") -> None:
        hint = f"did you mean {', '.join(near)}?" if near else way_out
        super().__init__(field, "must be a known name", got, hint)
        self.near = tuple(near)


class FileFormatError(SurrogateError):
    """A file that cannot be read as what it should be (corrupt, empty, wrong kind)."""


class ModelDirectoryError(SurrogateError):
    """A model directory that is missing, truncated, altered or of another version."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RowProblem:
    """One broken rule in one row of a table."""

    row: int
    run_id: str
    column: str
    rule: str
    value: str

    def __str__(self) -> str:
        return f"row {self.row} ({self.run_id}): `{self.column}` {self.rule}, got {self.value}"


class TableError(SurrogateError):
    """A table with bad rows; all of them are listed at once."""

    def __init__(self, where: str, problems: Sequence[RowProblem]) -> None:
        self.where, self.problems = where, tuple(problems)
        lines = "\n".join(f"  {problem}" for problem in self.problems)
        super().__init__(f"{where}: {len(self.problems)} problem(s)\n{lines}")
