"""Megatron's `iteration 10/ 1000 | ... | elapsed time per iteration (ms): ... |` and its descendants."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import ClassVar, Final

from surrogate.ingest.lines import Line
from surrogate.ingest.numbers import is_known, parse_positive
from surrogate.ingest.readers.base import Field, PatternReader, field
from surrogate.ingest.records import Event, Mark, Settings, StepRecord
from surrogate.units import MIB, MILLI, TERA

# The bar after the value proves that the number is whole: lines get cut.
_TIME: Final = re.compile(r"elapsed.time.per.iteration.\(?(ms|s)\)?[:=]\s*([\d.eE+]+)(?:\s*/\s*([\d.eE+]+))?(?=\s*\|)")
_MEMORY: Final = re.compile(r"memory \(MB\) \| allocated: [\d.]+ \| max allocated: ([\d.]+)")
_MIB_MEMORY: Final = re.compile(r"memory \(MiB\) \| allocated: [\d.]+ \| max allocated: ([\d.]+)")
_WORLD: Final = re.compile(
    r"using world size: (\d+), data-parallel[- ]size: (\d+)(?:, context-parallel[- ]size: (\d+))?.*?"
    r"tensor-model-parallel size: (\d+).*?pipeline-model-parallel size: (\d+)"
)
UNIT_S: Final = {"ms": MILLI, "s": 1.0}
"""Seconds in the unit that stands beside a step time."""


class MegatronReader(PatternReader):
    """NVIDIA Megatron-LM, all years."""

    name = "megatron-lm"
    skips_lines = True
    framework = "megatron-lm"
    needles: ClassVar[tuple[bytes, ...]] = (
        b" time per iteration (", b"elapsed_time_per_iteration", b"max allocated: ", b"validation loss at",
        b"saving checkpoint at", b"using world size:",
    )  # fmt: skip
    start = re.compile(r"iteration[:=]?\s*(?P<step>\d+)\s*/\s*(?P<total>\d+)")
    loss = re.compile(r"lm[ _-]loss[:=]\s*([\d.eE+-]+|nan)")
    fields: ClassVar[dict[str, Field]] = {
        "flops_per_s": field(r"(?:\(TFLOP/s/GPU\)|TFLOP/s/GPU|TFLOPs|TFLOPS per GPU)[:=]\s*([\d.]+)", TERA),
        "tokens_per_s_per_gpu": field(
            r"(?:tokens_per_gpu_per_second_tgs=|\(tokens/s/GPU\): |tokens/s/GPU[^:|]*: |tokens/sec/gpu: )\s*([\d.]+)"
        ),
        "samples_per_s": field(r"samples?[ _/]per[ _/]second[:=]\s*([\d.]+)"),
        "consumed_samples": field(r"consumed[ _]samples[:=]\s*(\d+)"),
        "consumed_tokens": field(r"consumed[ _]tokens[:=]\s*(\d+)"),
        "global_batch_size": field(r"global[ _]batch[ _]size[:=]\s*(\d+)"),
        "skipped": field(r"skipped[ _]iterations[:=]\s*(\d+)"),
    }

    def read(self, line: Line) -> Iterator[Event]:
        """Step records, memory reports, evaluations and checkpoints of one line."""
        text = line.text
        if "time" in text and ("per iteration (" in text or "per_iteration" in text):
            yield from (record for record in self.records(line) if is_known(record.time_s))
        elif "max allocated:" in text:
            yield from self.memory(text)
        elif text.lstrip().startswith("validation loss at") or " validation loss at " in text:
            yield Mark("evaluation")
        elif "saving checkpoint at" in text:
            yield Mark("checkpoint")
        elif (match := _WORLD.search(text)) is not None:
            keys = ("world_size", "data_parallel_size", "context_parallel_size", "tensor_model_parallel_size",
                    "pipeline_model_parallel_size")  # fmt: skip
            yield Settings({key: value for key, value in zip(keys, match.groups(), strict=True) if value})

    def opening(self, piece: str, match: re.Match[str], prefix: str) -> StepRecord:
        """Read the step time too, whose unit is printed beside it."""
        time = _TIME.search(piece)
        if time is None:
            return StepRecord()
        record = super().opening(piece, match, prefix)
        unit_s = UNIT_S[time[1]]
        record.time_s = parse_positive(time[2]) * unit_s
        if time[3]:
            record.average_time_s = parse_positive(time[3]) * unit_s
        return record

    @staticmethod
    def memory(text: str) -> Iterable[Event]:
        """Peak allocated memory of the ranks on the line (Megatron's "MB" are MiB)."""
        peaks = [parse_positive(value) for value in _MEMORY.findall(text)]
        peaks += [parse_positive(value) for value in _MIB_MEMORY.findall(text)]
        if peaks:
            yield Mark("memory", str(max(peaks) * MIB))


class MegatronDeepSpeedReader(MegatronReader):
    """Megatron-DeepSpeed of BigScience, Microsoft and Argonne."""

    name = "megatron-deepspeed"
    framework = "megatron-deepspeed"
    marks: ClassVar[tuple[bytes, ...]] = (
        b"lm-loss", b"DeepSpeed", b"deepspeed", b"consumed tokens", b"consumed_tokens", b"| TFLOPs:",
        b"Contiguous Memory Checkpointing", b"\ntime (ms)\n", b"[Rank 0] time (ms)",
    )  # fmt: skip
