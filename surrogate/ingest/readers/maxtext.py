"""MaxText's `completed step: 9, seconds: 5.667, TFLOP/s/device: ...` lines."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import ClassVar, Final

from surrogate.ingest.lines import Line
from surrogate.ingest.numbers import is_known, parse_positive
from surrogate.ingest.readers.base import Field, PatternReader, field
from surrogate.ingest.records import Event, Mark, StepRecord
from surrogate.units import TERA


class MaxTextReader(PatternReader):
    """Google MaxText."""

    name = "maxtext"
    skips_lines = True
    framework = "maxtext"
    needles: ClassVar[tuple[bytes, ...]] = (b"completed step: ", b"eval metrics after step", b"checkpoint for step")
    start = re.compile(r"completed step: (?P<step>\d+),")
    loss = re.compile(r"\bloss: ([\d.naif]+)")
    fields: ClassVar[dict[str, Field]] = {
        "time_s": field(r"seconds: ([\d.]+),"),
        "flops_per_s": field(r"TFLOP/s(?:/device)?: ([\d.]+),", TERA),
        "tokens_per_s_per_gpu": field(r"Tokens/s/device: ([\d.]+),"),
        "memory_bytes": field(r"peak_memory: ([\d.]+)"),
    }
    _weights: Final = re.compile(r"total_weights: (\d+)")

    def read(self, line: Line) -> Iterator[Event]:
        """Step records; what is averaged over an evaluation is marked."""
        if "completed step:" not in line.text:
            yield Mark("evaluation" if "eval" in line.text else "checkpoint")
            return
        yield from self.records(line)

    def complete(self, record: StepRecord, piece: str, match: re.Match[str], prefix: str) -> None:
        """Add the tokens of the batch over the time: with tokens per second and device they count the devices."""
        super().complete(record, piece, match, prefix)
        weights = self._weights.search(piece)
        if weights is not None and is_known(record.time_s) and is_known(record.tokens_per_s_per_gpu):
            record.tokens_per_s = parse_positive(weights[1]) / record.time_s
