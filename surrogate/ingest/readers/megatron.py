"""Megatron's `iteration 10/ 1000 | ... | elapsed time per iteration (ms): ... |` and its descendants."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import ClassVar, Final

from surrogate.ingest.lines import Line
from surrogate.ingest.numbers import is_known, parse_positive
from surrogate.ingest.readers.base import Field, PatternReader, field
from surrogate.ingest.records import Event, Mark, Settings, StepRecord
from surrogate.units import GIB, MIB, MILLI, TERA

# The bar after the value proves that the number is whole: lines get cut.
_TIME: Final = re.compile(r"elapsed.time.per.iteration.\(?(ms|s)\)?[:=]\s*([\d.eE+]+)(?:\s*/\s*([\d.eE+]+))?(?=\s*\|)")
_MEMORY: Final = re.compile(r"memory \(MB\) \| allocated: [\d.]+ \| max allocated: ([\d.]+)")
_MIB_MEMORY: Final = re.compile(r"memory \(MiB\) \| allocated: [\d.]+ \| max allocated: ([\d.]+)")
_WORLD: Final = re.compile(
    r"using world size: (\d+), data-parallel[- ]size: (\d+)(?:, context-parallel[- ]size: (\d+))?.*?"
    r"tensor-model-parallel size: (\d+).*?pipeline-model-parallel size: (\d+)"
)
_UNIT_S: Final = {"ms": MILLI, "s": 1.0}


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
        unit_s = _UNIT_S[time[1]]
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


class GPTNeoXReader(MegatronReader):
    """EleutherAI GPT-NeoX: Megatron lines after `samples/sec`, and DeepSpeed's `steps: ... iter time (s)`."""

    name = "gpt-neox"
    skips_lines = False
    framework = "gpt-neox"
    needles: ClassVar[tuple[bytes, ...]] = (*MegatronReader.needles, b"iter time (s):")
    marks: ClassVar[tuple[bytes, ...]] = (b"approx flops per GPU", b"iter time (s):", b"lm_loss", b"NeoXArgs")
    fields: ClassVar[dict[str, Field]] = {
        **MegatronReader.fields,
        "flops_per_s": field(r"approx flops per GPU: ([\d.]+)\s*TFLOPS", TERA),
    }
    _engine: Final = re.compile(
        r"steps: (?P<step>\d+) loss: (?P<loss>[\d.naif]+) iter time \(s\): (?P<time>[\d.]+)"
        r" samples/sec: (?P<rate>[\d.]+)"
    )
    _before: Final = re.compile(r"samples/sec: ([\d.]+) \|\s*$")

    def __init__(self) -> None:
        super().__init__()
        self._held: StepRecord | None = None

    def read(self, line: Line) -> Iterator[Event]:
        """Either kind of step line."""
        if "iter time (s):" not in line.text:
            for event in super().read(line):
                if isinstance(event, StepRecord):  # says all that DeepSpeed's line of the same step says
                    self._held = None
                yield event
            return
        for match in self._engine.finditer(line.text):
            yield from self.finish()
            self._held = StepRecord(
                step=int(match["step"]),
                time_s=parse_positive(match["time"]),
                samples_per_s=parse_positive(match["rate"]),
                loss=match["loss"],
            )

    def finish(self) -> Iterator[Event]:
        """Yield DeepSpeed's line when no Megatron line of the step follows."""
        if self._held is not None:
            yield self._held
        self._held = None

    def complete(self, record: StepRecord, piece: str, match: re.Match[str], prefix: str) -> None:
        """Take the rate that stands before the iteration."""
        super().complete(record, piece, match, prefix)
        before = self._before.search(prefix)
        if before is not None:
            record.samples_per_s = parse_positive(before[1])


class MegatronBridgeReader(MegatronReader):
    """NVIDIA Megatron-Bridge: Megatron lines, each after a `Step Time : 8.57s GPU utilization: ...` line."""

    name = "megatron-bridge"
    skips_lines = False
    framework = "megatron-bridge"
    needles: ClassVar[tuple[bytes, ...]] = (*MegatronReader.needles, b"Step Time :", b"Step Time:", b"you should see")
    marks: ClassVar[tuple[bytes, ...]] = (b"Step Time :", b"megatron.bridge", b"Megatron-Bridge", b"mtp_1 loss")
    _step_time: Final = re.compile(r"Step Time\s*:\s*([\d.]+)\s*(ms|s)\b[^|]*?([\d.]+)\s*(?:MODEL_)?TFLOP/s/GPU")
    _machine: Final = re.compile(r"With (\d+) ([A-Z]{1,2}\d{3})\b")

    def __init__(self) -> None:
        super().__init__()
        self._held: StepRecord | None = None
        self._numbered = False
        self._after_heading = False

    def read(self, line: Line) -> Iterator[Event]:
        """Join the two lines of a step; a `Step Time` without its iteration line is a record by itself."""
        machine = self._machine.search(line.text)
        match = self._step_time.search(line.text)
        if match is not None:
            yield from self.finish()
            self._held = StepRecord(
                time_s=parse_positive(match[1]) * _UNIT_S[match[2]],
                flops_per_s=parse_positive(match[3]) * TERA,
                fresh_run=not line.follows or self._after_heading,
            )
            self._after_heading = False
        elif machine is not None or "you should see" in line.text:
            yield from self.finish()
            self._after_heading = True
            if machine is not None:
                yield Settings({"world_size": machine[1], "accelerator": machine[2]})
        else:
            yield from self._joined(super().read(line))

    def _joined(self, events: Iterator[Event]) -> Iterator[Event]:
        for event in events:
            if isinstance(event, StepRecord):
                self._numbered = True
                if self._held is not None and not is_known(event.flops_per_s):
                    event.flops_per_s = self._held.flops_per_s
                self._held = None
            yield event

    def finish(self) -> Iterator[Event]:
        """Yield a held `Step Time` line that no iteration line followed."""
        if self._held is not None and not self._numbered:
            yield self._held
        self._held = None


class PrimusReader(MegatronReader):
    """AMD Primus: `last/average` pairs, memory in the line, records that wrap over two lines.

    The memory is what the device has in use, so the allocator's reserve and the context.
    """

    name = "primus"
    skips_lines = False
    framework = "primus-megatron"
    needles: ClassVar[tuple[bytes, ...]] = (*MegatronReader.needles, b"okens per GPU (", b"tokens/s/GPU")
    marks: ClassVar[tuple[bytes, ...]] = (b"(tokens/s/GPU)", b"tokens/s/GPU", b"hip mem usage", b"rank-")
    fields: ClassVar[dict[str, Field]] = {
        **MegatronReader.fields,
        "memory_bytes": field(r"(?:hip|rocm) mem usage/free/total/usage_ratio: ([\d.]+)GB", GIB),
    }

    def __init__(self) -> None:
        super().__init__()
        self._held: StepRecord | None = None

    def read(self, line: Line) -> Iterator[Event]:
        """Hold each record until the next line shows whether it goes on there."""
        if self._held is not None and line.follows and not self.start.search(line.text):
            for attribute, (pattern, scale) in self.fields.items():
                found = pattern.search(line.text)
                if found is not None and attribute != "memory_bytes":
                    setattr(self._held, attribute, parse_positive(found[1]) * scale)
            loss = self.loss.search(line.text)
            self._held.loss = loss[1] if loss else self._held.loss
        for event in super().read(line):
            if not isinstance(event, StepRecord):
                yield event
                continue
            yield from self.finish()
            event.memory_kind = "reserved"
            self._held = event

    def finish(self) -> Iterator[Event]:
        """Yield the record held back."""
        if self._held is not None:
            yield self._held
        self._held = None
