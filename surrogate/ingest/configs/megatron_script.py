"""Launch scripts of Megatron-LM and Megatron-DeepSpeed: find the training command, read its arguments."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from surrogate.ingest.configs.arguments import Arguments, parse_words
from surrogate.ingest.configs.deepspeed import read_zero
from surrogate.ingest.configs.megatron import fill_from_arguments
from surrogate.ingest.configs.report import ConfigReport, Draft
from surrogate.ingest.configs.scalars import without_unset
from surrogate.ingest.configs.script_cluster import ask_accelerator, read_cluster, sbatch_settings, slurm_variables
from surrogate.ingest.configs.shell import ScriptReading, read_script
from surrogate.ingest.configs.shell_expand import Environment

TELLING: Final = frozenset(
    [
        "num_layers",
        "hidden_size",
        "num_attention_heads",
        "seq_length",
        "micro_batch_size",
        "global_batch_size",
        "bf16",
        "fp16",
        "num_experts",
        "tensor_model_parallel_size",
        "pipeline_model_parallel_size",
        "ffn_hidden_size",
        "max_position_embeddings",
    ]
)
"""Argument names that tell a Megatron training command from any other."""

_PRINTERS: Final = frozenset({"echo", "printf", "cat", "tee", "export", "declare", "mkdir", "#"})
_MAX_SOURCE_BYTES: Final = 1_000_000


def read_megatron_script(text: str, path: str) -> ConfigReport:
    """Read a launch script (bash, Slurm) or a bare argument list; it is parsed, never executed.

    Parameters
    ----------
    text : str
        The script.
    path : str
        Where it lies: files it sources are looked for beside it.
    """
    sbatch = sbatch_settings(text)
    reading = follow(text, path, sbatch)
    draft = Draft()
    arguments = Arguments(_training_arguments(reading, draft))
    fill_from_arguments(draft, arguments)
    _apply_deepspeed_files(draft, reading, arguments)
    read_cluster(draft, arguments, reading.environment, sbatch)
    ask_accelerator(draft, sbatch.get("constraint"), sbatch.get("partition"), Path(path).name)
    add_reading_notes(draft, reading)
    return draft.finish("megatron-script")


def follow(text: str, path: str, sbatch: Mapping[str, str] | None = None) -> ScriptReading:
    """Follow a script with sourced files taken from its own folder only."""
    environment = Environment(script=path)
    for name, value in slurm_variables(sbatch or {}).items():
        environment.assign(name, value)
    return read_script(text, environment, lambda name: _beside(path, name))


def add_reading_notes(draft: Draft, reading: ScriptReading) -> None:
    """Pass on what following the script could not decide."""
    for note in reading.notes:
        draft.note(note)
    for name in reading.unread_sources:
        draft.note(f"sources {Path(without_unset(name)).name}, which was not read")


def has_training_command(reading: ScriptReading) -> bool:
    """Tell whether the script issues or assembles a Megatron command line."""
    return len(TELLING & _training_arguments(reading, Draft()).keys()) >= 3


def _training_arguments(reading: ScriptReading, draft: Draft) -> dict[str, object]:
    commands = [command for command in reading.commands if command[0] not in _PRINTERS]
    candidates = [parse_words(command) for command in commands if any("--" in word for word in command)]
    ranked = sorted(candidates, key=lambda found: -len(TELLING & found.keys()))
    if ranked and len(TELLING & ranked[0].keys()) >= 3:
        others = sum(len(TELLING & found.keys()) >= 3 and found != ranked[0] for found in ranked[1:])
        if others:
            draft.note(f"{others + 1} different training commands; the first with the most settings is read")
        return ranked[0]
    words: list[str] = []
    for content in reading.environment.variables.values():
        pieces = content if isinstance(content, list) else [content]
        if any(piece.lstrip().startswith("--") for piece in pieces):
            words += [word for piece in pieces for word in piece.split()]
    found = parse_words(words)
    if len(TELLING & found.keys()) >= 3:
        draft.note("no training command was found; the arguments are collected from the script's variables")
    return found


def _apply_deepspeed_files(draft: Draft, reading: ScriptReading, arguments: Arguments) -> None:
    if draft.values.get("framework") != "megatron-deepspeed":
        return
    configs = [config for text in reading.files.values() if isinstance(config := _json(text), dict)]
    for config in configs:
        stage = draft.values.pop("zero_stage", None) if "zero_optimization" in config else None
        draft.values.pop("overlap_grad_reduce", None)
        draft.values.pop("cpu_offload", None)
        read_zero(draft, config)
        draft.default("zero_stage", stage)
    if not configs and "deepspeed_config" in arguments:
        draft.note("the DeepSpeed configuration is written elsewhere and was not read")
    if draft.values.get("zero_stage") == 0 and draft.values.get("precision") == "bf16":
        draft.put("zero_stage", 1)
        draft.note(
            "the file says ZeRO stage 0: in bf16 Megatron-DeepSpeed then shards optimizer state itself, as stage 1"
        )


def _json(text: str) -> object:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _beside(path: str, name: str) -> str | None:
    """Return the text of a sourced file that lies in the script's folder, or None."""
    candidate = Path(path).parent / Path(name).name
    try:
        if candidate.is_file() and candidate.stat().st_size <= _MAX_SOURCE_BYTES and candidate != Path(path):
            return candidate.read_text("utf-8", errors="replace")
    except OSError:
        return None
    return None
