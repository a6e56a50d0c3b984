"""What a reader yields: step records, printed settings, and marks between them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

from surrogate.ingest.numbers import NAN

MemoryKind: TypeAlias = Literal["", "allocated", "reserved"]
MarkKind: TypeAlias = Literal["evaluation", "checkpoint", "oom", "memory", "note"]


@dataclass(slots=True)
class StepRecord:
    """One throughput line. What the line does not print stays NaN, None or empty.

    Attributes
    ----------
    step, total : int or None
        Counter as printed and its end.
    time_s, average_time_s : float
        Seconds per optimizer step, and a running average printed beside it.
    tokens_per_s_per_gpu, tokens_per_s, samples_per_s : float
        Rates per accelerator and of the whole job.
    flops_per_s, mfu : float
        Achieved FLOP/s per accelerator and utilisation in [0, 1].
    memory_bytes : float
        Peak device memory so far, of the kind `memory_kind`.
    clock_s : float
        Time stamp of the line, seconds.
    elapsed_s : float
        Training seconds so far, by the program's own cumulative clock.
    loss : str
        Loss as printed: tells copies of one step by several ranks from steps of different runs.
    consumed_samples, consumed_tokens, global_batch_size, skipped : float
        Counters as printed; `skipped` counts optimizer steps skipped since the last record.
    tag : str
        Launcher prefix of the line: which rank or host printed it.
    steps : int
        Optimizer steps the record stands for; 0 lets the tracker count from the record before.
    fresh_run : bool
        The line cannot belong to the run before it.
    wall_s : float
        Filled by the tracker: seconds per step by the time stamps (or `elapsed_s`) since the record before.
    disturbed : str
        Filled by the tracker: "evaluation", "checkpoint" or "skipped" when such fell inside the record.
    """

    step: int | None = None
    total: int | None = None
    time_s: float = NAN
    average_time_s: float = NAN
    tokens_per_s_per_gpu: float = NAN
    tokens_per_s: float = NAN
    samples_per_s: float = NAN
    flops_per_s: float = NAN
    mfu: float = NAN
    memory_bytes: float = NAN
    memory_kind: MemoryKind = ""
    clock_s: float = NAN
    elapsed_s: float = NAN
    loss: str = ""
    consumed_samples: float = NAN
    consumed_tokens: float = NAN
    global_batch_size: float = NAN
    skipped: float = 0.0
    tag: str = ""
    steps: int = 0
    fresh_run: bool = False
    wall_s: float = NAN
    disturbed: str = ""


@dataclass(frozen=True, slots=True)
class Settings:
    """Configuration that the log itself prints: raw key to raw value."""

    values: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Mark:
    """Something that happened between steps."""

    kind: MarkKind
    text: str = ""


Event: TypeAlias = StepRecord | Settings | Mark
