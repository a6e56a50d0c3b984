"""What reading a configuration gives: values, what stays unknown and why, notes; and the builder that gathers them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from surrogate.errors import InputError
from surrogate.ingest.configs.derive import BatchRule, layout_conflict, with_derived
from surrogate.ingest.configs.scalars import Value, as_count, as_flag, as_text, has_opaque, marked_name
from surrogate.plan.values import check_value
from surrogate.schema.columns import COLUMN_BY_NAME


class UnknownSetting(NamedTuple):
    """A setting that the configuration names but does not settle."""

    name: str
    """Canonical column."""
    reason: str
    """Why it is not known, as one clause."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ConfigReport:
    """One configuration file in the terms of the runs table.

    Parameters
    ----------
    format : str
        Name of the reader, one of `CONFIG_FORMATS`.
    values : mapping of str to value
        Canonical runs-table columns (counts are int, flags bool, the rest str or float).
    unknown : tuple of UnknownSetting
        What the file leaves open, each with the reason.
    notes : tuple of str
        What a reader should know: defaults that mattered, files not read, flags without effect.
    defaulted : frozenset of str
        The columns in `values` that are the framework's default and not written in the file.
    derived : frozenset of str
        The columns in `values` that follow from others (accelerators, batch sizes).
    batch_rule : BatchRule
        How batch sizes follow once the number of accelerators is known.
    """

    format: str
    values: Mapping[str, Value]
    unknown: tuple[UnknownSetting, ...] = ()
    notes: tuple[str, ...] = ()
    defaulted: frozenset[str] = frozenset()
    derived: frozenset[str] = frozenset()
    batch_rule: BatchRule = BatchRule()

    def reason(self, column: str) -> str | None:
        """Return why `column` is unknown, or None when nothing is said about it."""
        return next((setting.reason for setting in self.unknown if setting.name == column), None)


@dataclass(kw_only=True, slots=True)
class Draft:
    """A report while it is being read; every `put` of None is ignored, a later `put` wins."""

    values: dict[str, Value] = field(default_factory=dict)
    unknown: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    defaulted: set[str] = field(default_factory=set)
    batch_rule: BatchRule = BatchRule()

    def put(self, column: str, value: Value | None) -> None:
        """Take `value` for `column`; None says nothing, an impossible value is reported as unknown."""
        if value is None:
            return
        try:
            check_value(COLUMN_BY_NAME[column], value)
        except InputError as error:
            self.values.pop(column, None)
            self.ask(column, f"the file says {str(value)[:60]!r}, which {error.rule}")
            return
        self.values[column] = value
        self.unknown.pop(column, None)
        self.defaulted.discard(column)

    def default(self, column: str, value: Value | None) -> None:
        """Take the framework's default for `column` unless the file settles it or leaves it open."""
        if value is not None and column not in self.values and column not in self.unknown:
            self.values[column] = value
            self.defaulted.add(column)

    def ask(self, column: str, reason: str) -> None:
        """Report `column` as unknown unless it is settled."""
        if column not in self.values:
            self.unknown.setdefault(column, reason)

    def note(self, text: str) -> None:
        """Add a note once."""
        if text not in self.notes:
            self.notes.append(text)

    def count(self, column: str, raw: object, *, least: int = 1) -> int | None:
        """Take an integer setting, or report why it cannot be one; return it when known."""
        if as_text(raw) is None:
            return None
        number = as_count(raw, least=least)
        if number is None:
            self.values.pop(column, None)
            self.ask(column, _why_not(raw, "an integer of at least " + str(least)))
        self.put(column, number)
        return number

    def flag(self, column: str, raw: object) -> bool | None:
        """Take a true/false setting, or report why it cannot be one; return it when known."""
        if as_text(raw) is None:
            return None
        truth = as_flag(raw)
        if truth is None:
            self.values.pop(column, None)
            self.ask(column, _why_not(raw, "true or false"))
        self.put(column, truth)
        return truth

    def integer(self, column: str) -> int | None:
        """Return a settled integer column, or None."""
        value = self.values.get(column)
        return value if isinstance(value, int) and not isinstance(value, bool) else None

    def finish(self, format_name: str) -> ConfigReport:
        """Derive what follows from what is known, drop what contradicts itself, and freeze the report."""
        conflict = layout_conflict(self.values)
        if conflict:
            self.values.pop("num_gpus", None)
            self.values.pop("dp", None)
            self.ask("num_gpus", conflict)
        values = with_derived(self.values, self.batch_rule)
        unknown = tuple(UnknownSetting(name, why) for name, why in self.unknown.items() if name not in values)
        return ConfigReport(
            format=format_name,
            values=values,
            unknown=unknown,
            notes=tuple(self.notes),
            defaulted=frozenset(self.defaulted & values.keys()),
            derived=frozenset(values.keys() - self.values.keys()),
            batch_rule=self.batch_rule,
        )


def why_unknown(raw: object) -> str | None:
    """Return why a raw setting has no value here: `auto`, an unset variable, a command; None when it has one."""
    text = as_text(raw) or ""
    if text.lower() == "auto":
        return '"auto": the launcher decides it at run time'
    name = marked_name(text)
    if name is None:
        return None
    return f"`{name}` is known only when the script runs" if has_opaque(text) else f"`{name}` is not set in the file"


def _why_not(raw: object, wanted: str) -> str:
    return why_unknown(raw) or f"the file says {str(raw)[:60]!r}, which is not {wanted}"
