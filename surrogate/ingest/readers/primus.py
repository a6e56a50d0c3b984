"""Primus: Megatron lines with `last/average` pairs, memory, and records that wrap over two lines."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from surrogate.ingest.lines import Line
from surrogate.ingest.numbers import parse_positive
from surrogate.ingest.readers.base import Field, field
from surrogate.ingest.readers.megatron import MegatronReader
from surrogate.ingest.records import Event, StepRecord
from surrogate.units import GIB


class PrimusReader(MegatronReader):
    """AMD Primus: `last/average` pairs, memory in the line, records that wrap over two lines.

    The memory is what the device has in use, so the allocator's reserve and the context.
    """

    name = "primus"
    skips_lines = False
    framework = "primus-megatron"
    needles: ClassVar[tuple[bytes, ...]] = (*MegatronReader.needles, b"okens per GPU (", b"tokens/s/GPU")
    marks: ClassVar[tuple[bytes, ...]] = (b"(tokens/s/GPU)", b"tokens/s/GPU", b"hip mem usage", b"rank-")
    fields: ClassVar[dict[str, Field]] = {
        **MegatronReader.fields,
        "memory_bytes": field(r"(?:hip|rocm) mem usage/free/total/usage_ratio: ([\d.]+)GB", GIB),
    }

    def __init__(self) -> None:
        super().__init__()
        self._held: StepRecord | None = None

    def read(self, line: Line) -> Iterator[Event]:
        """Hold each record until the next line shows whether it goes on there."""
        if self._held is not None and line.follows and not self.start.search(line.text):
            for attribute, (pattern, scale) in self.fields.items():
                found = pattern.search(line.text)
                if found is not None and attribute != "memory_bytes":
                    setattr(self._held, attribute, parse_positive(found[1]) * scale)
            loss = self.loss.search(line.text)
            self._held.loss = loss[1] if loss else self._held.loss
        for event in super().read(line):
            if not isinstance(event, StepRecord):
                yield event
                continue
            yield from self.finish()
            event.memory_kind = "reserved"
            self._held = event

    def finish(self) -> Iterator[Event]:
        """Yield the record held back."""
        if self._held is not None:
            yield self._held
        self._held = None
