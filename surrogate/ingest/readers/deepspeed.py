"""DeepSpeed's own lines: `global_step=10, ... CurrSamplesPerSec=171.9, ...` and `steps: 30 ... iter time (s)`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import ClassVar, Final

from surrogate.ingest.lines import Line
from surrogate.ingest.numbers import parse_positive
from surrogate.ingest.readers.base import Field, PatternReader, field
from surrogate.ingest.records import Event, Mark
from surrogate.units import GIB, KIB, TERA


class DeepSpeedReader(PatternReader):
    """Jobs that run DeepSpeed under another trainer or their own loop.

    DeepSpeed's samples per second leave out the time between steps; the spacing of the time stamps does not.
    """

    name = "deepspeed"
    framework = "deepspeed"
    needles: ClassVar[tuple[bytes, ...]] = (
        b"SamplesPerSec=", b"iter time (s):", b"Evaluating", b"Saving model", b"saving checkpoint",
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
    _other: Final = re.compile(r"^(?:\S+: )?(?:\*+ )?(?:Evaluating|Saving model|\[.*saving checkpoint)")

    def read(self, line: Line) -> Iterator[Event]:
        """Step records and what interrupts them."""
        found = False
        for record in self.records(line):
            found = True
            record.memory_kind, record.tag = "allocated", ""  # rank 0 prints
            yield record
        if not found and self._other.search(line.text):
            yield Mark("evaluation" if "Evaluating" in line.text else "checkpoint")


class ColossalAIReader(PatternReader):
    """ColossalAI: `Step time:` lines (also broken by rich), GPT demo lines and the benchmark's summary."""

    name = "colossalai"
    framework = "colossalai"
    needles: ClassVar[tuple[bytes, ...]] = (
        b"tep time: ", b"Throughput: ", b"avg_throughput: ", b"memory usage: ", b"Throughput = ", b"throughput=",
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
    _memory: Final = re.compile(r"[Mm]ax (?:CUDA|cuda|device)? ?memory usage: ([\d.]+) ?(MB|GB)")

    def __init__(self) -> None:
        super().__init__()
        self._count = 0

    def counters(self, match: re.Match[str]) -> tuple[int | None, int | None]:
        """Take the counter of the line or of its progress bar."""
        step = match["step"] or match["bar"]
        return int(step) if step else None, int(match["total"]) if match["total"] else None

    def read(self, line: Line) -> Iterator[Event]:
        """Step records, numbered here when the log does not; memory."""
        memory = self._memory.search(line.text)
        if memory is not None:
            yield Mark("memory", str(parse_positive(memory[1]) * GIB / (KIB if memory[2] == "MB" else 1.0)))
        for record in self.records(line):
            if record.step is None:
                self._count += 1
                record.step = self._count
            record.tag = ""
            yield record
