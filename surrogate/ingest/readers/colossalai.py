"""ColossalAI: `Step time:` lines, GPT demo lines, trainer bars and the benchmark's summary."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import ClassVar, Final

from surrogate.ingest.lines import Line
from surrogate.ingest.numbers import NAN, is_known, parse_positive
from surrogate.ingest.readers.base import Field, PatternReader, field
from surrogate.ingest.records import Event, Mark, Settings, StepRecord
from surrogate.units import GIB, KIB, TERA


class ColossalAIReader(PatternReader):
    """ColossalAI: `Step time:` lines (also broken by rich), GPT demo lines and the benchmark's summary."""

    name = "colossalai"
    framework = "colossalai"
    needles: ClassVar[tuple[bytes, ...]] = (
        b"tep time: ", b"Throughput: ", b"num_samples: ", b"batch_size=", b"memory usage: ", b"Throughput = ",
        b"throughput=",
    )  # fmt: skip
    start = re.compile(
        r"(?:\[(?P<step>\d+)/(?P<total>\d+)\] ?Loss:.*?)?\b[Ss]tep time: (?=[\d.])|"
        r"(?:loss: ?(?P<loss>[\d.]+), )?\bThroughput(?:: | = )(?=[\d.]+ sample)|"
        r"\|\s*(?P<bar>\d+)/\d+ \[[^\]]*?throughput=(?=[\d.]+ ?sample)"
    )
    loss = re.compile(r"Loss: ?([\d.naif]+)")
    fields: ClassVar[dict[str, Field]] = {
        "time_s": field(r"[Ss]tep time: ([\d.]+)"),
        "flops_per_s": field(r"(?:, TFLOPS: |TFLOPS per GPU: )([\d.]+)", TERA),
        "samples_per_s": field(r"[Tt]hroughput(?:: | = |=)([\d.]+) ?sample"),
        "tokens_per_s_per_gpu": field(r"tokens_per_second_per_device: ([\d.]+)"),
    }
    _batch: Final = re.compile(r"Namespace\(.*?\bbatch_size=(\d+)")
    _length: Final = re.compile(r"\bmax_length=(\d+)")
    _duration: Final = re.compile(
        r"num_samples: (?P<samples>\d+),.*? dp_world_size: (?P<dp>\d+),.*?avg_duration: (?P<duration>[\d.]+)"
    )
    _memory: Final = re.compile(r"[Mm]ax (?:CUDA|cuda|device)? ?memory usage: ([\d.]+) ?(MB|GB)")

    def __init__(self) -> None:
        super().__init__()
        self._count = 0
        self._batch_size = NAN

    def counters(self, match: re.Match[str]) -> tuple[int | None, int | None]:
        """Take the counter of the line or of its progress bar."""
        step = match["step"] or match["bar"]
        return int(step) if step else None, int(match["total"]) if match["total"] else None

    def read(self, line: Line) -> Iterator[Event]:
        """Step records, numbered here when the log does not; memory."""
        memory = self._memory.search(line.text)
        if memory is not None:
            yield Mark("memory", str(parse_positive(memory[1]) * GIB / (KIB if memory[2] == "MB" else 1.0)))
        if (batch := self._batch.search(line.text)) is not None:
            self._batch_size = parse_positive(batch[1])
            length = self._length.search(line.text)
            yield from [Settings({"seq_length": length[1]})] if length is not None else []
        if (summary := self._duration.search(line.text)) is not None:
            yield from self._summary(summary)
        for record in self.records(line):
            if record.step is None:
                self._count += 1
                record.step = self._count
            record.tag = ""
            yield record

    def _summary(self, match: re.Match[str]) -> Iterator[Event]:
        """Read the benchmark's end: samples of one data-parallel rank, and the mean duration of all of them."""
        steps = parse_positive(match["samples"]) / self._batch_size
        if not is_known(steps) or self._count:  # single steps were printed: they say more than their mean
            return
        self._count = round(steps)
        batch = round(self._batch_size) * int(match["dp"])
        yield Settings({"global_batch_size": str(batch), "data_parallel_size": match["dp"]})
        yield StepRecord(
            step=self._count, steps=self._count, time_s=parse_positive(match["duration"]) / steps, loss="summary"
        )
