"""DeepSpeed's own lines: `global_step=10, ... CurrSamplesPerSec=171.9, ...` and `steps: 30 ... iter time (s)`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import ClassVar, Final

from surrogate.ingest.lines import Line
from surrogate.ingest.numbers import NAN, is_known, parse_positive
from surrogate.ingest.readers.base import Field, PatternReader, field
from surrogate.ingest.records import Event, Mark, Settings, StepRecord
from surrogate.units import GIB, KIB, TERA


class DeepSpeedReader(PatternReader):
    """Jobs that run DeepSpeed under another trainer or their own loop.

    DeepSpeed's samples per second leave out the time between steps; the spacing of the time stamps does not.
    """

    name = "deepspeed"
    framework = "deepspeed"
    needles: ClassVar[tuple[bytes, ...]] = (
        b"SamplesPerSec=", b"Samples/sec: ", b"iter time (s):", b"Evaluating", b"Saving model", b"saving checkpoint",
    )  # fmt: skip
    start = re.compile(
        r"(?:epoch=\d+/micro_step=\d+/global_step=|steps: |\b\d+/)(?P<step>\d+)"
        r"(?:, (?=\w*SamplesPerSec)| (?=loss: \S+ iter time))"
    )
    loss = re.compile(r" loss: (\S+)")
    fields: ClassVar[dict[str, Field]] = {
        "samples_per_s": field(r"(?:CurrSamplesPerSec=|samples/sec: |, SamplesPerSec=)([\d.]+)"),
        "time_s": field(r"iter time \(s\): ([\d.]+)"),
        "memory_bytes": field(r"MaxMemAllocated=([\d.]+)\s*GB", GIB),  # DeepSpeed's GB are GiB
    }
    _chat: Final = re.compile(
        r"Latency: (?P<time>[\d.]+)s, TFLOPs: (?P<flops>[\d.]+), Samples/sec: (?P<rate>[\d.]+), .*?"
        r"Batch Size: (?P<batch>\d+), Sequence Length: (?P<seq>\d+)"
    )
    _other: Final = re.compile(r"^(?:\S+: )?(?:\*+ )?(?:Evaluating|Saving model|\[.*saving checkpoint)")

    def read(self, line: Line) -> Iterator[Event]:
        """Step records and what interrupts them."""
        if (chat := self._chat.search(line.text)) is not None:
            yield from self._chat_step(chat)
            return
        found = False
        for record in self.records(line):
            found = True
            record.memory_kind, record.tag = "allocated", ""  # rank 0 prints
            yield record
        if not found and self._other.search(line.text):
            yield Mark("evaluation" if "Evaluating" in line.text else "checkpoint")

    @staticmethod
    def _chat_step(match: re.Match[str]) -> Iterator[Event]:
        """Read DeepSpeed-Chat's line: its rate has more digits than its latency."""
        yield Settings({"seq_length": match["seq"], "global_batch_size": match["batch"]})
        yield StepRecord(
            samples_per_s=parse_positive(match["rate"]),
            time_s=parse_positive(match["batch"]) / parse_positive(match["rate"]),
            flops_per_s=parse_positive(match["flops"]) * TERA,
            global_batch_size=parse_positive(match["batch"]),
        )


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
