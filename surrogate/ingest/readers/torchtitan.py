"""torchtitan's `step: 10  loss: ...  memory: ...  tps: ...  tflops: ...  mfu: ...` lines, coloured or not."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import ClassVar, Final

from surrogate.ingest.lines import Line
from surrogate.ingest.readers.base import Field, PatternReader, field
from surrogate.ingest.records import Event, Mark
from surrogate.units import GIB, TERA

_PERCENT: Final = 0.01


class TorchtitanReader(PatternReader):
    """PyTorch torchtitan: `step: 10 loss: ... memory: 30.99GiB(32.62%) tps: 7,034 tflops: ... mfu: 41.19%`."""

    name = "torchtitan"
    primary = "tokens_per_s_per_gpu"
    skips_lines = True
    framework = "torchtitan"
    needles: ClassVar[tuple[bytes, ...]] = (
        b"tps: ",
        b"wps: ",
        b"validate step:",
        b"Saving the checkpoint",
        b"Saving a",
    )
    start = re.compile(r"(?<!validate )step:\s*(?P<step>\d+)\b(?=.*?[tw]ps:)")  # no \b: colour codes end in "m"
    loss = re.compile(r"loss:\s*([\d.naif-]+)")
    fields: ClassVar[dict[str, Field]] = {
        "tokens_per_s_per_gpu": field(r"\b[tw]ps:\s*([\d,.]+)(?=\s)"),
        "flops_per_s": field(r"tflops:\s*([\d,.]+)", TERA),
        "mfu": field(r"mfu:\s*([\d.]+)%", _PERCENT),
        "memory_bytes": field(r"memory:\s*([\d.]+)GiB", GIB),
        "time_s": field(r"time/end_to_end\(s\):\s*([\d.]+)"),
    }

    def read(self, line: Line) -> Iterator[Event]:
        """Step records, validations and checkpoints."""
        if "validate step:" in line.text:
            yield Mark("evaluation")
        elif "Saving" in line.text:
            yield Mark("checkpoint")
        else:
            for record in self.records(line):
                record.memory_kind = "reserved"
                record.tag = ""  # ranks print the same step at the same second with the same loss
                yield record
