"""What is kept of one run while its log is read: bounded, however long the run."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Final

from surrogate.ingest.numbers import is_known
from surrogate.ingest.records import Mark, StepRecord

_MOST_RECORDS: Final = 2**13
_RECENT_STEPS: Final = 512
_MOST_MARKS: Final = 50


@dataclass(slots=True)
class RunLogData:
    """Everything read of one run.

    Attributes
    ----------
    records : list of StepRecord
        Step records in order, one per step, thinned when there are very many.
    segments : list of int
        Index into `records` of the first record after each (re)start.
    settings : dict of str to str
        Printed configuration, last value wins.
    marks : list of Mark
        Notes and out-of-memory reports.
    tags : set of str
        Prefixes of the ranks that printed.
    """

    records: list[StepRecord] = field(default_factory=list)
    segments: list[int] = field(default_factory=list)
    settings: dict[str, str] = field(default_factory=dict)
    marks: list[Mark] = field(default_factory=list)
    tags: set[str] = field(default_factory=set)
    peak_memory_bytes: float = math.nan
    memory_kind: str = ""
    num_records: int = 0
    copies: int = 0
    stride: int = 1
    last: StepRecord | None = None
    last_full: StepRecord | None = None
    first_step: int | None = None
    recent: dict[int, StepRecord] = field(default_factory=dict)
    index: dict[int | None, StepRecord] = field(default_factory=dict)
    disturbance: str = ""
    keeps_next: bool = False

    def by_step(self) -> dict[int | None, StepRecord]:
        """Return the kept records by step number; to be asked when the run is complete."""
        if not self.index:
            self.index = {record.step: record for record in self.records}
        return self.index

    @property
    def is_out_of_memory(self) -> bool:
        """Whether an out-of-memory report belongs to the run."""
        return any(mark.kind == "oom" for mark in self.marks)

    def note(self, mark: Mark) -> None:
        """Keep a mark once; of very many different ones the first."""
        if mark not in self.marks and len(self.marks) < _MOST_MARKS:
            self.marks.append(mark)

    def note_memory(self, record: StepRecord) -> None:
        """Keep the highest peak over ranks and steps."""
        if is_known(record.memory_bytes) and not record.memory_bytes <= self.peak_memory_bytes:
            self.peak_memory_bytes, self.memory_kind = record.memory_bytes, record.memory_kind

    def add(self, record: StepRecord) -> None:
        """Append a record that belongs to this run and advances it."""
        _complete(record, self.last, self.last_full)
        record.disturbed = record.disturbed or self.disturbance or ("skipped" if record.skipped > 0 else "")
        self.disturbance = ""
        if not self.segments:
            self.segments.append(0)
            self.first_step = record.step
        if self.keeps_next or self.num_records % self.stride == 0:
            self.keeps_next = False
            self.records.append(record)
            if len(self.records) >= _MOST_RECORDS:
                self._thin()
        self.num_records += 1
        self.note_memory(record)
        self._advance(record)
        self.last_full = record

    def add_uncounted(self, record: StepRecord) -> None:
        """Advance by a record that thinning leaves out."""
        self.num_records += 1
        self._advance(record)

    def _advance(self, record: StepRecord) -> None:
        self.tags.add(record.tag)
        self._remember(record)
        self.last = record

    def shrink(self, most_records: int) -> None:
        """Thin a finished run to at most so many records, and forget what only reading needs."""
        self.recent = {}
        while len(self.records) > most_records:
            self._thin()

    def _thin(self) -> None:
        self.records = self.records[::2]
        self.segments = sorted({index // 2 for index in self.segments})
        self.stride *= 2

    def _remember(self, record: StepRecord) -> None:
        if record.step is None:
            return
        self.recent[record.step] = record
        if len(self.recent) > _RECENT_STEPS:
            del self.recent[next(iter(self.recent))]


def _complete(record: StepRecord, before: StepRecord | None, full: StepRecord | None) -> None:
    """Fill the number of steps since the record before, and the clock time per step since the last full one."""
    if before is None or record.step is None or before.step is None or record.step <= before.step:
        record.steps = record.steps or 1
        return
    record.steps = record.steps or record.step - before.step
    if full is None or full.step is None or full.step >= record.step:
        return
    for now, then in ((record.elapsed_s, full.elapsed_s), (record.clock_s, full.clock_s)):
        if now - then > 0 and not is_known(record.wall_s):
            record.wall_s = (now - then) / (record.step - full.step)
