"""NeMo: the progress bar of NeMo 1 and the `Training epoch 0, iteration 1/19 | ...` lines of NeMo 2."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import ClassVar, Final

from surrogate.ingest.lines import Line
from surrogate.ingest.numbers import is_known
from surrogate.ingest.readers.base import Field, PatternReader, field
from surrogate.ingest.records import Event, Mark, StepRecord
from surrogate.units import TERA

_BAR: Final = re.compile(
    r"Epoch (?P<epoch>\d+):?[^|\[]*?(?:\|[^|]*\|\s*|:\s*)(?P<step>\d+)(?:/(?P<total>\d+|\?)|it) \[(?P<elapsed>[\d:]+)"
)
_LINE: Final = re.compile(r"Training epoch (?P<epoch>\d+), iteration (?P<iteration>\d+)/\d+ \|")
_GLOBAL_STEP: Final = re.compile(r"global_step[:=] ?(\d+)(?![\d.]*e)")


class NemoReader(PatternReader):
    """NVIDIA NeMo, both styles."""

    name = "nemo"
    framework = "nemo"
    needles: ClassVar[tuple[bytes, ...]] = (
        b"train_step_timing in s", b"Validation DataLoader", b"Validation: iteration", b"heckpoint save for",
    )  # fmt: skip
    start = re.compile(rf"{_LINE.pattern}|{_BAR.pattern.replace('<epoch>', '<epoch1>')}")
    fields: ClassVar[dict[str, Field]] = {
        "time_s": field(r"train_step_timing in s[:=] ?([\d.e+-]+)"),
        "flops_per_s": field(r"TFLOPS_per_GPU[:=] ?([\d.e+-]+)", TERA),
        "global_batch_size": field(r"global_batch_size[:=] ?(\d+)"),
        "consumed_samples": field(r"consumed_samples[:=] ?([\d.e+]+)"),
    }
    loss = re.compile(r"reduced_train_loss[:=] ?([\d.e+-]+)")

    def __init__(self) -> None:
        super().__init__()
        self._epoch = 0
        self._offset = 0
        self._last = 0

    def read(self, line: Line) -> Iterator[Event]:
        """Step records with their number within the run; validation and checkpoint marks."""
        if "train_step_timing in s" not in line.text:
            yield Mark("checkpoint" if "heckpoint" in line.text else "evaluation")
            return
        yield from (record for record in self.records(line) if is_known(record.time_s))

    def opening(self, piece: str, match: re.Match[str], prefix: str) -> StepRecord:
        """Read the record and number it: epochs restart the printed counter."""
        record = super().opening(piece, match, prefix)
        is_bar = match["epoch"] is None
        epoch = int(match["epoch1"] if is_bar else match["epoch"])
        printed = _GLOBAL_STEP.search(piece)
        if is_bar:
            record.step = self._continued(epoch, int(match["step"]))
            record.loss = ""  # bars are redrawn with another loss for the same step
        else:
            record.step = int(printed[1]) if printed else self._continued(epoch, int(match["iteration"]) + 1)
        record.total = None
        return record

    def _continued(self, epoch: int, count: int) -> int:
        if epoch != self._epoch:
            self._offset = self._offset + self._last if epoch > self._epoch else 0
            self._epoch = epoch
        self._last = count
        return self._offset + count
