"""DeepSpeed's own lines: `global_step=10, ... CurrSamplesPerSec=171.9, ...` and `steps: 30 ... iter time (s)`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import ClassVar, Final

from surrogate.ingest.lines import Line
from surrogate.ingest.numbers import parse_positive
from surrogate.ingest.readers.base import Field, PatternReader, field
from surrogate.ingest.records import Event, Mark, Settings, StepRecord
from surrogate.units import GIB, TERA


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
