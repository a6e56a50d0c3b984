"""From what was read of one run to its :class:`LogRun`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from surrogate.ingest.facts import columns_of, counted_facts, number, size_of_step
from surrogate.ingest.inferred import infer_batch, infer_gpus
from surrogate.ingest.numbers import NAN, is_known
from surrogate.ingest.records import StepRecord
from surrogate.ingest.report import LogRegime, LogRun, Scalar
from surrogate.ingest.series import Source, column, median_where, steady_of, steady_rate, step_times
from surrogate.ingest.steady import BoolArray, FloatArray, SteadyState
from surrogate.ingest.tracker import RunLogData

_ENOUGH_RECORDS: Final = 3
_SOURCE_NOTES: Final[dict[Source, str]] = {
    "tokens": "step time from the printed token rate and the tokens of a step",
    "samples": "step time from the printed samples per second and the global batch size",
    "wall": "step time from the spacing of time stamps",
}
_CLOCK_NOTE: Final = "step time from the program's cumulative clock"
_NO_RATE: Final = "no throughput printed"
_DISAGREEMENT: Final = 0.05


@dataclass(slots=True)
class _Draft:
    """A run while it is being summarised."""

    run: RunLogData
    facts: dict[str, Scalar]
    notes: list[str] = field(default_factory=list)
    reasons: dict[str, str] = field(default_factory=dict)
    source: Source | str = ""
    times: FloatArray = field(default_factory=lambda: np.empty(0))
    steady: SteadyState | None = None

    def note(self, text: str) -> None:
        if text not in self.notes:
            self.notes.append(text)


def summarise_run(
    run: RunLogData, *, format_name: str, framework: str, known: Mapping[str, Scalar], counts: Mapping[str, Scalar]
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
    counts : mapping
        Columns of the run before in the same file, for what a restarted job does not print again.
    """
    printed = columns_of(run.settings)
    counted = counted_facts(run)
    draft = _Draft(run, {**({} if printed else counts), **printed, **known, **_batch_of_steps(counted)})
    if counts and not printed:
        draft.note("the configuration was printed before the first run of the file")
    for name, value in counted.items():
        draft.facts.setdefault(name, value)
    _note_contradictions(draft, {**printed, **counted}, known)
    for mark in run.marks:
        if mark.kind == "note":
            draft.note(mark.text)
    _estimate(draft)
    return _finish(draft, format_name, framework)


def _batch_of_steps(counted: Mapping[str, Scalar]) -> dict[str, Scalar]:
    """The batch size that the step lines print is what ran, whatever was planned."""
    return {name: value for name, value in counted.items() if name == "global_batch_size"}


def _note_contradictions(draft: _Draft, printed: Mapping[str, Scalar], known: Mapping[str, Scalar]) -> None:
    for name in sorted(printed.keys() & known.keys()):
        if printed[name] != known[name] and name not in ("model_name", "accelerator"):
            used = draft.facts[name]
            draft.note(f"{name}: the log prints {printed[name]}, the plan says {known[name]}; {used} is used")


def _estimate(draft: _Draft) -> None:
    """Find the series, its steady state, and the whole numbers that follow."""
    run = draft.run
    if not run.records:
        return
    found = step_times(run, size_of_step(draft.facts, draft.run.settings))
    if found is not None:
        draft.source, times = found
        draft.times = np.where(_is_other_batch(draft), np.nan, times)
        draft.steady = steady_of(run, draft.times)
        is_clock = draft.source == "wall" and any(is_known(record.elapsed_s) for record in run.records)
        if draft.source in _SOURCE_NOTES:
            draft.note(_CLOCK_NOTE if is_clock else _SOURCE_NOTES[found[0]])
        _describe_steady(draft, draft.steady)
    _infer_counts(draft)


def _is_other_batch(draft: _Draft) -> BoolArray:
    """Records of another batch size than the reported one: a ramp-up is a change of configuration."""
    batches = column(draft.run.records, "global_batch_size")
    return np.isfinite(batches) & (batches != number(draft.facts, "global_batch_size"))


def _infer_counts(draft: _Draft) -> None:
    run, steady = draft.run, draft.steady
    if steady is None or not is_known(steady.median):
        return
    samples = median_where(column(run.records, "samples_per_s"), steady.used)
    batch = infer_batch(run, draft.facts, steady.median, samples)
    if batch is not None:
        draft.facts["global_batch_size"] = batch
        draft.note(f"global_batch_size {batch} follows from {samples:.4g} samples/s and {steady.median:.4g} s a step")
    per_gpu = median_where(column(run.records, "tokens_per_s_per_gpu"), steady.used)
    gpus = infer_gpus(run, draft.facts, per_gpu)
    if gpus is not None:
        draft.facts["num_gpus"] = gpus
        draft.note(f"num_gpus {gpus} follows from the printed rates and batch sizes")


def _describe_steady(draft: _Draft, steady: SteadyState) -> None:
    run = draft.run
    timed = int(np.isfinite(draft.times).sum())
    if timed < _ENOUGH_RECORDS and run.records[0].loss != "summary":
        draft.note(f"only {timed} timed record(s): no warm-up could be dropped" + _cold_words(run))
    if steady.num_disturbed:
        draft.note(
            f"{steady.num_disturbed} record(s) after an evaluation or checkpoint, or with skipped steps, left out"
        )
    if len(steady.regimes) > 1:
        levels = "; ".join(
            f"steps {run.records[regime.first].step}-{run.records[regime.last].step}: {regime.median:.4g} s"
            for regime in steady.regimes
        )
        draft.note(f"the speed changed for good ({levels}); the longest stretch is reported")
    if len(run.segments) > 1:
        starts = ", ".join(str(run.records[at].step) for at in run.segments[1:] if at < len(run.records))
        draft.note(f"restarted at step {starts}; each restart's warm-up is dropped")
    _note_batches(draft)


def _cold_words(run: RunLogData) -> str:
    first = run.records[0].step
    return ", and it holds the cold first step" if first is not None and first <= 1 and run.num_records == 1 else ""


def _note_batches(draft: _Draft) -> None:
    """A batch size that grows during the run is a change of configuration: keep the most frequent one."""
    batches = column(draft.run.records, "global_batch_size")
    sizes = np.unique(batches[np.isfinite(batches)])
    if sizes.size > 1:
        shown = ", ".join(f"{int(size)}" for size in sizes[:12])
        draft.note(f"the global batch size changes ({shown}); {draft.facts['global_batch_size']} is reported")


def _finish(draft: _Draft, format_name: str, framework: str) -> LogRun:
    run, steady = draft.run, draft.steady
    records = run.records
    used = steady.used if steady is not None else np.ones(len(records), dtype=bool)
    step_time_s = steady.median if steady is not None else NAN
    status = _status(draft)
    tokens = _token_rate(draft, step_time_s, used)
    samples = _sample_rate(draft, step_time_s, used)
    _explain(draft, step_time_s, tokens, samples)
    measured = status == "ok"
    return LogRun(
        format=format_name,
        framework=framework,
        framework_version=_versions(run.settings),
        status=status,
        step_time_s=step_time_s if measured else NAN,
        step_time_p95_s=steady.p95 if steady is not None and measured else NAN,
        step_time_cv=steady.cv if steady is not None and measured else NAN,
        n_steps=_steps_used(records, used, run.stride) if measured and records else 0,
        n_records=run.num_records,
        n_dropped=steady.num_warm_up if steady is not None else 0,
        tokens_per_s_per_gpu=tokens if measured else NAN,
        samples_per_s=samples if measured else NAN,
        achieved_flops_per_s=median_where(column(records, "flops_per_s"), used) if measured else NAN,
        mfu=median_where(column(records, "mfu"), used) if measured else NAN,
        peak_memory_bytes=run.peak_memory_bytes,
        peak_memory_kind=run.memory_kind if is_known(run.peak_memory_bytes) else "",
        step_time_from=str(draft.source),
        first_step=records[0].step if records else None,
        last_step=records[-1].step if records else None,
        first_clock_s=next((record.clock_s for record in records if is_known(record.clock_s)), NAN),
        num_rank_copies=run.copies,
        regimes=_regimes(draft),
        settings=draft.facts,
        reasons=draft.reasons,
        notes=tuple(draft.notes),
    )


def _status(draft: _Draft) -> str:
    """Out of memory when the report comes before a steady state."""
    ooms = [mark.text for mark in draft.run.marks if mark.kind == "oom"]
    if not ooms:
        return "ok"
    if draft.run.num_records >= _ENOUGH_RECORDS:
        draft.note(f"went out of memory later ({ooms[0]}): the steps before count as measured")
        return "ok"
    draft.note(ooms[0] if ooms[0].startswith("out of") else f"out of memory: {ooms[0]}")
    return "oom"


def _steps_used(records: list[StepRecord], used: BoolArray, stride: int) -> int:
    """Optimizer steps behind the records that count; a gap in an excerpt is not a long record."""
    steps = np.array([record.steps for record in records])[used]
    return int(np.minimum(steps, np.median(steps)).sum()) * stride if steps.size else 0


def _token_rate(draft: _Draft, step_time_s: float, used: BoolArray) -> float:
    """Tokens per second and accelerator: printed, else from the step time and the size of a step."""
    records = draft.run.records
    printed = column(records, "tokens_per_s_per_gpu")
    size = size_of_step(draft.facts, draft.run.settings)
    if np.isfinite(printed).any():
        if draft.steady is None:
            rate = steady_rate(draft.run, "tokens_per_s_per_gpu")
            return rate[0] if rate else NAN
        return median_where(printed, used)
    if is_known(size.tokens_per_gpu) and is_known(step_time_s):
        return size.tokens_per_gpu / step_time_s
    whole = median_where(column(records, "tokens_per_s"), used)
    gpus = number(draft.facts, "num_gpus")
    if is_known(whole) and is_known(gpus):
        return whole / gpus
    samples = median_where(column(records, "samples_per_s"), used)
    rate_per_gpu = samples * number(draft.facts, "seq_len") / gpus
    return rate_per_gpu if is_known(rate_per_gpu) else NAN


def _sample_rate(draft: _Draft, step_time_s: float, used: BoolArray) -> float:
    records = draft.run.records
    size = size_of_step(draft.facts, draft.run.settings)
    printed = column(records, "samples_per_s")
    if is_known(size.samples) and is_known(step_time_s):
        rate = size.samples / step_time_s
        shown = median_where(printed, used)
        if is_known(shown) and abs(shown / rate - 1) > _DISAGREEMENT:
            draft.note(f"the log prints {shown:.4g} samples/s, batch over step time gives {rate:.4g}")
        return rate
    if draft.steady is None and np.isfinite(printed).any():
        found = steady_rate(draft.run, "samples_per_s")
        return found[0] if found else NAN
    return median_where(printed, used)


def _explain(draft: _Draft, step_time_s: float, tokens: float, samples: float) -> None:
    """Give the reason for every measured value that is not there."""
    if draft.run.marks and _has_oom(draft.run) and not draft.run.records:
        return
    if not is_known(step_time_s):
        if not draft.run.records:
            why = "no step was logged"
        elif is_known(samples):
            why = "samples/s only; step time needs the batch size (global_batch_size)"
        elif is_known(tokens):
            why = "tokens/s per accelerator only; step time needs seq_len, global_batch_size and num_gpus"
        else:
            why = _NO_RATE
        draft.reasons["step_time_s"] = why
    if not is_known(tokens):
        if draft.reasons.get("step_time_s") == _NO_RATE:
            draft.reasons["tokens_per_s_per_gpu"] = _NO_RATE
            return
        needed = ("global_batch_size", "seq_len", "num_gpus")
        if is_known(median_where(column(draft.run.records, "tokens_per_s"), np.ones(len(draft.run.records), bool))):
            needed = ("num_gpus",)
        lacking = [name for name in needed if name not in draft.facts]
        draft.reasons["tokens_per_s_per_gpu"] = (
            f"not printed; needs {', '.join(lacking)}" if lacking else draft.reasons.get("step_time_s", "not printed")
        )


def _has_oom(run: RunLogData) -> bool:
    return any(mark.kind == "oom" for mark in run.marks)


def _regimes(draft: _Draft) -> tuple[LogRegime, ...]:
    if draft.steady is None:
        return ()
    records = draft.run.records
    return tuple(
        LogRegime(first_step=records[regime.first].step, last_step=records[regime.last].step, step_time_s=regime.median)
        for regime in draft.steady.regimes
    )


def _versions(settings: Mapping[str, str]) -> str:
    return ", ".join(f"{key.removeprefix('version ')} {value}" for key, value in settings.items()
                     if key.startswith("version "))  # fmt: skip
