"""Megatron-Bridge: Megatron lines, each after a `Step Time : 8.57s GPU utilization: ...` line."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import ClassVar, Final

from surrogate.ingest.lines import Line
from surrogate.ingest.numbers import is_known, parse_positive
from surrogate.ingest.readers.megatron import UNIT_S, MegatronReader
from surrogate.ingest.records import Event, Settings, StepRecord
from surrogate.units import TERA


class MegatronBridgeReader(MegatronReader):
    """NVIDIA Megatron-Bridge: Megatron lines, each after a `Step Time : 8.57s GPU utilization: ...` line."""

    name = "megatron-bridge"
    skips_lines = False
    framework = "megatron-bridge"
    needles: ClassVar[tuple[bytes, ...]] = (*MegatronReader.needles, b"Step Time :", b"Step Time:", b"you should see")
    marks: ClassVar[tuple[bytes, ...]] = (b"Step Time :", b"megatron.bridge", b"Megatron-Bridge", b"mtp_1 loss")
    _step_time: Final = re.compile(r"Step Time\s*:\s*([\d.]+)\s*(ms|s)\b[^|]*?([\d.]+)\s*(?:MODEL_)?TFLOP/s/GPU")
    _machine: Final = re.compile(r"With (\d+) ([A-Z]{1,2}\d{3})\b")

    def __init__(self) -> None:
        super().__init__()
        self._held: StepRecord | None = None
        self._numbered = False
        self._after_heading = False

    def read(self, line: Line) -> Iterator[Event]:
        """Join the two lines of a step; a `Step Time` without its iteration line is a record by itself."""
        machine = self._machine.search(line.text)
        match = self._step_time.search(line.text)
        if match is not None:
            yield from self.finish()
            self._held = StepRecord(
                time_s=parse_positive(match[1]) * UNIT_S[match[2]],
                flops_per_s=parse_positive(match[3]) * TERA,
                fresh_run=not line.follows or self._after_heading,
            )
            self._after_heading = False
        elif machine is not None or "you should see" in line.text:
            yield from self.finish()
            self._after_heading = True
            if machine is not None:
                yield Settings({"world_size": machine[1], "accelerator": machine[2]})
        else:
            yield from self._joined(super().read(line))

    def _joined(self, events: Iterator[Event]) -> Iterator[Event]:
        for event in events:
            if isinstance(event, StepRecord):
                self._numbered = True
                if self._held is not None and not is_known(event.flops_per_s):
                    event.flops_per_s = self._held.flops_per_s
                self._held = None
            yield event

    def finish(self) -> Iterator[Event]:
        """Yield a held `Step Time` line that no iteration line followed."""
        if self._held is not None and not self._numbered:
            yield self._held
        self._held = None
