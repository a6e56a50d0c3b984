"""Skip step lines that add nothing, by their bytes: other ranks' copies, and most of a million equal steps.

Works only in a settled run. A step number going down is never skipped: the tracker must see where a run ends.
"""

from __future__ import annotations

import re
from typing import Final

from surrogate.ingest.readers.base import LogReader, PatternReader
from surrogate.ingest.records import StepRecord
from surrogate.ingest.run_data import RunLogData
from surrogate.ingest.tracker import RunTracker

_SETTLED_RECORDS: Final = 1000
_RECENT_STEPS: Final = 512


class StepLineFilter:
    """Decides from its bytes whether a line can be skipped.

    Parameters
    ----------
    reader : LogReader
        Only readers that say `skips_lines` are helped.
    tracker : RunTracker
        Told how many records and copies were skipped.
    """

    def __init__(self, reader: LogReader | None, tracker: RunTracker) -> None:
        is_able = isinstance(reader, PatternReader) and reader.skips_lines
        self._pattern = re.compile(reader.start.pattern.encode()) if is_able else None  # type: ignore[union-attr]
        self._tracker = tracker
        self._run: RunLogData | None = None
        self._recent: dict[int, None] = {}
        self._last = 0
        self._count = 0

    @property
    def is_active(self) -> bool:
        """Whether the current run is long enough; to be asked once a block."""
        run = self._tracker.current
        if self._pattern is None or run is None or run.num_records < _SETTLED_RECORDS:
            return False
        if run is not self._run:
            self._run = run
            self._recent = dict.fromkeys(run.recent)
            self._last = run.last.step or 0 if run.last is not None else 0
        return True

    def skips(self, block: bytes, start: int, end: int) -> bool:
        """Whether the line `block[start:end]` adds nothing."""
        run, pattern = self._run, self._pattern
        match = pattern.search(block, start, end) if pattern is not None else None
        if match is None or run is None or run is not self._tracker.current:
            return False
        step = int(match["step"])
        if step in self._recent:
            run.copies += 1
            return True
        if step < self._last or run.last is None:
            self._recent, self._last = {}, step
            return False
        previous, self._last = self._last, step
        self._recent[step] = None
        if len(self._recent) > _RECENT_STEPS:
            del self._recent[next(iter(self._recent))]
        self._count += 1
        if run.stride > 1 and self._count % run.stride:
            run.num_records += 1
            return True
        if run.last.step is not None and run.last.step < previous:
            run.last = StepRecord(step=previous, total=run.last.total, tag=run.last.tag)
        run.keeps_next = True
        return False
