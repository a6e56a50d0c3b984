"""Hugging Face Trainer: progress bars and the summary at the end; no step prints its time."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import ClassVar, Final

from surrogate.ingest.lines import Line
from surrogate.ingest.numbers import NAN, is_known, parse_duration, parse_positive
from surrogate.ingest.records import Event, Mark, Settings, StepRecord

_BAR: Final = re.compile(
    r"\|\s*(?P<step>\d+)/(?P<total>\d+) \[(?P<elapsed>(?:\d+:)?\d+:\d+)<[^,\]]*,\s*(?P<rate>[\d.]+)(?P<unit>s/it|it/s)"
)
_JSON_LOG: Final = re.compile(
    r'"current_steps": (?P<step>\d+), "total_steps": (?P<total>\d+).*?"elapsed_time": "(?P<elapsed>[^"]+)"'
)
_RUNTIME: Final = re.compile(r"train_runtime['\"]?\s*[:=]\s*['\"]?((?:\d+ days?, )?[\d.:]+)")
_SUMMARY: Final = re.compile(r"train_(samples|steps|tokens)_per_second['\"]?\s*[:=]\s*['\"]?([\d.]+)")
_EVAL_RUNTIME: Final = re.compile(r"eval_runtime['\"]?\s*[:=]\s*['\"]?([\d.:]+)")
_TOTAL: Final = re.compile(r"Total optimization steps\s*=\s*([\d,]+)")
_HEADER: Final = re.compile(
    r"(Instantaneous batch size per device|Total train batch size \(w\. parallel, distributed & accumulation\)|"
    r"Gradient Accumulation steps|Num examples)\s*=\s*([\d,]+)"
)
_HEADER_KEYS: Final = {
    "Inst": "micro_batch_size", "Tota": "global_batch_size", "Grad": "gradient_accumulation_steps",
}  # fmt: skip
_OTHER_BAR: Final = re.compile(
    r"(?i)load|fetch|generat|\bmap\b|tokeni|filter|process|saving|group|evaluat|validat|convert|quantiz|predict|shards"
)
_MOST_BARS: Final = 2**16


class HFTrainerReader:
    """Hugging Face Trainer.

    With a summary, the step time is `train_runtime` less the printed evaluation time, over the steps: bars round to
    seconds and smooth their rate. Without one, it is read from the bars' elapsed time.
    """

    name: ClassVar[str] = "hf-trainer"
    framework: ClassVar[str] = "hf-trainer"
    needles: ClassVar[tuple[bytes, ...]] = (
        b"s/it", b"it/s", b'"current_steps"', b"train_runtime", b"eval_runtime", b"Total optimization steps",
        b"batch size per device", b"Total train batch size", b"Gradient Accumulation steps", b"_per_second",
    )  # fmt: skip
    marks: ClassVar[tuple[bytes, ...]] = (b"train_runtime", b"Total optimization steps", b"trainer.py")

    def __init__(self) -> None:
        self.is_step_line = False
        self._total: int | None = None
        self._bars: dict[int, dict[int, float]] = {}
        self._eval_s = 0.0
        self._reported = False

    def read(self, line: Line) -> Iterator[Event]:
        """Collect bars; emit a run's records at its summary."""
        self.is_step_line = False
        for bar in (_JSON_LOG if '"current_steps"' in line.text else _BAR).finditer(line.text):
            self.is_step_line = True
            if _OTHER_BAR.search(line.text, 0, bar.start()):
                continue
            self._take_bar(int(bar["step"]), int(bar["total"]), parse_duration(bar["elapsed"]))
        if "ut of memory" in line.text or "OutOfMemory" in line.text:  # what was trained before comes first
            yield from self.finish()
            self._reported = self._reported or bool(self._bars)
        if " = " in line.text:
            yield from self._header(line.text)
        if "_runtime" in line.text:
            yield from self._runtimes(line.text)

    def _header(self, text: str) -> Iterator[Event]:
        """Batch sizes and the number of steps, printed before a run."""
        if (total := _TOTAL.search(text)) is not None:
            yield from self._next_run()
            self._total = int(total[1].replace(",", ""))
        for key, value in _HEADER.findall(text):
            if key[:4] in _HEADER_KEYS:
                yield Settings({_HEADER_KEYS[key[:4]]: value.replace(",", "")})

    def _runtimes(self, text: str) -> Iterator[Event]:
        if (evaluation := _EVAL_RUNTIME.search(text)) is not None:
            self._eval_s += parse_duration(evaluation[1])
        if (runtime := _RUNTIME.search(text)) is not None and not self._reported:
            yield from self._summary(parse_duration(runtime[1]), dict(_SUMMARY.findall(text)))

    def _take_bar(self, step: int, total: int, elapsed_s: float) -> None:
        bars = self._bars.setdefault(total, {})
        if step not in bars and len(bars) < _MOST_BARS:
            bars[step] = elapsed_s

    def _train_bars(self) -> tuple[int | None, dict[int, float]]:
        """Bars of the training loop: the announced total, else the bar that ran longest."""
        if self._total in self._bars:
            return self._total, self._bars[self._total or 0]
        if not self._bars:
            return self._total, {}
        total = max(self._bars, key=lambda key: max(self._bars[key].values()))
        return self._total or total, self._bars[total]

    def _summary(self, runtime_s: float, rates: dict[str, str]) -> Iterator[Event]:
        steps, bars = self._train_bars()
        steps_per_s = parse_positive(rates.get("steps", ""))
        net_s = runtime_s - self._eval_s if self._eval_s < runtime_s else runtime_s
        record = StepRecord(step=max(bars, default=steps), total=steps, loss="summary", steps=steps or 1)
        if steps:
            record.time_s = net_s / steps
        elif is_known(steps_per_s):
            record.time_s = 1.0 / steps_per_s
        record.samples_per_s = parse_positive(rates.get("samples", ""))
        record.tokens_per_s = parse_positive(rates.get("tokens", ""))
        yield record
        yield Mark("note", f"step time is train_runtime {runtime_s:g} s over {steps or 'the printed rate of'} steps"
                   + (f", less {self._eval_s:g} s of evaluation" if self._eval_s else ""))  # fmt: skip
        yield from self._bars_note(record.time_s, bars)
        self._reported = True

    @staticmethod
    def _bars_note(time_s: float, bars: dict[int, float]) -> Iterator[Event]:
        """Say so when the second half of the bars ran at another speed than the whole."""
        steps = sorted(bars)
        if len(steps) < 4:
            return
        middle = steps[len(steps) // 2]
        late_s = (bars[steps[-1]] - bars[middle]) / (steps[-1] - middle)
        if is_known(late_s) and abs(late_s / time_s - 1) > 0.02:
            yield Mark("note", f"the second half by its progress bar ran at {late_s:.4g} s a step")

    def _next_run(self) -> Iterator[Event]:
        """Forget the last run; emit it first if it had no summary."""
        if self._reported or self._total is None:
            if self._reported:
                self._bars, self._eval_s, self._reported = {}, 0.0, False
            return
        _, bars = self._train_bars()
        if len(bars) > 2 and self._total is not None and max(bars) >= self._total:
            yield from self.finish()
            self._bars, self._eval_s, self._reported = {}, 0.0, False

    def finish(self) -> Iterator[Event]:
        """Bars of a run without a summary."""
        if self._reported:
            return
        total, bars = self._train_bars()
        last = -1.0
        for step in sorted(bars):
            if bars[step] >= last:
                last = bars[step]
                yield StepRecord(step=step, total=total, elapsed_s=max(last, 1e-9), loss="bar", time_s=NAN)


class ProgressBarReader(HFTrainerReader):
    """Any trainer of which only a progress bar is known."""

    name: ClassVar[str] = "progress-bar"
    framework: ClassVar[str] = ""
    marks: ClassVar[tuple[bytes, ...]] = ()
