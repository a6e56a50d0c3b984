"""Trainers that print rates: torchtitan, nanotron, InternEvo."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import ClassVar, Final

from surrogate.ingest.lines import Line
from surrogate.ingest.numbers import is_known, parse_number, parse_positive
from surrogate.ingest.prefixes import rank_tag
from surrogate.ingest.readers.base import Field, PatternReader, field
from surrogate.ingest.records import Event, Mark, StepRecord
from surrogate.units import GIB, MIB, MILLI, TERA

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
