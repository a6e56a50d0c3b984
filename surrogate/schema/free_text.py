"""Settings that a table says only in words: read from its `variant` and `notes` where it has no column for them.

What published tables call their settings is a small vocabulary. A column that the table has, even if it is empty in a
row, is the table's own answer and is left alone.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

import pandas as pd

_TEXT_COLUMNS: Final = ("variant", "notes")


@dataclass(frozen=True, slots=True)
class Phrase:
    """A phrase and the value of the column that it gives; None takes what the first group matched."""

    column: str
    pattern: str
    value: str | None = None

    def read(self, text: str) -> str | None:
        """Return the column's value, None where the phrase does not occur."""
        found = re.search(self.pattern, text, re.IGNORECASE)
        if found is None:
            return None
        return self.value if self.value is not None else found.group(1)


PHRASES: Final = (
    Phrase("fsdp", r"\bfsdp\s?2\b", "fsdp2"),
    Phrase("fsdp", r"fsdp=0\b", "none"),
    Phrase("fsdp", r"fsdp (over|inside) (the|a) slice|\b(ici|dcn)_fsdp|\bdp \d+ x fsdp (?!1\b)\d", "gspmd"),
    Phrase("fsdp", r"fsdp mixed_precision|mixed_precision (default|pure)", "fsdp1"),
    Phrase("hsdp_shard", r"sharding group (\d+)"),
    Phrase("expert_tp", r"\betp\)? (\d+)"),
    Phrase("compiled", r"\bno torch\.compile", "false"),
    Phrase("compiled", r"torch\.compile", "true"),
    Phrase("recompute_kind", r"per-op (selective ac|sac)|selective ac per op|\(selective op\)", "op-selective"),
    Phrase("recompute_kind", r"recompute modules[^:;]*: core_attn *(;|$)", "core-attention"),
    Phrase("recompute_kind", r"recompute modules[^:;]*: (?!none)\w", "modules"),
    Phrase("attention_backend", r"flexattn|flex attention", "flex"),
    Phrase("attention_backend", r"attention/norm kernel: torch", "torch"),
    Phrase("attention_backend", r"attention/norm kernel: fused", "megatron"),
    Phrase("attention_backend", r"flash_attentionv1|flash.?attention.?1\b", "flash1"),
    Phrase("attention_backend", r"flash.?attention.?2\b", "flash2"),
    Phrase("attention_backend", r"cudnn_flash|cudnn flash", "cudnn"),
    Phrase("attention_backend", r"(?<!without )flash[ _]attention\b", "flash"),
    Phrase("fused_norm", r"\+ rms kernel", "true"),
    Phrase("fused_norm", r"attention/norm kernel: (?!.*rms kernel)", "false"),
    Phrase("fp8_recipe", r"\bmxfp8\b", "mxfp8"),
    Phrase("fp8_recipe", r"\bnvfp4\b", "nvfp4"),
    Phrase("fp8_recipe", r"\browwise\b", "rowwise"),
    Phrase("fp8_recipe", r"fp8[- ]blockwise", "blockwise"),
    Phrase("fp8_recipe", r"fp8[- ]current[- ]scaling|\btensorwise\b", "current"),
    Phrase("fp8_recipe", r"fp8 hybrid|fp8 recipe te default|delayed scaling", "delayed"),
    Phrase("moe_dispatcher", r"\bhybridep\b", "hybridep"),
    Phrase("moe_dispatcher", r"\bdeepep\b", "deepep"),
    Phrase("moe_dispatcher", r"\bmegablox\b", "megablox"),
    Phrase("ep_overlap", r"\bep overlap off\b", "false"),
    Phrase("ep_overlap", r"\bep overlap( on\b|,)", "true"),
    Phrase("moe_force_balance", r"(fake|forced?)[- ]balanced?", "true"),
    Phrase("cuda_graphs", r"\bper-layer cuda graphs", "local"),
    Phrase("cuda_graphs", r"\bte cuda graphs", "te"),
    Phrase("cuda_graphs", r"\bcuda graphs", "full"),
    Phrase("optimizer", r"8-bit adam|bnb-optimizer", "adam-8bit"),
    Phrase("param_gather_dtype", r"fp8 all-gather|float8 all-gather", "fp8"),
    Phrase("grad_reduce_dtype", r"fp32 grad(ient)?[- ]accumulation", "fp32"),
)
"""The first phrase of a column that occurs gives its value."""

_MODULES: Final = re.compile(r"recompute modules[^:;]*: (?!none)([\w, ]+)", re.IGNORECASE)
_GRAPHED: Final = re.compile(r"te cuda graphs on ([\w +]+)", re.IGNORECASE)
_REMAT: Final = re.compile(r"\bremat(?:[_ ]policy)?[= ](?!full\b|default\b)(\w+)", re.IGNORECASE)
_PAX_POLICY: Final = re.compile(r"checkpoint policy (\w+)", re.IGNORECASE)
_POD: Final = re.compile(r"\s*pod (\d+)", re.IGNORECASE)
_POD_COLUMN: Final = "nvlink_domain_gpus"


def with_said_settings(table: pd.DataFrame) -> pd.DataFrame:
    """Return the table with the columns that it lacks and its `variant` or `notes` speak of.

    Parameters
    ----------
    table : DataFrame of n rows
        As read. ``pod 256`` in `nvlink_domain_gpus` is read as the pod's 256 accelerators.

    Returns
    -------
    DataFrame of n rows
        New columns hold text, or nothing where a row's words do not speak of them.
    """
    if _POD_COLUMN in table and not pd.api.types.is_numeric_dtype(table[_POD_COLUMN].dtype):
        table = table.assign(**{_POD_COLUMN: table[_POD_COLUMN].map(_pod_size)})
    spoken = [name for name in _TEXT_COLUMNS if name in table]
    if not spoken or table.empty:
        return table
    words = table[spoken].astype("object").fillna("").astype(str).agg("; ".join, axis=1)
    codes, distinct = pd.factorize(words)
    read = pd.DataFrame([_settings(text) for text in distinct]).reindex(columns=list(_COLUMNS))
    added = [name for name in _COLUMNS if name not in table and read[name].notna().any()]
    return table.assign(**{name: read[name].to_numpy(dtype=object)[codes] for name in added})


def _settings(text: str) -> dict[str, str]:
    """Return the settings that a text speaks of, by column."""
    found: dict[str, str] = {}
    for phrase in PHRASES:
        if phrase.column not in found and (value := phrase.read(text)) is not None:
            found[phrase.column] = value
    if modules := _MODULES.search(text):
        found["recompute_modules"] = ";".join(re.split(r"[, ]+", modules.group(1).strip()))
    elif policy := _REMAT.search(text):
        found["recompute_modules"] = f"maxtext:{policy.group(1)}"
    elif policy := _PAX_POLICY.search(text):
        found["recompute_modules"] = f"pax:{policy.group(1)}"
    if graphed := _GRAPHED.search(text):
        found["cuda_graphs"] = "te:" + "+".join(re.split(r"[ +]+", graphed.group(1).strip()))
    return found


def _pod_size(value: object) -> object:
    found = _POD.match(value) if isinstance(value, str) else None
    return found.group(1) if found else value


_COLUMNS: Final = tuple(dict.fromkeys([*(phrase.column for phrase in PHRASES), "recompute_modules"]))
