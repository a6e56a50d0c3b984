"""MLPerf config scripts: environment variables such as `TENSOR_MODEL_PARALLEL`, `MINIBS`, `DGXNNODES`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from surrogate.ingest.configs.derive import BatchRule
from surrogate.ingest.configs.known_names import mlperf_model
from surrogate.ingest.configs.megatron_script import add_reading_notes, follow
from surrogate.ingest.configs.report import ConfigReport, Draft
from surrogate.ingest.configs.scalars import as_count, as_flag, as_text
from surrogate.ingest.configs.script_cluster import accelerator_names
from surrogate.ingest.configs.shape import complete_attention, complete_experts, complete_pipeline
from surrogate.ingest.configs.shell import ScriptReading

TELLING: Final = frozenset(
    ["MINIBS", "TENSOR_MODEL_PARALLEL", "PIPELINE_MODEL_PARALLEL", "DGXNNODES", "DGXSYSTEM", "DGXNGPU"]
)
"""Variable names that tell an MLPerf configuration from other scripts."""

_ACCELERATORS: Final = {
    "GB300": "GB300",
    "GB200": "GB200-186GB",
    "B300": "B300",
    "B200": "B200-180GB",
    "H200": "H200-141GB",
    "H100": "H100-80GB",
    "A100": "A100-80GB",
    "GH200": "GH200-96GB",
    "MI300X": "MI300X",
    "MI325X": "MI325X",
    "MI350X": "MI350X",
    "MI355X": "MI355X",
}
_SIZE: Final = re.compile(r"(?<![0-9.])(405|175|8)b(?![a-z0-9])", re.IGNORECASE)
_OTHER_TASK: Final = re.compile(r"(lora|671b|deepseek|gpt_oss|moe)", re.IGNORECASE)


def read_mlperf(text: str, path: str) -> ConfigReport:
    """Read an MLPerf config script; files it sources are read when they lie beside it."""
    reading = follow(text, path)
    variables = {name: reading.environment.scalar(name) for name in reading.environment.variables}
    draft = Draft()
    draft.put("framework", "nemo")
    _read_layout(draft, variables)
    _read_cluster(draft, variables, path)
    _read_model(draft, variables, path)
    _read_batch(draft, variables)
    _read_precision(draft, variables, reading)
    _read_knobs(draft, variables)
    add_reading_notes(draft, reading)
    return draft.finish("mlperf")


def _first(variables: Mapping[str, str | None], *names: str) -> str | None:
    return next((value for name in names if (value := as_text(variables.get(name)))), None)


def _read_layout(draft: Draft, variables: Mapping[str, str | None]) -> None:
    draft.count("tp", _first(variables, "TENSOR_MODEL_PARALLEL", "TP"))
    draft.count("pp", _first(variables, "PIPELINE_MODEL_PARALLEL", "PP"))
    draft.count("cp", _first(variables, "CONTEXT_PARALLEL", "CP"))
    draft.count("ep", _first(variables, "EXPERT_PARALLEL", "EP"))
    draft.count("expert_tp", _first(variables, "EXPERT_TENSOR_PARALLEL"))
    interleaved = _first(variables, "INTERLEAVED_PIPELINE", "VPP")
    if interleaved not in (None, "0"):
        draft.count("vp", interleaved)
    for column in ("tp", "pp", "cp", "ep"):
        draft.default(column, 1)
    draft.flag("sequence_parallel", _first(variables, "SEQ_PARALLEL"))
    draft.default("sequence_parallel", (draft.integer("tp") or 1) > 1)
    zero = as_flag(_first(variables, "USE_DIST_OPTIMIZER"))
    (draft.default if zero is None else draft.put)("zero_stage", int(zero is not False))
    if as_flag(variables.get("ASYM_PP_EMBED")) or as_flag(variables.get("ASYM_PP_LOSS")):
        draft.put("pipeline_layout", "embedding and loss counted as layers")


def _read_cluster(draft: Draft, variables: Mapping[str, str | None], path: str) -> None:
    nodes = as_count(_first(variables, "DGXNNODES", "NNODES"))
    gpus = draft.count("gpus_per_node", _first(variables, "DGXNGPU", "GPUS_PER_NODE"))
    named = accelerator_names([Path(path).name, _first(variables, "DGXSYSTEM") or ""])
    if gpus is None and named and named[0] in ("H100", "H200", "A100", "B200", "B300"):
        draft.default("gpus_per_node", 8)
        gpus = draft.integer("gpus_per_node")
    if nodes and gpus:
        draft.put("num_gpus", nodes * gpus)
    draft.ask("num_gpus", "DGXNNODES or DGXNGPU is set elsewhere")
    if named:
        draft.put("accelerator", _ACCELERATORS.get(named[0]))
        draft.note(f"accelerator {named[0]} is read from the file's name, which is the system's name (DGXSYSTEM)")
    draft.ask("accelerator", "the file's name (DGXSYSTEM) does not tell it")


def _read_model(draft: Draft, variables: Mapping[str, str | None], path: str) -> None:
    size = _first(variables, "MODEL_SIZE", "SIZE")
    if size is None and not _OTHER_TASK.search(path):
        found = _SIZE.search(path)
        size = f"{found.group(1)}b" if found else "175b" if "gpt3" in path.lower() else None
    shape = None if size is None or _OTHER_TASK.search(path) else mlperf_model(size)
    for column, value in (shape or {}).items():
        draft.put(column, value)
    draft.count("num_layers", _first(variables, "OVERWRITTEN_NUM_LAYERS"))
    draft.count("seq_len", _first(variables, "ENCODER_SEQ_LENGTH", "SEQ_LENGTH", "MAX_SEQLEN", "SEQ_LEN"))
    if shape:
        draft.note(f"the model's shape and sequence length are those of the benchmark's {size} model")
        complete_experts(draft)
    complete_attention(draft)
    complete_pipeline(draft)
    for column in ("num_layers", "hidden_size", "num_heads", "seq_len"):
        draft.ask(column, "the benchmark fixes the model; the script does not name its size (MODEL_SIZE)")


def _read_batch(draft: Draft, variables: Mapping[str, str | None]) -> None:
    draft.count("micro_batch_size", _first(variables, "MICRO_BATCH_SIZE", "MBS"))
    if draft.count("global_batch_size", _first(variables, "GBS", "GLOBAL_BATCH_SIZE")):
        return
    per_rank = as_count(_first(variables, "MINIBS"))
    draft.batch_rule = BatchRule(per_rank_batch_size=per_rank)
    draft.ask(
        "global_batch_size", f"MINIBS {per_rank} times the data-parallel size" if per_rank else "MINIBS is not set"
    )


def _read_precision(draft: Draft, variables: Mapping[str, str | None], reading: ScriptReading) -> None:
    fp4, fp8 = as_flag(variables.get("FP4")), as_flag(variables.get("FP8"))
    gathers_fp8 = as_flag(_first(variables, "FP8_PARAM_GATHER", "FP8_PARAMS"))
    recipe = (_first(variables, "FP8_RECIPE") or "").lower()
    if fp4:
        draft.put("precision", "nvfp4")
        draft.put("fp8_recipe", _first(variables, "FP4_RECIPE") or "nvfp4")
    elif fp8 or gathers_fp8 or recipe:
        draft.put("precision", "mxfp8" if recipe == "mxfp8" else "fp8")
        draft.put("fp8_recipe", {"tensorwise": "current"}.get(recipe, recipe) or None)
        draft.ask("fp8_recipe", "FP8_RECIPE is set in a file that was not read")
    elif fp8 is False:
        draft.put("precision", "bf16")
    else:
        names = ", ".join(Path(name).name for name in reading.unread_sources)
        draft.ask(
            "precision", f"FP8 is set in a sourced file that was not read ({names})" if names else "FP8 is not set"
        )
    if gathers_fp8:
        draft.put("param_gather_dtype", "fp8")


def _read_knobs(draft: Draft, variables: Mapping[str, str | None]) -> None:
    for column, names in {
        "tp_comm_overlap": ("TP_COMM_OVERLAP", "UB_TP_COMM_OVERLAP"),
        "overlap_grad_reduce": ("OVERLAP_GRAD_REDUCE",),
        "overlap_param_gather": ("OVERLAP_PARAM_GATHER",),
    }.items():
        draft.flag(column, _first(variables, *names))
    kind = (_first(variables, "RECOMPUTE_GRANULARITY", "ACT_CKPT_GRANULARITY") or "").lower()
    draft.put("recompute", kind if kind in ("full", "selective") else None)
    draft.default("recompute", "none")
    if draft.values["recompute"] != "none":
        draft.put("recompute_kind", "full" if kind == "full" else "core-attention")
    graphs = [
        name for name in ("FULL_CUDA_GRAPH", "LAYER_CUDA_GRAPH", "MCORE_CUDA_GRAPH") if as_flag(variables.get(name))
    ]
    if graphs:
        draft.put("cuda_graphs", "full" if "FULL_CUDA_GRAPH" in graphs else "local")
    draft.default("optimizer", "adam;distributed" if draft.values.get("zero_stage") == 1 else "adam")
    draft.default("cpu_offload", "none")
