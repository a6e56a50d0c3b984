"""nanotron's `iteration: 1 / 10 | ... | elapsed_time_per_iteration_ms: 11.5K | ...` lines."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import ClassVar, Final

from surrogate.ingest.lines import Line
from surrogate.ingest.numbers import parse_positive
from surrogate.ingest.readers.base import Field, PatternReader, field
from surrogate.ingest.records import Event, Mark
from surrogate.units import MIB, MILLI, TERA


class NanotronReader(PatternReader):
    """Hugging Face nanotron: `iteration: 1 / 10 | ... | elapsed_time_per_iteration_ms: 11.5K | ...`."""

    name = "nanotron"
    skips_lines = True
    framework = "nanotron"
    needles: ClassVar[tuple[bytes, ...]] = (
        b"time_per_iteration_ms: ",
        b"Saving checkpoint at",
        b"Peak allocated",
    )
    marks: ClassVar[tuple[bytes, ...]] = (b"tokens_per_sec_per_gpu", b"|DP=")
    start = re.compile(r"iteration: (?P<step>\d+) / (?P<total>\d+) \|")
    loss = re.compile(r"lm_loss: ([\d.naife+-]+)")
    _peak: Final = re.compile(r"Peak allocated:? ([\d.]+)MiB")
    _number: Final = r"([\d.]+(?:e[+-]?\d+)?[KMGBT]?)"
    fields: ClassVar[dict[str, Field]] = {
        "time_s": field(rf"time_per_iteration_ms: {_number}(?=\s*\|)", MILLI),
        "tokens_per_s_per_gpu": field(rf"tokens_per_sec_per_gpu: {_number}(?=\s*\|)"),
        "tokens_per_s": field(rf"tokens_per_sec: {_number}(?=\s*\|)"),
        "flops_per_s": field(rf"model_tflops_per_gpu: {_number}", TERA),
        "global_batch_size": field(r"global_batch_size: ([\d.]+)(?=\s*\|)"),
        "consumed_tokens": field(rf"consumed_tokens: {_number}(?=\s*\|)"),
        "memory_bytes": field(rf"cuda_max_memory_reserved: {_number}"),
    }

    def read(self, line: Line) -> Iterator[Event]:
        """Step records and checkpoints."""
        if (peak := self._peak.search(line.text)) is not None:
            yield Mark("memory", str(parse_positive(peak[1]) * MIB))
            return
        if "Saving checkpoint" in line.text:
            yield Mark("checkpoint")
            return
        for record in self.records(line):
            record.memory_kind = "reserved"
            yield record
