"""MLPerf `:::MLLOG` lines: step timings, samples per second, or only the blocks between evaluations."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, ClassVar, Final

from surrogate.ingest.lines import Line
from surrogate.ingest.numbers import NAN, is_known
from surrogate.ingest.records import Event, Mark, Settings, StepRecord
from surrogate.units import MILLI

_PAYLOAD: Final = re.compile(r":::MLLOG\s*(\{.*?\}\s*\}|\{.*\})")
_TIMING_KEYS: Final = ("train_step_timing in s", "train_step_timing", "train_step_time", "step_time")
_COUNT_KEYS: Final = ("samples_count", "epoch_num", "first_epoch_num", "step")
_CONFIG_KEYS: Final = {
    "global_batch_size": "global_batch_size",
    "max_sequence_length": "seq_length",
    "gradient_accumulation_steps": "gradient_accumulation_steps",
    "tensor_parallelism": "tensor_model_parallel_size",
    "pipeline_parallelism": "pipeline_model_parallel_size",
    "context_parallelism": "context_parallel_size",
    "expert_parallelism": "expert_model_parallel_size",
    "micro_batch_size": "micro_batch_size",
    "submission_benchmark": "mlperf_benchmark",
    "submission_platform": "mlperf_platform",
    "submission_org": "mlperf_org",
}
_SCRIPT: Final = re.compile(r"config_([A-Za-z0-9]+)_(\d+)x(\d+)x(\d+)")


def _number(value: Any) -> float:
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else NAN


class MLPerfReader:
    """MLPerf training results.

    Counters in the metadata are samples in some submissions and tokens in others; the global batch size and the
    sequence length, printed at the start, tell which.
    """

    name: ClassVar[str] = "mlperf"
    framework: ClassVar[str] = "mlperf"
    needles: ClassVar[tuple[bytes, ...]] = (b":::MLLOG", b"config_")
    marks: ClassVar[tuple[bytes, ...]] = (b":::MLLOG",)

    def __init__(self) -> None:
        self.is_step_line = False
        self._batch = NAN
        self._seq = NAN
        self._steps = 0
        self._block_start: tuple[float, float, float] | None = None
        self._block_has_rate = False
        self._in_evaluation = False
        self._noted = False

    def read(self, line: Line) -> Iterator[Event]:
        """Events of the JSON objects of one line."""
        self.is_step_line = ":::MLLOG" in line.text
        script = None if self.is_step_line else _SCRIPT.search(line.text)
        if script is not None:
            yield Settings({"world_size": str(int(script[2]) * int(script[3])), "gpus_per_node": script[3],
                            "accelerator": script[1], "micro_batch_size": script[4]})  # fmt: skip
        for payload in _PAYLOAD.findall(line.text):
            try:
                entry = json.loads(payload)
            except (ValueError, RecursionError):
                continue
            if isinstance(entry, dict):
                yield from self._entry(entry)

    def finish(self) -> tuple[Event, ...]:
        """Nothing is held back."""
        return ()

    def _entry(self, entry: dict[str, Any]) -> Iterator[Event]:
        key, value, meta = entry.get("key"), entry.get("value"), entry.get("metadata")
        meta = meta if isinstance(meta, dict) else {}
        clock_s = _number(entry.get("time_ms")) * MILLI
        if key in _CONFIG_KEYS and isinstance(value, (int, float, str)):
            yield from self._setting(str(key), value)
        elif key == "tracked_stats" and isinstance(value, dict):
            yield from self._stats(value, meta, clock_s)
        elif key in ("block_start", "block_stop"):
            yield from self._block(str(key), meta, clock_s)
        elif key in ("eval_start", "eval_stop"):
            self._in_evaluation = key == "eval_start"
            yield Mark("evaluation")
        elif key == "eval_accuracy" and not self._in_evaluation and not self._block_has_rate and not self._noted:
            self._noted = True
            yield Mark("note", "blocks contain the evaluation: the step time is an upper bound")

    def _setting(self, key: str, value: float | str) -> Iterator[Event]:
        if key == "global_batch_size":
            self._batch = _number(value)
        elif key == "max_sequence_length":
            self._seq = _number(value)
        yield Settings({_CONFIG_KEYS[key]: str(value)})

    def _stats(self, stats: dict[str, Any], meta: dict[str, Any], clock_s: float) -> Iterator[Event]:
        time_s = next((_number(stats[key]) for key in _TIMING_KEYS if key in stats), NAN)
        rate = _number(stats.get("throughput"))
        count = next((_number(meta[name]) for name in ("step", "samples_count", "epoch_num") if name in meta), NAN)
        if is_known(time_s):
            self._block_has_rate = True
            self._steps += 1
            yield StepRecord(step=self._steps, time_s=time_s, clock_s=clock_s, steps=1)
        elif is_known(rate) and self._count_steps(count) > self._steps:
            self._block_has_rate = True
            in_tokens = self._is_tokens(count)
            record = StepRecord(step=round(self._count_steps(count)))  # its clock spans an evaluation
            record.tokens_per_s, record.samples_per_s = (rate, NAN) if in_tokens else (NAN, rate)
            self._steps = record.step or 0
            yield record

    def _is_tokens(self, count: float) -> bool:
        per_step = self._batch * self._seq
        return is_known(per_step) and count >= per_step and count % per_step == 0

    def _count_steps(self, count: float) -> float:
        """Optimizer steps behind a counter of samples or tokens."""
        if not is_known(count) or not is_known(self._batch):
            return self._steps + 1 if is_known(count) else 0
        return count / (self._batch * self._seq) if self._is_tokens(count) else count / self._batch

    def _block(self, key: str, meta: dict[str, Any], clock_s: float) -> Iterator[Event]:
        at = next((_number(meta[name]) for name in _COUNT_KEYS if name in meta), NAN)
        length = _number(meta.get("epoch_count"))
        if is_known(gbs := _number(meta.get("self.gbs"))) and not is_known(self._batch):
            yield from self._setting("global_batch_size", int(gbs))
        if key == "block_start":
            self._block_start, self._block_has_rate = (clock_s, at, length), False
            return
        if self._block_start is None:
            return
        began_s, began_at, length = self._block_start
        self._block_start = None
        steps = self._count_steps(length if is_known(length) else at - began_at)
        if not self._block_has_rate and is_known(self._batch) and steps >= 1 and clock_s > began_s:
            self._steps += round(steps)
            yield StepRecord(step=self._steps, time_s=(clock_s - began_s) / steps, clock_s=clock_s, steps=round(steps))
