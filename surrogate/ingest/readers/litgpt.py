"""litgpt and lit-gpt: one line per iteration, several of which make an optimizer step."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import ClassVar, Final

from surrogate.ingest.lines import Line
from surrogate.ingest.numbers import NAN, is_known, parse_positive
from surrogate.ingest.readers.base import Field, PatternReader, field
from surrogate.ingest.records import Event, Mark, StepRecord
from surrogate.units import GIGA, MILLI

_MOST_SPARSE: Final = 4096


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
        self._sparse: list[tuple[int, StepRecord]] = []

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

    def _iterations(self, record: StepRecord, stepped: bool) -> Iterator[Event]:
        iteration, record.total = record.total or 0, None
        if record.step is None:  # no optimizer counter: every line is a step
            record.step = iteration
            yield record
            return
        follows = self._gather(iteration, record.time_s)
        if not stepped:
            if not follows and len(self._sparse) < _MOST_SPARSE:
                self._sparse.append((iteration, record))
            return
        before, self._before = self._before or _origin(iteration, record.step), (iteration, record.step)
        per_step = 1.0 if self._whole else _iterations_per_step(before, self._before)
        if not self._whole and not follows:
            yield from _multiplied(record, per_step)
        elif self._whole:
            record.time_s = self._sum_s
            yield record
        self._sum_s, self._whole = 0.0, True

    def _gather(self, iteration: int, time_s: float) -> bool:
        """Add an iteration to the running step; return whether it follows the one before."""
        if iteration <= self._iteration:
            self._before = None
        follows = iteration == self._iteration + 1 and self._iteration >= 0
        if not follows:
            self._sum_s, self._whole = 0.0, iteration <= 1
        self._iteration = iteration
        self._sum_s += time_s
        return follows

    def finish(self) -> Iterator[Event]:
        """Yield iterations printed at intervals, where no line happened to hold an optimizer step."""
        if self._before is not None or len(self._sparse) < 2:
            return
        (then, first), (now, last) = self._sparse[0], self._sparse[-1]
        per_step = _iterations_per_step((then, first.step or 0), (now, last.step or 0))
        for _, record in self._sparse:
            yield from _multiplied(record, max(round(per_step), 1) if is_known(per_step) else NAN)


def _origin(iteration: int, step: int) -> tuple[int, int] | None:
    """Where both counters started, if the numbers allow that it was zero."""
    return (0, 0) if step > 0 and iteration % step == 0 else None


def _iterations_per_step(before: tuple[int, int] | None, now: tuple[int, int]) -> float:
    """Divide iterations by optimizer steps between two lines; NaN when the counters do not tell."""
    if before is None or now[1] <= before[1] or now[0] <= before[0]:
        return NAN
    return (now[0] - before[0]) / (now[1] - before[1])


def _multiplied(record: StepRecord, per_step: float) -> Iterator[Event]:
    """Yield a step with the time of one of its iterations, multiplied."""
    if not is_known(per_step):
        return
    record.time_s *= per_step
    yield record
    if per_step > 1:
        yield Mark("note", f"a step is {per_step:g} iterations, of which one is printed: times are multiplied")
