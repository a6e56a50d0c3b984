"""Tells the runs of one file apart, and the ranks of one run together.

Rules
-----
* A step number above the last one continues the run.
* A step number already seen is a copy by another rank when the values agree; copies are counted, never added.
* The run's first step again (or an earlier one) with other values, another end of the counter, or a line that says
  so, opens a new run.
* A step back to a number after the run's first one is a restart from a checkpoint: same run, new warm-up.
* Of a run with very many records every second is kept, then every fourth, and so on.
"""

from __future__ import annotations

from typing import Final

from surrogate.ingest.rank_copies import is_copy, merge_rank_blocks, repeats_last
from surrogate.ingest.records import Mark, Settings, StepRecord
from surrogate.ingest.run_data import RunLogData

_MOST_RUNS: Final = 1000
_RECORDS_OF_ALL_RUNS: Final = 2**14
_FEWEST_KEPT: Final = 64
_SETTINGS_OF_A_JOB: Final = 3  # so many settings printed anew are another job's
_MEMORY_SETTLED: Final = 1000  # records after which another rank's copy is not searched for a higher peak


class RunTracker:
    """Sorts the events of one file into runs."""

    def __init__(self) -> None:
        self.runs: list[RunLogData] = []
        self._pending: dict[str, str] = {}
        self._pending_marks: list[Mark] = []
        self.num_left_out = 0

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
        if seen is None or run.num_records < _MEMORY_SETTLED or not is_copy(record, seen):
            return True
        run.copies += 1
        return False

    def finish(self) -> list[RunLogData]:
        """Close the last run and return all of them, merged over ranks."""
        if self.runs:
            self._flush_pending(self.runs[-1])
        elif self._pending or self._pending_marks:
            self._open()
        return merge_rank_blocks(self.runs)

    def _open(self) -> RunLogData:
        run = RunLogData()
        num_runs = len(self.runs)
        if num_runs >= _MOST_RUNS:
            self.num_left_out += 1
        else:
            is_power_of_two = num_runs & (num_runs - 1) == 0
            for finished in self.runs if is_power_of_two else self.runs[-1:]:
                finished.shrink(max(_RECORDS_OF_ALL_RUNS // num_runs, _FEWEST_KEPT))
            self.runs.append(run)
        self._flush_pending(run)
        return run

    def _flush_pending(self, run: RunLogData) -> None:
        run.settings.update(self._pending)
        for mark in self._pending_marks:
            if mark.kind == "memory":
                run.note_memory(_memory_of(mark))
            else:
                run.note(mark)
        self._pending, self._pending_marks = {}, []

    def _add_mark(self, mark: Mark) -> None:
        if mark.kind == "oom":
            self._add_oom(mark)
            return
        run = self.current
        if run is None:
            self._pending_marks.append(mark)
        elif mark.kind == "memory":
            run.note_memory(_memory_of(mark))
        elif mark.kind in ("evaluation", "checkpoint"):
            run.disturbance = mark.kind
        else:
            run.note(mark)

    def _add_oom(self, mark: Mark) -> None:
        """Blame the job that runs: the one whose configuration was printed last, else the current run."""
        run = self.current
        is_new_job = len(self._pending) >= _SETTINGS_OF_A_JOB
        if run is None or (is_new_job and run.last is not None) or (is_new_job and run.is_out_of_memory):
            run = self._open()
        run.note(mark)

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
        if run.is_out_of_memory and not run.records:
            return True
        return last is not None and None not in (record.total, last.total) and record.total != last.total

    def _step_back(self, run: RunLogData, record: StepRecord) -> None:
        step = record.step if record.step is not None else 0
        seen = run.recent.get(step)
        if seen is not None and is_copy(record, seen):
            run.copies += 1
            run.tags.add(record.tag)
            run.note_memory(record)
            return
        if run.first_step is None or step <= run.first_step:
            self._open().add(record)
            return
        if run.last is not None and repeats_last(record, run.last):
            run.copies += 1
            return
        run.segments.append(len(run.records))
        run.recent = {}
        run.last = run.last_full = None
        self._flush_pending(run)
        run.add(record)


def _memory_of(mark: Mark) -> StepRecord:
    return StepRecord(memory_bytes=float(mark.text), memory_kind="allocated")
