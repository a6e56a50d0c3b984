"""GPT-NeoX: Megatron lines after `samples/sec`, and DeepSpeed's `steps: ... iter time (s)`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import ClassVar, Final

from surrogate.ingest.lines import Line
from surrogate.ingest.numbers import parse_positive
from surrogate.ingest.readers.base import Field, field
from surrogate.ingest.readers.megatron import MegatronReader
from surrogate.ingest.records import Event, StepRecord
from surrogate.units import TERA


class GPTNeoXReader(MegatronReader):
    """EleutherAI GPT-NeoX: Megatron lines after `samples/sec`, and DeepSpeed's `steps: ... iter time (s)`."""

    name = "gpt-neox"
    skips_lines = False
    framework = "gpt-neox"
    needles: ClassVar[tuple[bytes, ...]] = (*MegatronReader.needles, b"iter time (s):")
    marks: ClassVar[tuple[bytes, ...]] = (b"approx flops per GPU", b"iter time (s):", b"lm_loss", b"NeoXArgs")
    fields: ClassVar[dict[str, Field]] = {
        **MegatronReader.fields,
        "flops_per_s": field(r"approx flops per GPU: ([\d.]+)\s*TFLOPS", TERA),
    }
    _engine: Final = re.compile(
        r"steps: (?P<step>\d+) loss: (?P<loss>[\d.naif]+) iter time \(s\): (?P<time>[\d.]+)"
        r" samples/sec: (?P<rate>[\d.]+)"
    )
    _before: Final = re.compile(r"samples/sec: ([\d.]+) \|\s*$")

    def __init__(self) -> None:
        super().__init__()
        self._held: StepRecord | None = None

    def read(self, line: Line) -> Iterator[Event]:
        """Either kind of step line."""
        if "iter time (s):" not in line.text:
            for event in super().read(line):
                if isinstance(event, StepRecord):  # says all that DeepSpeed's line of the same step says
                    self._held = None
                yield event
            return
        for match in self._engine.finditer(line.text):
            yield from self.finish()
            self._held = StepRecord(
                step=int(match["step"]),
                time_s=parse_positive(match["time"]),
                samples_per_s=parse_positive(match["rate"]),
                loss=match["loss"],
            )

    def finish(self) -> Iterator[Event]:
        """Yield DeepSpeed's line when no Megatron line of the step follows."""
        if self._held is not None:
            yield self._held
        self._held = None

    def complete(self, record: StepRecord, piece: str, match: re.Match[str], prefix: str) -> None:
        """Take the rate that stands before the iteration."""
        super().complete(record, piece, match, prefix)
        before = self._before.search(prefix)
        if before is not None:
            record.samples_per_s = parse_positive(before[1])
