"""What a reader of one framework's log is, and the usual way to write one: patterns per field."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import ClassVar, Final, NamedTuple, Protocol

from surrogate.ingest.lines import Line
from surrogate.ingest.numbers import is_known, parse_number, parse_positive
from surrogate.ingest.prefixes import parse_clock, rank_tag
from surrogate.ingest.records import Event, StepRecord

_MAY_BE_ZERO: Final = frozenset({"skipped", "consumed_samples", "consumed_tokens"})


class LogReader(Protocol):
    """Reader of one format; a new instance reads each file.

    Attributes
    ----------
    name : str
        What `--format` takes.
    framework : str
        What the runs table's `framework` column gets.
    needles : tuple of bytes
        Literal bytes, one of which is in every line the reader wants.
    marks : tuple of bytes
        Bytes of which one must be in the sample of the file for this reader to be detected; empty for no condition.
    """

    name: ClassVar[str]
    framework: ClassVar[str]
    needles: ClassVar[tuple[bytes, ...]]
    marks: ClassVar[tuple[bytes, ...]]

    def read(self, line: Line) -> Iterable[Event]:
        """Events of one candidate line."""
        ...

    def finish(self) -> Iterable[Event]:
        """Events that the end of the file completes."""
        ...


class Field(NamedTuple):
    """Where a value stands in a record, and what it must be multiplied with."""

    pattern: re.Pattern[str]
    scale: float = 1.0


def field(pattern: str, scale: float = 1.0) -> Field:
    """Compile a field: group 1 of `pattern` is the value."""
    return Field(re.compile(pattern), scale)


class PatternReader:
    """A reader whose records sit on one line each.

    `start` finds the beginning of a record (groups `step` and, if printed, `total`), so records joined on one line
    are told apart; `fields` names attributes of :class:`StepRecord`.
    """

    name: ClassVar[str] = ""
    framework: ClassVar[str] = ""
    needles: ClassVar[tuple[bytes, ...]] = ()
    marks: ClassVar[tuple[bytes, ...]] = ()
    start: ClassVar[re.Pattern[str]]
    fields: ClassVar[Mapping[str, Field]] = {}
    loss: ClassVar[re.Pattern[str] | None] = None

    def read(self, line: Line) -> Iterator[Event]:
        """Records of one line."""
        matches = list(self.start.finditer(line.text))
        ends = [match.start() for match in matches[1:]] + [len(line.text)]
        for index, match in enumerate(matches):
            prefix = line.text[: match.start()] if index == 0 else ""
            yield self.record(line.text[match.start() : ends[index]], match, prefix)

    def finish(self) -> Iterable[Event]:
        """Nothing is held back."""
        return ()

    def record(self, piece: str, match: re.Match[str], prefix: str) -> StepRecord:
        """Build the record of one piece of a line."""
        named = match.groupdict()
        record = StepRecord(
            step=int(named["step"]) if named.get("step") else None,
            total=int(named["total"]) if named.get("total") else None,
            clock_s=parse_clock(prefix),
            tag=rank_tag(prefix),
        )
        for attribute, (pattern, scale) in self.fields.items():
            found = pattern.search(piece)
            if found is not None:
                parse = parse_number if attribute in _MAY_BE_ZERO else parse_positive
                setattr(record, attribute, parse(found[1]) * scale)
        if self.loss is not None and (loss := self.loss.search(piece)) is not None:
            record.loss = loss[1]
        return record


def has_throughput(record: StepRecord) -> bool:
    """Whether a record says anything about speed."""
    return any(
        is_known(value)
        for value in (
            record.time_s,
            record.average_time_s,
            record.tokens_per_s_per_gpu,
            record.tokens_per_s,
            record.samples_per_s,
            record.elapsed_s,
        )
    )
