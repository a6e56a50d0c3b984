"""InternEvo's `step=3 loss=... tgs (tokens/gpu/second)=...` lines."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import ClassVar, Final

from surrogate.ingest.lines import Line
from surrogate.ingest.numbers import is_known, parse_number, parse_positive
from surrogate.ingest.prefixes import rank_tag
from surrogate.ingest.readers.base import Field, PatternReader, field
from surrogate.ingest.records import Event, Mark, StepRecord
from surrogate.units import TERA


class InternEvoReader(PatternReader):
    """InternLM InternEvo: `step=3 loss=... tgs (tokens/gpu/second)=1031.73 tgs/last_tgs_1=... tgs/tgs_avg=...`."""

    name = "internevo"
    primary = "tokens_per_s_per_gpu"
    skips_lines = True
    framework = "internevo"
    needles: ClassVar[tuple[bytes, ...]] = (b"tgs (tokens/gpu/second)=", b"tgs/last_tgs_1=", b"Start to evaluate")
    start = re.compile(r"(?:tflops=(?P<tflops>[\d.]+) ?,? ?)?\bstep=(?P<step>\d+)\b")
    loss = re.compile(r"\bloss=([\d.naife+-]+)")
    fields: ClassVar[dict[str, Field]] = {
        "tokens_per_s_per_gpu": field(r"tgs \(tokens/gpu/second\)=([\d.]+)(?=[\s,])"),
        "consumed_tokens": field(r"num_consumed_tokens=(\d+)"),
    }
    _last: Final = re.compile(r"tgs/last_tgs_1=([\d.]+)(?=[\s,])")

    def read(self, line: Line) -> Iterator[Event]:
        """Step records that carry a rate."""
        if "tgs" not in line.text:
            yield Mark("evaluation")
            return
        yield from (record for record in self.records(line) if is_known(record.tokens_per_s_per_gpu))

    def complete(self, record: StepRecord, piece: str, match: re.Match[str], prefix: str) -> None:
        """Take the rate of this step; InternEvo prints windowed and whole-run averages beside it."""
        super().complete(record, piece, match, prefix)
        record.tag = rank_tag(prefix.split(" INFO", 1)[0])
        if match["tflops"]:
            record.flops_per_s = parse_number(match["tflops"]) * TERA
        last = self._last.search(piece)
        if last is not None and not is_known(record.tokens_per_s_per_gpu):
            record.tokens_per_s_per_gpu = parse_positive(last[1])
