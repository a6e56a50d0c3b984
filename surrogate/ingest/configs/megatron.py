"""Megatron-LM arguments, from any source, to a report."""

from __future__ import annotations

from collections.abc import Mapping

from surrogate.ingest.configs.arguments import Arguments, parse_dump
from surrogate.ingest.configs.megatron_model import read_model
from surrogate.ingest.configs.megatron_training import (
    read_batch,
    read_knobs,
    read_layout,
    read_precision,
    read_recompute,
)
from surrogate.ingest.configs.report import ConfigReport, Draft
from surrogate.ingest.configs.script_cluster import ask_accelerator


def read_megatron_arguments(arguments: Mapping[str, object]) -> ConfigReport:
    """Read Megatron-LM arguments given by name, as a log's argument dump prints them.

    Parameters
    ----------
    arguments : mapping of str to object
        Argument name (dashes or underscores, with or without leading dashes) to its value as text, number, truth
        value or list.

    Returns
    -------
    ConfigReport
        Format ``"megatron-dump"``.

    Examples
    --------
    >>> report = read_megatron_arguments({"num-layers": "24", "hidden-size": "2048", "num-attention-heads": "16"})
    >>> report.values["ffn_hidden_size"], report.values["tp"]
    (8192, 1)
    """
    draft = Draft()
    fill_from_arguments(draft, Arguments(arguments))
    ask_accelerator(draft)
    return draft.finish("megatron-dump")


def read_megatron_dump(text: str) -> ConfigReport:
    """Read the argument dump of a Megatron log: lines of ``name ......... value``."""
    return read_megatron_arguments(parse_dump(text))


def fill_from_arguments(draft: Draft, arguments: Arguments) -> None:
    """Fill a draft from Megatron arguments."""
    is_deepspeed = arguments.on("deepspeed") or arguments.text("deepspeed_config") is not None
    draft.put("framework", "megatron-deepspeed" if is_deepspeed else "megatron-lm")
    read_model(draft, arguments)
    read_layout(draft, arguments)
    read_batch(draft, arguments)
    read_precision(draft, arguments)
    read_recompute(draft, arguments)
    read_knobs(draft, arguments)
