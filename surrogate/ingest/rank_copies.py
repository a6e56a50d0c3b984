"""One step told by several ranks: recognised, so that it counts once."""

from __future__ import annotations

from typing import Final

from surrogate.ingest.numbers import is_known
from surrogate.ingest.records import StepRecord
from surrogate.ingest.run_data import RunLogData

_COPY_TOLERANCE: Final = 0.05  # ranks of one step end together
_TAGGED_TOLERANCE: Final = 0.5  # another rank's prefix on the same step needs less proof
_SAME_MOMENT_S: Final = 1.0
_MOST_COMPARED_RUNS: Final = 64


def _agree(one: float, other: float, tolerance: float) -> bool:
    return not (is_known(one) and is_known(other)) or abs(one - other) <= tolerance * max(one, other)


def is_copy(record: StepRecord, seen: StepRecord) -> bool:
    """Whether two records of one step number are two ranks telling the same."""
    tagged = record.tag != seen.tag
    if not tagged and record.loss != seen.loss and not abs(record.clock_s - seen.clock_s) < _SAME_MOMENT_S:
        return False
    tolerance = _TAGGED_TOLERANCE if tagged else _COPY_TOLERANCE
    pairs = (
        (record.time_s, seen.time_s),
        (record.tokens_per_s_per_gpu, seen.tokens_per_s_per_gpu),
        (record.samples_per_s, seen.samples_per_s),
        (record.elapsed_s, seen.elapsed_s),
    )
    return all(_agree(one, other, tolerance) for one, other in pairs)


def _same_block(run: RunLogData, other: RunLogData) -> bool:
    """Whether `other` is the log of a second rank of `run`, appended as a block."""
    if not run.records or not other.records or run.records[0].step is None:
        return False
    known = run.by_step()
    common = [(known[record.step], record) for record in other.records if record.step in known]
    if len(common) < max(2, min(len(run.records), len(other.records)) // 2):
        return False
    same = sum(_is_same_print(one, two) for one, two in common)
    return same >= 0.9 * len(common)


def _is_same_print(one: StepRecord, two: StepRecord) -> bool:
    """Whether two records are one step: clocks of two ranks agree, those of two runs do not."""
    if is_known(one.clock_s) and is_known(two.clock_s):
        return abs(one.clock_s - two.clock_s) < _SAME_MOMENT_S and is_copy(one, two)
    if one.loss != two.loss:
        return False
    if is_known(one.elapsed_s) and is_known(two.elapsed_s):
        return abs(one.elapsed_s - two.elapsed_s) <= 1.0
    if one.tag and two.tag and one.tag != two.tag:
        return is_copy(one, two)
    return one.time_s == two.time_s and is_copy(one, two)


def repeats_last(record: StepRecord, last: StepRecord) -> bool:
    """Whether a record repeats the step just told, at the same speed: a rank with a loss of its own."""
    return record.step == last.step and is_known(record.time_s) and _agree(record.time_s, last.time_s, _COPY_TOLERANCE)


def merge_rank_blocks(runs: list[RunLogData]) -> list[RunLogData]:
    """Join runs that are one run told by several ranks, block after block."""
    merged: list[RunLogData] = []
    for run in runs:
        owner = next((kept for kept in merged[-_MOST_COMPARED_RUNS:] if _same_block(kept, run)), None)
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
