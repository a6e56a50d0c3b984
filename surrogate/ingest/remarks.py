"""What is said about a run in words: how it was read, and why values are missing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np

from surrogate.ingest.draft import RunDraft
from surrogate.ingest.numbers import is_known
from surrogate.ingest.report import Scalar
from surrogate.ingest.series import Source, column
from surrogate.ingest.steady import SteadyState

FEWEST_RECORDS: Final = 3
"""With fewer timed records nothing can be dropped as warm-up."""

_SOURCE_NOTES: Final[Mapping[Source, str]] = {
    "tokens": "step time from the printed token rate and the tokens of a step",
    "samples": "step time from the printed samples per second and the global batch size",
    "wall": "step time from the spacing of time stamps",
}
_CLOCK_NOTE: Final = "step time from the program's cumulative clock"
_NO_RATE: Final = "no throughput printed"
_MOST_SHOWN: Final = 12


def remark_contradictions(draft: RunDraft, printed: Mapping[str, Scalar], known: Mapping[str, Scalar]) -> None:
    """Say where the log and what is known from outside differ, and which is used."""
    for name in sorted(printed.keys() & known.keys() - {"model_name", "accelerator"}):
        if printed[name] != known[name]:
            used = draft.facts[name]
            draft.note(f"{name}: the log prints {printed[name]}, the plan says {known[name]}; {used} is used")


def remark_source(draft: RunDraft, source: Source) -> None:
    """Say where the step time comes from when it is not printed."""
    if source == "wall" and any(is_known(record.elapsed_s) for record in draft.run.records):
        draft.note(_CLOCK_NOTE)
    elif source in _SOURCE_NOTES:
        draft.note(_SOURCE_NOTES[source])


def remark_steady(draft: RunDraft, steady: SteadyState) -> None:
    """Say what was left out, and what changed during the run."""
    run = draft.run
    timed = int(np.isfinite(draft.times).sum())
    if timed < FEWEST_RECORDS and run.records[0].loss != "summary":
        draft.note(f"only {timed} timed record(s): no warm-up could be dropped" + _cold_words(draft))
    if steady.num_disturbed:
        left_out = f"{steady.num_disturbed} record(s) after an evaluation or checkpoint, or with skipped steps"
        draft.note(f"{left_out}, left out")
    if len(steady.regimes) > 1:
        levels = "; ".join(
            f"steps {run.records[regime.first].step}-{run.records[regime.last].step}: {regime.median:.4g} s"
            for regime in steady.regimes
        )
        draft.note(f"the speed changed for good ({levels}); the level of the longest stretch is reported")
    if len(run.segments) > 1:
        starts = [str(run.records[at].step) for at in run.segments[1:] if at < len(run.records)]
        shown = ", ".join(starts[:_MOST_SHOWN]) + (", ..." if len(starts) > _MOST_SHOWN else "")
        draft.note(f"restarted at step {shown}; each restart's warm-up is dropped")
    _remark_batches(draft)


def _cold_words(draft: RunDraft) -> str:
    first = draft.run.records[0].step
    is_cold = first is not None and first <= 1 and draft.run.num_records == 1
    return ", and it holds the cold first step" if is_cold else ""


def _remark_batches(draft: RunDraft) -> None:
    batches = column(draft.run.records, "global_batch_size")
    sizes = np.unique(batches[np.isfinite(batches)])
    if sizes.size > 1:
        shown = ", ".join(f"{int(size)}" for size in sizes[:_MOST_SHOWN])
        draft.note(f"the global batch size changes ({shown}); {draft.facts['global_batch_size']} is reported")


def explain_missing(draft: RunDraft, tokens_per_s_per_gpu: float, samples_per_s: float) -> None:
    """Give the reason for a step time or token rate that is not there."""
    if not is_known(draft.step_time_s):
        draft.reasons["step_time_s"] = _why_no_time(draft, tokens_per_s_per_gpu, samples_per_s)
    if not is_known(tokens_per_s_per_gpu):
        draft.reasons["tokens_per_s_per_gpu"] = _why_no_tokens(draft)


def _why_no_time(draft: RunDraft, tokens_per_s_per_gpu: float, samples_per_s: float) -> str:
    if not draft.run.records:
        return "no step was logged"
    if is_known(samples_per_s):
        return "samples/s only; step time needs the batch size (global_batch_size)"
    if is_known(tokens_per_s_per_gpu):
        return "tokens/s per accelerator only; step time needs seq_len, global_batch_size and num_gpus"
    if np.isfinite(column(draft.run.records, "tokens_per_s")).any():
        return "tokens/s only; step time needs seq_len and global_batch_size"
    return _NO_RATE


def _why_no_tokens(draft: RunDraft) -> str:
    why_no_time = draft.reasons.get("step_time_s", "not printed")
    if why_no_time == _NO_RATE:
        return _NO_RATE
    is_total_printed = np.isfinite(column(draft.run.records, "tokens_per_s")).any()
    needed = ("num_gpus",) if is_total_printed else ("global_batch_size", "seq_len", "num_gpus")
    lacking = [name for name in needed if name not in draft.facts]
    return f"not printed; needs {', '.join(lacking)}" if lacking else why_no_time
