"""Tells the runs of one file apart, and the ranks of one run together.

Rules
-----
* A step number above the last one continues the run.
* A step number already seen is a copy by another rank when the values agree; copies are counted, never added.
* The run's first step again (or an earlier one) with other values, another end of the counter, or a line that says
  so, opens a new run.
* A step back to a number after the run's first one is a restart from a checkpoint: same run, new warm-up.
* Of a run with more records than `_MOST_RECORDS`, every second is kept, then every fourth, and so on.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from surrogate.ingest.numbers import is_known
from surrogate.ingest.records import Mark, Settings, StepRecord

_MOST_RECORDS: Final = 2**13
_MEMORY_SETTLED: Final = 1000  # records after which another rank's copy is not searched for a higher peak
_RECENT_STEPS: Final = 512
_COPY_TOLERANCE: Final = 0.05  # ranks of one step end together
_TAGGED_TOLERANCE: Final = 0.5  # another rank's prefix on the same step needs less proof


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
    disturbance: str = ""
    keeps_next: bool = False

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


def _memory_of(mark: Mark) -> StepRecord:
    return StepRecord(memory_bytes=float(mark.text), memory_kind="allocated")


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


def _agree(one: float, other: float, tolerance: float) -> bool:
    return not (is_known(one) and is_known(other)) or abs(one - other) <= tolerance * max(one, other)


def _is_copy(record: StepRecord, seen: StepRecord) -> bool:
    """Whether two records of one step number are two ranks telling the same."""
    tagged = record.tag != seen.tag
    if not tagged and record.loss != seen.loss:
        return False
    tolerance = _TAGGED_TOLERANCE if tagged else _COPY_TOLERANCE
    pairs = (
        (record.time_s, seen.time_s),
        (record.tokens_per_s_per_gpu, seen.tokens_per_s_per_gpu),
        (record.samples_per_s, seen.samples_per_s),
        (record.elapsed_s, seen.elapsed_s),
    )
    return all(_agree(one, other, tolerance) for one, other in pairs)


class RunTracker:
    """Sorts the events of one file into runs."""

    def __init__(self) -> None:
        self.runs: list[RunLogData] = []
        self._pending: dict[str, str] = {}
        self._pending_marks: list[Mark] = []

    @property
    def current(self) -> RunLogData | None:
        """The run that is being read, if any."""
        return self.runs[-1] if self.runs else None

    def add(self, event: StepRecord | Settings | Mark) -> None:
        """Take the next event of the file."""
        if isinstance(event, StepRecord):
            self._add_record(event)
        elif isinstance(event, Settings):
            self._pending.update(event.values)
        else:
            self._add_mark(event)

    def wants(self, record: StepRecord) -> bool:
        """Whether the rest of a record must be read: not of a rank's copy, nor of what thinning leaves out."""
        run = self.current
        if run is None or run.last is None or record.step is None or run.last.step is None or record.fresh_run:
            return True
        if record.step > run.last.step:
            is_plain = not (self._pending or self._pending_marks or run.disturbance or self._is_other_job(run, record))
            if is_plain and not run.keeps_next and run.num_records % run.stride:
                run.add_uncounted(record)
                return False
            return True
        seen = run.recent.get(record.step)
        if seen is None or run.num_records < _MEMORY_SETTLED or not _is_copy(record, seen):
            return True
        run.copies += 1
        return False

    def finish(self) -> list[RunLogData]:
        """Close the last run and return all of them, merged over ranks."""
        if self.runs:
            self._flush_pending(self.runs[-1])
        elif self._pending or self._pending_marks:
            self._open()
        return _merge_rank_blocks(self.runs)

    def _open(self) -> RunLogData:
        run = RunLogData()
        if self.runs:
            self.runs[-1].recent = {}
        self.runs.append(run)
        self._flush_pending(run)
        return run

    def _flush_pending(self, run: RunLogData) -> None:
        run.settings.update(self._pending)
        for mark in self._pending_marks:
            if mark.kind == "memory":
                run.note_memory(_memory_of(mark))
            else:
                run.marks.append(mark)
        self._pending, self._pending_marks = {}, []

    def _add_mark(self, mark: Mark) -> None:
        run = self.current
        if mark.kind == "oom" or run is None:
            self._pending_marks.append(mark)
        elif mark.kind == "memory":
            run.note_memory(_memory_of(mark))
        elif mark.kind in ("evaluation", "checkpoint"):
            run.disturbance = mark.kind
        elif mark.kind == "restart":
            run.last = run.last_full = None
            if run.records and run.segments[-1] != len(run.records):
                run.segments.append(len(run.records))
        else:
            run.marks.append(mark)

    def _add_record(self, record: StepRecord) -> None:
        run = self.current
        if run is None or record.fresh_run or self._is_other_job(run, record):
            self._open().add(record)
            return
        last_step = run.last.step if run.last is not None else None
        if record.step is not None and last_step is not None and record.step <= last_step:
            self._step_back(run, record)
            return
        self._flush_pending(run)
        run.add(record)

    @staticmethod
    def _is_other_job(run: RunLogData, record: StepRecord) -> bool:
        last = run.last
        return last is not None and None not in (record.total, last.total) and record.total != last.total

    def _step_back(self, run: RunLogData, record: StepRecord) -> None:
        step = record.step if record.step is not None else 0
        seen = run.recent.get(step)
        if seen is not None and _is_copy(record, seen):
            run.copies += 1
            run.tags.add(record.tag)
            run.note_memory(record)
            return
        if run.first_step is None or step <= run.first_step:
            self._open().add(record)
            return
        run.segments.append(len(run.records))
        run.recent = {}
        run.last = run.last_full = None
        self._flush_pending(run)
        run.add(record)


def _same_block(run: RunLogData, other: RunLogData) -> bool:
    """Whether `other` is the log of a second rank of `run`, appended as a block."""
    if not run.records or not other.records or run.records[0].step is None:
        return False
    known = {record.step: record for record in run.records}
    common = [(known[record.step], record) for record in other.records if record.step in known]
    if len(common) < max(2, len(other.records) // 2):
        return False
    same = sum(_is_same_print(one, two) for one, two in common)
    return same >= 0.9 * len(common)


def _is_same_print(one: StepRecord, two: StepRecord) -> bool:
    """Equal up to the last digits: two ranks' clocks agree, two runs' do not."""
    if one.tag != two.tag and is_known(one.clock_s) and is_known(two.clock_s):
        return abs(one.clock_s - two.clock_s) < 1.0 and _is_copy(one, two)
    if one.loss != two.loss:
        return False
    if is_known(one.elapsed_s) and is_known(two.elapsed_s):
        return abs(one.elapsed_s - two.elapsed_s) <= 1.0
    clocks = abs(one.clock_s - two.clock_s) < 1.0
    return clocks and _is_copy(one, two)


def _merge_rank_blocks(runs: list[RunLogData]) -> list[RunLogData]:
    merged: list[RunLogData] = []
    for run in runs:
        owner = next((kept for kept in merged[-64:] if _same_block(kept, run)), None)
        if owner is None:
            merged.append(run)
            continue
        owner.copies += run.num_records
        owner.tags |= run.tags
        owner.marks.extend(run.marks)
        owner.settings = {**run.settings, **owner.settings}
        if not run.peak_memory_bytes <= owner.peak_memory_bytes and is_known(run.peak_memory_bytes):
            owner.peak_memory_bytes, owner.memory_kind = run.peak_memory_bytes, run.memory_kind
    return merged
