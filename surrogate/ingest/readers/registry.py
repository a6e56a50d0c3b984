"""All readers, the more specific before the more general: the first that reads most records wins."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from surrogate.ingest.readers.base import LogReader
from surrogate.ingest.readers.composer import ComposerReader
from surrogate.ingest.readers.deepspeed import ColossalAIReader, DeepSpeedReader
from surrogate.ingest.readers.hf_trainer import HFTrainerReader, ProgressBarReader
from surrogate.ingest.readers.megatron import (
    GPTNeoXReader,
    MegatronBridgeReader,
    MegatronDeepSpeedReader,
    MegatronReader,
    PrimusReader,
)
from surrogate.ingest.readers.mlperf import MLPerfReader
from surrogate.ingest.readers.nemo import MaxTextReader, NemoReader
from surrogate.ingest.readers.pytorch import InternEvoReader, NanotronReader, TorchtitanReader
from surrogate.ingest.readers.small import LitgptReader, NanoGPTReader

READERS: Final[tuple[Callable[[], LogReader], ...]] = (
    MLPerfReader,
    NanotronReader,  # before Megatron's family, whose patterns fit its step time too
    PrimusReader,
    MegatronBridgeReader,
    GPTNeoXReader,
    MegatronDeepSpeedReader,
    MegatronReader,
    NemoReader,
    TorchtitanReader,
    MaxTextReader,
    InternEvoReader,
    LitgptReader,
    NanoGPTReader,
    ComposerReader,
    ColossalAIReader,
    HFTrainerReader,
    DeepSpeedReader,
    ProgressBarReader,
)


def reader_names() -> list[str]:
    """Names that `--format` takes."""
    return [reader().name for reader in READERS]
