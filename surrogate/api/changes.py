"""Single changes of a plan, each with its predicted effect: what would make it faster, slower, or explain a gap."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from surrogate.analytic.workload import Precision, Recompute, Workload
from surrogate.api.predictor import Predictor
from surrogate.features.workload import prepare_runs
from surrogate.schema import COLUMN_BY_NAME

Values = Mapping[str, object]


@dataclass(frozen=True, kw_only=True, slots=True)
class Effect:
    """One change and what it would do."""

    change: str
    """In words, as the state that the run would then be in."""
    values: Values
    """Plan fields with the change."""
    step_time_s: float
    ratio: float
    """Step time with the change over step time without."""
    peak_memory_bytes: float


def effects_of_changes(plan: pd.DataFrame, predictor: Predictor) -> list[Effect]:
    """Predict every single change of one plan that can be placed, the fastest first.

    Parameters
    ----------
    plan : DataFrame of one row
        Canonical columns.
    predictor : Predictor
        Called once, with the plan and its variants.
    """
    changes = list(possible_changes(prepare_runs(plan).workload))
    table = predictor.predict_frame(with_changes(plan, [values for _, values in changes]))
    seconds = table["step_time_s"].to_numpy(dtype=np.float64)
    peaks = table["peak_memory_bytes"].to_numpy(dtype=np.float64)
    effects = [
        Effect(
            change=words,
            values=values,
            step_time_s=float(seconds[row]),
            ratio=float(seconds[row] / seconds[0]),
            peak_memory_bytes=float(peaks[row]),
        )
        for row, (words, values) in enumerate(changes, start=1)
    ]
    return sorted(effects, key=lambda effect: effect.ratio)


def with_changes(plan: pd.DataFrame, changes: Sequence[Values]) -> pd.DataFrame:
    """Return the plan itself and one row per change, with the dtypes of the schema."""
    rows = pd.concat([plan] * (len(changes) + 1), ignore_index=True)
    fields = sorted({name for values in changes for name in values})
    columns: dict[str, pd.Series] = {}
    for name in fields:
        before = plan[name].iloc[0] if name in plan else None
        values = [before, *(values.get(name, before) for values in changes)]
        columns[name] = pd.Series(values, dtype=object).astype(COLUMN_BY_NAME[name].kind.value)
    return rows.assign(**columns)


def possible_changes(w: Workload) -> Iterator[tuple[str, Values]]:
    """Yield words and values of each single change that the one configuration of `w` allows."""
    yield from _compute_changes(w)
    yield from _overlap_changes(w)
    yield from _pipeline_changes(w)
    yield from _hardware_changes(w)


def _compute_changes(w: Workload) -> Iterator[tuple[str, Values]]:
    recompute = Recompute(int(w.recompute[0]))
    if recompute is not Recompute.FULL:
        yield "every layer is recomputed", _recompute("full")
    if recompute is not Recompute.NONE:
        yield "nothing is recomputed", _recompute("none")
    if recompute in (Recompute.NONE, Recompute.FULL):
        yield "attention is recomputed", _recompute("selective")
    if w.flash_attention[0]:
        yield "attention is not fused", {"flash_attention": False, "attention_backend": None}
    else:
        yield "attention is fused", {"flash_attention": True, "attention_backend": None}
    if Precision(int(w.precision[0])) in (Precision.FP8, Precision.FP4, Precision.MXFP8):
        yield "matrix products run in bf16", {"precision": "bf16", "fp8_recipe": None}
    if w.cuda_graphs[0] > 0.0:
        yield "CUDA graphs are off", {"cuda_graphs": "none"}
    elif w.compiled[0] < 1.0:
        yield "CUDA graphs are on", {"cuda_graphs": "full"}


def _recompute(kind: str) -> Values:
    return {"recompute": kind, "recompute_kind": None, "recompute_layers": None, "recompute_modules": None}


def _overlap_changes(w: Workload) -> Iterator[tuple[str, Values]]:
    has_replicas = w.dp[0] * w.cp[0] > 1.0
    asked = [
        ("gradient reduction", "overlap_grad_reduce", has_replicas),
        ("parameter gathering", "overlap_param_gather", has_replicas and w.zero_stage[0] > 0),
        ("tensor parallel communication", "tp_comm_overlap", w.tp[0] > 1.0),
        ("expert parallel communication", "ep_overlap", w.ep[0] > 1.0),
    ]
    for name, field, concerns in asked:
        share = float(getattr(w, field)[0])
        if concerns and share > 0.0:
            yield f"{name} does not overlap", {field: False}
        if concerns and share < 1.0:
            yield f"{name} overlaps", {field: True}


def _pipeline_changes(w: Workload) -> Iterator[tuple[str, Values]]:
    layers, pp, vp = (int(value[0]) for value in (w.num_layers, w.pp, w.vp))
    if pp > 1 and vp > 1:
        yield "the pipeline does not interleave", {"vp": 1, "pipeline_schedule": "1f1b", "pipeline_layout": None}
    if pp > 1 and layers % (pp * vp * 2) == 0:
        words = f"the pipeline interleaves {vp * 2} chunks"
        yield words, {"vp": vp * 2, "pipeline_schedule": "interleaved-1f1b", "pipeline_layout": None}
    micro, sequences = int(w.micro_batch_size[0]), int(w.global_batch_size[0] // w.dp[0])
    if sequences % (micro * 2) == 0:
        yield f"micro-batches of {micro * 2}", {"micro_batch_size": micro * 2}
    if micro % 2 == 0:
        yield f"micro-batches of {micro // 2}", {"micro_batch_size": micro // 2}


def _hardware_changes(w: Workload) -> Iterator[tuple[str, Values]]:
    if w.num_gpus[0] > w.gpus_per_node[0]:
        per_node = float(w.network_bytes_per_s[0] * w.gpus_per_node[0])
        yield "the network runs at half its rate", {"inter_node_bytes_per_s": per_node / 2.0}
        yield "the network runs at an eighth of its rate", {"inter_node_bytes_per_s": per_node / 8.0}
