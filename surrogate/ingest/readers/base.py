"""What a reader of one framework's log is, and the usual way to write one: patterns per field."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
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
    is_step_line : bool
        Whether the line read last told of a step, so that nothing else is looked for in it.
    """

    name: ClassVar[str]
    framework: ClassVar[str]
    needles: ClassVar[tuple[bytes, ...]]
    marks: ClassVar[tuple[bytes, ...]]
    is_step_line: bool

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
    are told apart; `fields` names attributes of :class:`StepRecord`. A record is read in two parts: `opening` reads
    what tells it from others (counter, `primary` value, loss, rank), and only if the tracker then wants it, as more
    than a copy by another rank or one of a million, `complete` reads the other fields.
    """

    name: ClassVar[str] = ""
    framework: ClassVar[str] = ""
    needles: ClassVar[tuple[bytes, ...]] = ()
    marks: ClassVar[tuple[bytes, ...]] = ()
    start: ClassVar[re.Pattern[str]]
    fields: ClassVar[Mapping[str, Field]] = {}
    loss: ClassVar[re.Pattern[str] | None] = None
    primary: ClassVar[str] = "time_s"
    skips_lines: ClassVar[bool] = False
    """Whether lines may be left unread: `start` works on bytes, and no state goes from line to line."""

    def __init__(self) -> None:
        self.wanted: Callable[[StepRecord], bool] = _always
        self.is_step_line = False

    def read(self, line: Line) -> Iterator[Event]:
        """Yield the events of one candidate line."""
        yield from self.records(line)

    def records(self, line: Line) -> Iterator[StepRecord]:
        """Yield the step records of one line."""
        text = line.text
        matches = list(self.start.finditer(text))
        self.is_step_line = bool(matches)
        for index, match in enumerate(matches):
            piece = text if len(matches) == 1 else text[match.start() : self._end(matches, index, text)]
            prefix = text[: match.start()] if index == 0 else ""
            record = self.opening(piece, match, prefix)
            if self.wanted(record):
                self.complete(record, piece, match, prefix)
                yield record

    @staticmethod
    def _end(matches: list[re.Match[str]], index: int, text: str) -> int:
        return matches[index + 1].start() if index + 1 < len(matches) else len(text)

    def finish(self) -> Iterable[Event]:
        """Nothing is held back."""
        return ()

    def opening(self, piece: str, match: re.Match[str], prefix: str) -> StepRecord:
        """Counter, primary value, loss and rank of one piece of a line."""
        record = StepRecord(tag=rank_tag(prefix))
        record.step, record.total = self.counters(match)
        if (primary := self.fields.get(self.primary)) is not None:
            self.put(record, self.primary, primary, piece)
        if self.loss is not None and (loss := self.loss.search(piece)) is not None:
            record.loss = loss[1]
        return record

    def counters(self, match: re.Match[str]) -> tuple[int | None, int | None]:
        """Step and total of a start."""
        named = match.groupdict()
        step, total = named.get("step"), named.get("total")
        return int(step) if step else None, int(total) if total else None

    def complete(self, record: StepRecord, piece: str, match: re.Match[str], prefix: str) -> None:
        """Fill in the other fields."""
        del match
        record.clock_s = parse_clock(prefix)
        for attribute, place in self.fields.items():
            if attribute != self.primary:
                self.put(record, attribute, place, piece)

    @staticmethod
    def put(record: StepRecord, attribute: str, place: Field, piece: str) -> None:
        """Set one attribute when the piece prints it."""
        found = place.pattern.search(piece)
        if found is not None:
            parse = parse_number if attribute in _MAY_BE_ZERO else parse_positive
            setattr(record, attribute, parse(found[1]) * place.scale)


def _always(record: StepRecord) -> bool:
    del record
    return True


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
