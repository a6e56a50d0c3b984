"""nanoGPT and its relatives: modded-nanogpt, build-nanogpt, nanochat, llm.c."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import ClassVar, Final

from surrogate.ingest.lines import Line
from surrogate.ingest.numbers import NAN, is_known, parse_positive
from surrogate.ingest.readers.base import Field, PatternReader, field
from surrogate.ingest.records import Event, Mark, StepRecord
from surrogate.units import MILLI

_PERCENT: Final = 0.01


class NanoGPTReader(PatternReader):
    """nanoGPT, modded-nanogpt, build-nanogpt, nanochat and llm.c."""

    name = "nanogpt"
    framework = "nanogpt"
    needles: ClassVar[tuple[bytes, ...]] = (
        b"iter ",
        b"train_time:",
        b"dt:",
        b" tok/s",
        b"val loss",
        b"validation loss",
    )
    start = re.compile(
        r"\biter (?P<iter>\d+): loss|\bstep:(?P<step>\d+)/(?P<total>\d+) (?=train_loss|train_time|val_loss)|"
        r"\bstep\s+(?P<count>\d+)(?:/\d+)?(?: \([\d.]+%\))? \|"
    )
    loss = re.compile(r"(?:train_loss:| loss:? )\s*([\d.naif]+)")
    fields: ClassVar[dict[str, Field]] = {
        "time_s": field(r"(?:\btime |\bdt: ?|\| |\()([\d.]+) ?ms(?![a-z])", MILLI),
        "elapsed_s": field(r"train_time:([\d.]+)ms", MILLI),
        "mfu": field(r"(?:mfu:? |\| )(-?[\d.]+)(?:%| \| total)", _PERCENT),
    }
    _tokens: Final = re.compile(r"tok/sec: ([\d.,]+)|([\d.,]+) tok/s")

    def read(self, line: Line) -> Iterator[Event]:
        """Step records; `val` lines mark an evaluation."""
        starts = self.start.search(line.text)
        if starts is None or "val_loss" in line.text or "val loss" in line.text:
            if "val" in line.text:
                yield Mark("evaluation")
            return
        for record in self.records(line):
            if is_known(record.time_s) or is_known(record.elapsed_s):
                yield record

    def counters(self, match: re.Match[str]) -> tuple[int | None, int | None]:
        """Take the counter of whichever style."""
        return int(match["iter"] or match["step"] or match["count"]), int(match["total"]) if match["total"] else None

    def complete(self, record: StepRecord, piece: str, match: re.Match[str], prefix: str) -> None:
        """Take the whole job's token rate."""
        super().complete(record, piece, match, prefix)
        tokens = self._tokens.search(piece)
        record.tokens_per_s = parse_positive(tokens[1] or tokens[2]) if tokens else NAN
        if "train_time:" in piece:
            record.time_s = NAN
