"""Read a configuration file of any known format into the terms of the runs table."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

import yaml

from surrogate.errors import FileFormatError, UnknownNameError
from surrogate.ingest.configs.arguments import Arguments, parse_dump
from surrogate.ingest.configs.deepspeed import read_deepspeed
from surrogate.ingest.configs.huggingface import read_huggingface
from surrogate.ingest.configs.interpolation import resolve
from surrogate.ingest.configs.llm_foundry import read_llm_foundry
from surrogate.ingest.configs.megatron import fill_from_arguments, read_megatron_dump
from surrogate.ingest.configs.megatron_script import TELLING, follow, has_training_command, read_megatron_script
from surrogate.ingest.configs.mlperf import TELLING as MLPERF_TELLING
from surrogate.ingest.configs.mlperf import read_mlperf
from surrogate.ingest.configs.nanotron import read_nanotron
from surrogate.ingest.configs.nemo import read_nemo
from surrogate.ingest.configs.neox import read_neox
from surrogate.ingest.configs.report import ConfigReport, Draft
from surrogate.ingest.configs.script_cluster import ask_accelerator
from surrogate.ingest.configs.torchtitan import read_torchtitan
from surrogate.ingest.configs.tree import Tree, leaves, section

_MAX_BYTES: Final = 5_000_000

TREE_READERS: Final[Mapping[str, Callable[[Tree, str], ConfigReport]]] = {
    "huggingface": lambda tree, _text: read_huggingface(tree),
    "deepspeed": lambda tree, _text: read_deepspeed(tree),
    "torchtitan": read_torchtitan,
    "nanotron": lambda tree, _text: read_nanotron(tree),
    "nemo": lambda tree, _text: read_nemo(tree),
    "gpt-neox": read_neox,
    "llm-foundry": lambda tree, _text: read_llm_foundry(tree),
    "megatron-yaml": lambda tree, _text: read_megatron_yaml(tree),
}
"""Formats that are JSON, TOML or YAML, with their readers."""

TEXT_READERS: Final[Mapping[str, Callable[[str, str], ConfigReport]]] = {
    "megatron-script": read_megatron_script,
    "mlperf": read_mlperf,
    "megatron-dump": lambda text, _path: read_megatron_dump(text),
}
"""Formats that are scripts or plain text."""

CONFIG_FORMATS: Final = (*TREE_READERS, *TEXT_READERS)


def read_config(path: str | Path, format: str | None = None) -> ConfigReport:
    """Read a training or model configuration; the format is found from the content.

    Parameters
    ----------
    path : path
        A Megatron-LM script or argument list, Slurm script, NeMo, nanotron, GPT-NeoX, llm-foundry or Megatron YAML,
        torchtitan TOML, DeepSpeed JSON, MLPerf config script, or a Hugging Face ``config.json``.
    format : str, optional
        One of `CONFIG_FORMATS`, to force it.

    Returns
    -------
    ConfigReport
        Values in runs-table columns, what stays unknown and why, notes.

    Raises
    ------
    FileFormatError
        The file cannot be read, or its content is of no known format.
    UnknownNameError
        `format` is not a format.
    """
    return read_config_text(_text_of(Path(path)), format=format, path=str(path))


def read_config_text(text: str, *, format: str | None = None, path: str = "config") -> ConfigReport:
    """Read a configuration from its text; `path` is for messages and for files beside it.

    Raises
    ------
    FileFormatError
        The content is of no known format, or not of the forced one.
    UnknownNameError
        `format` is not a format.
    """
    text = text.removeprefix("\ufeff")
    if format is not None and format not in CONFIG_FORMATS:
        raise UnknownNameError("format", format, [], f"one of {', '.join(CONFIG_FORMATS)}")
    if format is not None and format in TEXT_READERS:
        return TEXT_READERS[format](text, path)
    tree = load_tree(text)
    name = format or detect_format(text, tree, path)
    if name is not None and name in TEXT_READERS:
        return TEXT_READERS[name](text, path)
    if name is None or tree is None:
        wanted = f"not a {format} configuration" if format else "not a configuration of a known format"
        raise FileFormatError(f"{path}: {wanted}; known formats: {', '.join(CONFIG_FORMATS)}")
    return TREE_READERS[name](tree, text)


def read_megatron_yaml(tree: Tree) -> ConfigReport:
    """Read YAML that spells Megatron-LM arguments, nested or not, with or without leading dashes."""
    whole = resolve(tree)
    chosen = next((section(whole, name) for name in ("ARGS", "MODEL_ARGS") if section(whole, name)), whole)
    draft = Draft()
    fill_from_arguments(draft, Arguments(dict(leaves(chosen))))
    draft.ask("num_gpus", "the launcher decides it")
    ask_accelerator(draft)
    return draft.finish("megatron-yaml")


def load_tree(text: str) -> Tree | None:
    """Return the mapping that `text` spells as JSON, TOML or YAML, or None."""
    for load in (json.loads, tomllib.loads, yaml.safe_load):
        try:
            loaded = load(text)
        except (ValueError, yaml.YAMLError, RecursionError, TypeError, AttributeError, OverflowError):
            continue
        if isinstance(loaded, dict):
            return _bare({str(key): value for key, value in loaded.items()})
    return None


def _bare(tree: Tree) -> Tree:
    """Return a W&B run's `config.yaml`, where each setting is `{desc: ..., value: ...}`, as plain settings."""
    wrapped = {key: value["value"] for key, value in tree.items() if isinstance(value, dict) and "value" in value}
    return wrapped if len(wrapped) >= 3 and len(wrapped) >= len(tree) - 2 else tree


def detect_format(text: str, tree: Tree | None, path: str = "config") -> str | None:
    """Return the format of a configuration by what it contains, or None."""
    return (_tree_format(tree) if tree is not None else None) or _text_format(text, path)


def _tree_format(tree: Tree) -> str | None:
    keys = {key.replace("-", "_") for key in tree}
    rules: list[tuple[str, bool]] = [
        ("nanotron", {"parallelism", "tokens"} <= keys),
        ("torchtitan", "model" in keys and bool(keys & {"job", "training"}) and "flavor" in section(tree, "model")),
        ("nemo", "model" in keys and "trainer" in keys),
        ("gpt-neox", bool(keys & {"pipe_parallel_size", "model_parallel_size", "no_weight_tying", "rotary_pct"})),
        ("llm-foundry", _is_llm_foundry(tree, keys)),
        ("deepspeed", bool(keys & {"zero_optimization", "train_batch_size", "train_micro_batch_size_per_gpu"})),
        ("huggingface", bool(keys & {"model_type", "architectures"}) or {"hidden_size", "num_hidden_layers"} <= keys),
    ]
    found = next((name for name, holds in rules if holds), None)
    if found is None:
        names = {key.lstrip("-").replace("-", "_") for key, _value in leaves(tree)}
        found = "megatron-yaml" if len(TELLING & names) >= 3 else None
    return found


def _is_llm_foundry(tree: Tree, keys: set[str]) -> bool:
    if "parameters" in keys and "model" in section(tree, "parameters"):
        return True
    telling = {"global_train_batch_size", "train_loader", "fsdp_config", "device_train_microbatch_size", "max_duration"}
    return "model" in keys and bool(keys & telling)


def _text_format(text: str, path: str) -> str | None:
    if len(TELLING & parse_dump(text).keys()) >= 3:
        return "megatron-dump"
    reading = follow(text, path)
    if has_training_command(reading):
        return "megatron-script"
    names = reading.environment.variables.keys()
    return "mlperf" if len(MLPERF_TELLING & names) >= 2 or "DGXSYSTEM" in names else None


def _text_of(path: Path) -> str:
    try:
        if path.is_file() and path.stat().st_size > _MAX_BYTES:
            raise FileFormatError(f"{path}: larger than {_MAX_BYTES} bytes, not a configuration")
        return path.read_bytes().decode("utf-8", errors="replace")
    except (OSError, ValueError) as error:
        raise FileFormatError(f"{path}: cannot be read ({error})") from error
