"""From what was read of one run to its :class:`LogRun`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from surrogate.ingest.draft import RunDraft
from surrogate.ingest.facts import columns_of, counted_facts, number
from surrogate.ingest.inferred import infer_batch, infer_gpus
from surrogate.ingest.numbers import NAN, is_known
from surrogate.ingest.rates import sample_rate, token_rate
from surrogate.ingest.remarks import (
    FEWEST_RECORDS,
    explain_missing,
    remark_contradictions,
    remark_source,
    remark_steady,
)
from surrogate.ingest.report import LogRegime, LogRun, Scalar
from surrogate.ingest.run_data import RunLogData
from surrogate.ingest.series import column, median_where, steady_of, step_times
from surrogate.ingest.steady import BoolArray


def summarise_run(
    run: RunLogData, *, format_name: str, framework: str, known: Mapping[str, Scalar], before: Mapping[str, Scalar]
) -> LogRun:
    """Summarise one run.

    Parameters
    ----------
    run : RunLogData
        Records, settings and marks.
    format_name, framework : str
        Of the reader.
    known : mapping
        Runs-table columns given from outside (a plan); they win over printed settings.
    before : mapping
        Columns of the run before in the same file, for what a second run does not print again.
    """
    printed = columns_of(run.settings)
    counted = counted_facts(run)
    inherited = {} if printed else before
    of_steps = {name: value for name, value in counted.items() if name == "global_batch_size"}
    draft = RunDraft(run, {**counted, **inherited, **printed, **known, **of_steps})
    if inherited:
        draft.note("the configuration was printed before an earlier run of the file")
    remark_contradictions(draft, {**printed, **counted}, known)
    for mark in run.marks:
        if mark.kind == "note":
            draft.note(mark.text)
    if run.records:
        _estimate(draft)
        _infer_counts(draft)
    return _finish(draft, format_name, framework)


def _estimate(draft: RunDraft) -> None:
    """Find the series of step times and its steady state."""
    found = step_times(draft.run, draft.size)
    if found is None:
        return
    draft.source, times = found
    draft.times = np.where(_is_other_batch(draft), np.nan, times)
    draft.steady = steady_of(draft.run, draft.times)
    remark_source(draft, draft.source)
    remark_steady(draft, draft.steady)


def _is_other_batch(draft: RunDraft) -> BoolArray:
    """Mark records of another batch size than the reported one: a ramp-up is a change of configuration."""
    batches = column(draft.run.records, "global_batch_size")
    is_other: BoolArray = np.isfinite(batches) & (batches != number(draft.facts, "global_batch_size"))
    return is_other


def _infer_counts(draft: RunDraft) -> None:
    """Add the whole numbers that follow from printed figures."""
    run, step_time_s = draft.run, draft.step_time_s
    if not is_known(step_time_s):
        return
    samples_per_s = median_where(column(run.records, "samples_per_s"), draft.used)
    batch = infer_batch(run, draft.facts, step_time_s, samples_per_s)
    if batch is not None:
        draft.facts["global_batch_size"] = batch
        draft.note(
            f"global_batch_size {batch} follows from {samples_per_s:.4g} samples/s and {step_time_s:.4g} s a step"
        )
    gpus = infer_gpus(run, draft.facts, median_where(column(run.records, "tokens_per_s_per_gpu"), draft.used))
    if gpus is not None:
        draft.facts["num_gpus"] = gpus
        draft.note(f"num_gpus {gpus} follows from the printed rates and batch sizes")


def _finish(draft: RunDraft, format_name: str, framework: str) -> LogRun:
    run, records = draft.run, draft.run.records
    status = _status(draft)
    summary = LogRun(
        format=format_name,
        framework=framework,
        framework_version=_versions(run.settings),
        status=status,
        n_records=run.num_records,
        peak_memory_bytes=run.peak_memory_bytes,
        peak_memory_kind=run.memory_kind if is_known(run.peak_memory_bytes) else "",
        first_step=records[0].step if records else None,
        last_step=records[-1].step if records else None,
        first_clock_s=next((record.clock_s for record in records if is_known(record.clock_s)), NAN),
        num_rank_copies=run.copies,
        settings=draft.facts,
    )
    if status == "ok":
        summary = _with_measured(summary, draft)
    return replace(summary, reasons=draft.reasons, notes=tuple(draft.notes))


def _with_measured(summary: LogRun, draft: RunDraft) -> LogRun:
    """Add everything that only a run that trained has."""
    records, steady = draft.run.records, draft.steady
    tokens_per_s_per_gpu, samples_per_s = token_rate(draft), sample_rate(draft)
    explain_missing(draft, tokens_per_s_per_gpu, samples_per_s)
    return replace(
        summary,
        step_time_s=draft.step_time_s,
        step_time_p95_s=steady.p95 if steady is not None else NAN,
        step_time_cv=steady.cv if steady is not None else NAN,
        step_time_from=draft.source or "",
        n_steps=_steps_used(draft),
        n_dropped=steady.num_warm_up if steady is not None else 0,
        tokens_per_s_per_gpu=tokens_per_s_per_gpu,
        samples_per_s=samples_per_s,
        achieved_flops_per_s=median_where(column(records, "flops_per_s"), draft.used),
        mfu=median_where(column(records, "mfu"), draft.used),
        regimes=_regimes(draft),
    )


def _status(draft: RunDraft) -> str:
    """Out of memory when the report comes before a steady state."""
    ooms = [mark.text for mark in draft.run.marks if mark.kind == "oom"]
    if not ooms:
        return "ok"
    if draft.run.num_records >= FEWEST_RECORDS:
        draft.note(f"went out of memory later ({ooms[0]}): the steps before count as measured")
        return "ok"
    draft.note(ooms[0] if ooms[0].startswith("out of") else f"out of memory: {ooms[0]}")
    return "oom"


def _steps_used(draft: RunDraft) -> int:
    """Count the optimizer steps behind the records that count; a gap in an excerpt is not a long record."""
    steps = np.array([record.steps for record in draft.run.records], dtype=np.int64)[draft.used]
    return int(np.minimum(steps, np.median(steps)).sum()) * draft.run.stride if steps.size else 0


def _regimes(draft: RunDraft) -> tuple[LogRegime, ...]:
    if draft.steady is None:
        return ()
    records = draft.run.records
    return tuple(
        LogRegime(first_step=records[regime.first].step, last_step=records[regime.last].step, step_time_s=regime.median)
        for regime in draft.steady.regimes
    )


def _versions(settings: Mapping[str, str]) -> str:
    names = [key for key in settings if key.startswith("version ")]
    return ", ".join(f"{key.removeprefix('version ')} {settings[key]}" for key in names)
