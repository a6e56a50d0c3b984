"""Small trainers: litgpt (and lit-gpt), nanoGPT and its relatives."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import ClassVar, Final

from surrogate.ingest.lines import Line
from surrogate.ingest.numbers import NAN, is_known, parse_positive
from surrogate.ingest.readers.base import Field, PatternReader, field
from surrogate.ingest.records import Event, Mark, StepRecord
from surrogate.units import GIGA, MILLI

_PERCENT: Final = 0.01


class LitgptReader(PatternReader):
    """Lightning litgpt: one line per micro-batch iteration, `(step)` where the optimizer steps.

    A step's time is the sum of its iterations when all of them are printed. Where only every n-th iteration is
    printed, it is the iteration's time multiplied with the iterations per step that the two counters show.
    """

    name = "litgpt"
    framework = "litgpt"
    needles: ClassVar[tuple[bytes, ...]] = (
        b"iter time:", b"toks/s/device", b"Memory used:", b"Memory Used", b"Training time:", b"val loss", b"Validating",
    )  # fmt: skip
    start = re.compile(r"(?<![a-z])iter\s+(?P<iteration>\d+)(?P<middle>\s+step\s+(?P<count>\d+))?\s*[:|,]|"
                       r"(?<![a-z])iter\s+(?P<plain>\d+)\s+step\s+(?P<number>\d+)\s+loss")  # fmt: skip
    fields: ClassVar[dict[str, Field]] = {
        "time_s": field(r"\btime:\s*([\d.]+)\s*ms", MILLI),
        "tokens_per_s_per_gpu": field(r"speed:\s*([\d.,]+)\s*toks/s/device"),
    }
    _memory: Final = re.compile(r"Memory [Uu]sed\s*:\s*([\d.]+)\s*GB")
    _stepped: Final = re.compile(r"ms\s*\((?:optimizer\.)?step\)")

    def __init__(self) -> None:
        super().__init__()
        self._sum_s = 0.0
        self._whole = False
        self._iteration = -1
        self._before: tuple[int, int] | None = None

    def read(self, line: Line) -> Iterator[Event]:
        """Optimizer steps put together from iterations; evaluation and memory."""
        memory = self._memory.search(line.text)
        if memory is not None:
            yield Mark("memory", str(parse_positive(memory[1]) * GIGA))
        elif "time:" not in line.text or not self.start.search(line.text):
            yield Mark("evaluation")
        else:
            for record in self.records(line):
                yield from self._iterations(record, bool(self._stepped.search(line.text)))

    def counters(self, match: re.Match[str]) -> tuple[int | None, int | None]:
        """Take both counters: `step` is the optimizer's, `total` carries the iteration for the grouping."""
        count = match["count"] or match["number"]
        return int(count) if count else None, int(match["iteration"] or match["plain"])

    def _iterations(self, record: StepRecord, stepped: bool) -> Iterator[StepRecord]:
        iteration, record.total = record.total or 0, None
        if record.step is None:  # no optimizer counter: every line is a step
            record.step = iteration
            yield record
            return
        if iteration <= self._iteration:
            self._before = None
        follows = iteration == self._iteration + 1 and self._iteration >= 0
        if not follows:
            self._sum_s, self._whole = 0.0, iteration <= 1
        self._iteration = iteration
        self._sum_s += record.time_s
        if not stepped:
            return
        before, self._before = self._before, (iteration, record.step)
        per_step = self._per_step(before)
        if not self._whole and not follows:
            record.time_s = record.time_s * per_step if is_known(per_step) else NAN
        elif self._whole:
            record.time_s = self._sum_s
        else:
            record.time_s = NAN
        self._sum_s, self._whole = 0.0, True
        if is_known(record.time_s):
            yield record

    def _per_step(self, before: tuple[int, int] | None) -> float:
        """Divide iterations by optimizer steps between two `(step)` lines."""
        if before is None or self._before is None or self._before[1] <= before[1]:
            return NAN
        return (self._before[0] - before[0]) / (self._before[1] - before[1])


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
