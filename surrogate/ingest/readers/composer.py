"""Composer and llm-foundry: a `[batch=10/100]:` line and one indented line per metric."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import ClassVar, Final

from surrogate.ingest.lines import Line
from surrogate.ingest.numbers import is_known, parse_number
from surrogate.ingest.prefixes import parse_clock
from surrogate.ingest.records import Event, Mark, StepRecord
from surrogate.units import GIGA

_HEADER: Final = re.compile(r"\[(?:epoch=\d+(?:/\d+)?\]\[)?batch=(?P<step>\d+)(?:/(?P<total>\d+))?\]")
_METRIC: Final = re.compile(r"\bTrain ([\w/-]+): ([\d.eE+-]+|nan)")
_COARSE_BATCHES_PER_S: Final = 0.05  # below, four printed decimals are off by more than 0.1 %
_EVALUATION: Final = re.compile(r"\[Eval batch=|\bEval ")


class ComposerReader:
    """MosaicML Composer's console logger.

    The rates are means over a window of batches (100 by default), so single slow steps are smoothed. Step time is
    the batch size (ratio of the sample and batch counters) over samples per second; without the counters, one over
    batches per second, unless its four decimals are too coarse.
    """

    name: ClassVar[str] = "llm-foundry"
    framework: ClassVar[str] = "composer-fsdp"
    needles: ClassVar[tuple[bytes, ...]] = (b"batch=", b"Train ")
    marks: ClassVar[tuple[bytes, ...]] = ()

    def __init__(self) -> None:
        self.is_step_line = False
        self._record: StepRecord | None = None
        self._metrics: dict[str, float] = {}

    def read(self, line: Line) -> Iterator[Event]:
        """Collect metrics until the next header."""
        header = _HEADER.search(line.text)
        if header is not None:
            yield from self.finish()
            self._record = StepRecord(
                step=int(header["step"]),
                total=int(header["total"]) if header["total"] else None,
                clock_s=parse_clock(line.text),
            )
        elif _EVALUATION.search(line.text):
            yield from self.finish()
            yield Mark("evaluation")
        self.is_step_line = header is not None or "Train " in line.text
        for metric in _METRIC.finditer(line.text):
            self._metrics[metric[1]] = parse_number(metric[2])

    def finish(self) -> Iterator[Event]:
        """Yield the record whose metrics are complete."""
        record, metrics = self._record, self._metrics
        self._record, self._metrics = None, {}
        if record is None:
            return
        record.tokens_per_s_per_gpu = metrics.get("throughput/device/tokens_per_sec", record.tokens_per_s_per_gpu)
        record.tokens_per_s = metrics.get("throughput/tokens_per_sec", record.tokens_per_s)
        record.samples_per_s = metrics.get("throughput/samples_per_sec", record.samples_per_s)
        record.flops_per_s = metrics.get("throughput/device/flops_per_sec", record.flops_per_s)
        record.mfu = metrics.get("throughput/device/mfu", record.mfu)
        record.consumed_tokens = metrics.get("time/token", record.consumed_tokens)
        for key, kind in (("memory/peak_reserved_mem", "reserved"), ("memory/peak_allocated_mem", "allocated")):
            if key in metrics:
                record.memory_bytes, record.memory_kind = metrics[key] * GIGA, kind  # type: ignore[assignment]
        batches, samples = metrics.get("time/batch"), metrics.get("time/sample")
        if batches and samples and (samples / batches).is_integer():
            record.global_batch_size = samples / batches
        if is_known(record.samples_per_s) and is_known(record.global_batch_size):
            record.time_s = record.global_batch_size / record.samples_per_s
        elif (rate := metrics.get("throughput/batches_per_sec", 0.0)) >= _COARSE_BATCHES_PER_S:
            record.time_s = 1.0 / rate
        record.loss = str(metrics.get("loss/train/total", ""))
        yield record
