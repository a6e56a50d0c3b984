"""All readers, the more specific before the more general: the first that reads most records wins."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from surrogate.ingest.readers.base import LogReader
from surrogate.ingest.readers.colossalai import ColossalAIReader
from surrogate.ingest.readers.composer import ComposerReader
from surrogate.ingest.readers.deepspeed import DeepSpeedReader
from surrogate.ingest.readers.gpt_neox import GPTNeoXReader
from surrogate.ingest.readers.hf_trainer import HFTrainerReader, ProgressBarReader
from surrogate.ingest.readers.internevo import InternEvoReader
from surrogate.ingest.readers.litgpt import LitgptReader
from surrogate.ingest.readers.maxtext import MaxTextReader
from surrogate.ingest.readers.megatron import MegatronDeepSpeedReader, MegatronReader
from surrogate.ingest.readers.megatron_bridge import MegatronBridgeReader
from surrogate.ingest.readers.mlperf import MLPerfReader
from surrogate.ingest.readers.nanogpt import NanoGPTReader
from surrogate.ingest.readers.nanotron import NanotronReader
from surrogate.ingest.readers.nemo import NemoReader
from surrogate.ingest.readers.primus import PrimusReader
from surrogate.ingest.readers.torchtitan import TorchtitanReader

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
