"""Inverse questions: the largest value of a field that still fits, and the fewest accelerators."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from itertools import product
from typing import Final

import numpy as np
import pandas as pd

from surrogate.analytic.workload import BoolArray, FloatArray, Workload
from surrogate.errors import InputError, UnknownNameError
from surrogate.estimators.oom import DEFAULT_OOM_RISK
from surrogate.feasibility.candidates import (
    Changes,
    PlanPredictor,
    build_variants,
    consequences,
    current_settings,
    is_placeable,
)

MAXIMUM_FIELDS: Final = ("micro_batch_size", "seq_len", "global_batch_size", "model_layers")
MINIMUM_FIELDS: Final = ("num_gpus",)

MEMORY: Final = "memory"

COLUMN_OF: Final = {"model_layers": "num_layers"}

SEQ_LEN_STEP: Final = 256
"""Sequence lengths are multiples of it and of the pieces that context and sequence parallelism cut them into."""

DOUBLINGS: Final = 12
"""The search goes up to 4096 times the plan's value before it says that memory sets no bound."""

POINTS_PER_ROUND: Final = 64
"""Candidates of one call to the predictor."""

MAX_ROUNDS: Final = 8


@dataclass(frozen=True, kw_only=True, slots=True)
class InverseAnswer:
    """The answer to one inverse question."""

    field: str
    value: int | None
    """Largest (or fewest) that fits; None when not even the smallest tried does."""
    changes: Changes
    """The plan's columns to set; None drops one."""
    bounded_by_memory: bool
    """False when the search met another end first."""
    limit: str
    """What bounds the value, in words: memory, the sequences of a rank, what can be placed, or the search's end."""
    oom_probability: float
    peak_memory_bytes: float
    step_time_s: float
    next_value: int | None
    """The first value beyond that does not fit; where nothing fits, the most favourable one tried."""
    next_oom_probability: float
    evaluated: int
    """Plans predicted."""

    def to_dict(self) -> dict[str, object]:
        """Return the answer for JSON: what is not a number is None."""
        fields = asdict(self) | {"changes": dict(self.changes)}
        return {name: None if isinstance(value, float) and np.isnan(value) else value for name, value in fields.items()}


@dataclass(frozen=True, kw_only=True, slots=True)
class _Trial:
    """Predictions of candidate values in ascending order; arrays of shape (n,)."""

    tried: FloatArray
    fits: BoolArray
    table: pd.DataFrame
    changes: list[Changes]


def largest_that_fits(
    plan: pd.DataFrame, field: str, predict: PlanPredictor, *, oom_risk: float = DEFAULT_OOM_RISK
) -> InverseAnswer:
    """Find the largest value of a field under which the plan still fits.

    Parameters
    ----------
    plan : DataFrame of one row
        Canonical columns.
    field : str
        One of `MAXIMUM_FIELDS`.
    predict : PlanPredictor
        Called a few times with tens of variants.
    oom_risk : float
        Largest probability of running out of memory that counts as fitting.

    Notes
    -----
    The answer and every smaller value tried fit. Micro-batches divide the rank's sequences; sequences and layers move
    in steps the layout can place; the global batch grows by whole micro-batches of every rank.

    Raises
    ------
    UnknownNameError
        If the question is not known.
    InputError
        If `plan` is not one row.
    """
    if field not in MAXIMUM_FIELDS:
        raise UnknownNameError("of", field, MAXIMUM_FIELDS)
    settings = current_settings(plan)
    evaluated = 0

    def attempt(values: FloatArray) -> _Trial:
        nonlocal evaluated
        trial = _try_values(plan, COLUMN_OF.get(field, field), values, predict, oom_risk)
        evaluated += len(trial.tried)
        return trial

    trial = _search(_candidates(field, settings), attempt)
    return _answer(field, trial, evaluated, _other_limit(field, settings))


def smallest_that_fits(
    plan: pd.DataFrame, field: str, predict: PlanPredictor, *, oom_risk: float = DEFAULT_OOM_RISK
) -> InverseAnswer:
    """Find the fewest accelerators on which the plan fits, its layout being free.

    Parameters
    ----------
    plan : DataFrame of one row
        Canonical columns.
    field : str
        One of `MINIMUM_FIELDS`.
    predict : PlanPredictor
        Called once.
    oom_risk : float
        Largest probability of running out of memory that counts as fitting.

    Notes
    -----
    Tensor, pipeline and data parallelism are free (tensor parallelism inside the fast domain); all else stays. Among
    layouts on as few accelerators, the fastest is given.

    Raises
    ------
    UnknownNameError, InputError
        As `largest_that_fits`.
    """
    if field not in MINIMUM_FIELDS:
        raise UnknownNameError("of", field, MINIMUM_FIELDS)
    changes = _layouts(current_settings(plan))
    variants = build_variants(plan, changes)
    placeable = np.flatnonzero(is_placeable(variants))
    table = predict(variants.iloc[placeable].reset_index(drop=True)).reset_index(drop=True)
    gpus = variants["num_gpus"].to_numpy(dtype=np.float64)[placeable]
    fits = table["oom_probability"].to_numpy(dtype=np.float64) <= oom_risk
    if not fits.any():
        most = gpus == gpus.max(initial=0.0)
        risk = float(table["oom_probability"][most].min()) if most.any() else np.nan
        return _nothing_fits(field, len(table), int(gpus[most][0]) if most.any() else None, risk)
    fewest = gpus[fits].min()
    best = int(np.nanargmin(np.where(fits & (gpus == fewest), table["step_time_s"], np.nan)))
    fewer = gpus[gpus < fewest]
    risk_below = float(table["oom_probability"][gpus == fewer.max()].min()) if fewer.size else np.nan
    return InverseAnswer(
        field=field,
        value=int(fewest),
        changes=_complete(plan, variants, int(placeable[best]), changes[placeable[best]]),
        bounded_by_memory=bool(fewer.size),
        limit=MEMORY if fewer.size else "no layout on fewer accelerators can be placed",
        oom_probability=float(table["oom_probability"][best]),
        peak_memory_bytes=float(table["peak_memory_bytes"][best]),
        step_time_s=float(table["step_time_s"][best]),
        next_value=int(fewer.max()) if fewer.size else None,
        next_oom_probability=risk_below,
        evaluated=len(table),
    )


def _candidates(field: str, w: Workload) -> FloatArray:
    """List the values a field may take, ascending; the workload has one row."""
    if field == "micro_batch_size":
        sequences = int(w.global_batch_size[0] / w.dp[0])
        return np.array([size for size in range(1, sequences + 1) if sequences % size == 0], dtype=np.float64)
    pieces = 2 * int(w.cp[0]) * (int(w.tp[0]) if w.sequence_parallel[0] else 1)
    rounds = w.pp[0] if w.vp[0] > 1 else 1.0
    step, start = {
        "seq_len": (np.lcm(SEQ_LEN_STEP, pieces), w.seq_len[0]),
        "global_batch_size": (w.dp[0] * w.micro_batch_size[0] * rounds, w.global_batch_size[0]),
        "model_layers": (w.pp[0] * w.vp[0], w.num_layers[0]),
    }[field]
    count = max(1, int(start / step)) * 2**DOUBLINGS
    values: FloatArray = step * np.arange(1, count + 1, dtype=np.float64)
    least = float(w.num_dense_layers[0]) if field == "model_layers" and w.num_experts[0] > 0 else 0.0
    return values[values >= least]


def _search(candidates: FloatArray, attempt: Callable[[FloatArray], _Trial]) -> _Trial:
    """Narrow the first value that does not fit down to one step, tens of values at a time."""
    low, high = 0, len(candidates)
    known: list[_Trial] = []
    for _ in range(MAX_ROUNDS):
        span = np.unique(np.geomspace(low + 1, high, POINTS_PER_ROUND).astype(int)) - 1
        trial = attempt(candidates[span])
        known.append(trial)
        failing = np.flatnonzero(~trial.fits)
        if failing.size == 0:
            break
        first = int(span[np.searchsorted(candidates[span], trial.tried[failing[0]])])
        before = span[span < first]
        low, high = (int(before[-1]) if before.size else 0), first + 1
        if high - low <= 2:
            break
    return _merged(known)


def _try_values(plan: pd.DataFrame, column: str, values: FloatArray, predict: PlanPredictor, oom_risk: float) -> _Trial:
    """Predict the values that the layout can place."""
    asked = [{column: int(value)} for value in values]
    variants = build_variants(plan, asked)
    placeable = np.flatnonzero(is_placeable(variants))
    if placeable.size == 0:
        rule = "must leave a layout that its framework can place"
        raise InputError(column, rule, int(values[0]), "`surrogate search` lists the layouts that can be placed")
    table = predict(variants.iloc[placeable].reset_index(drop=True)).reset_index(drop=True)
    fits = table["oom_probability"].to_numpy(dtype=np.float64) <= oom_risk
    changes = [_complete(plan, variants, int(row), asked[row]) for row in placeable]
    return _Trial(tried=values[placeable], fits=fits, table=table, changes=changes)


def _complete(plan: pd.DataFrame, variants: pd.DataFrame, row: int, change: Changes) -> Changes:
    return {**change, **consequences(plan, variants, row, change)}


def _merged(trials: list[_Trial]) -> _Trial:
    values = np.concatenate([trial.tried for trial in trials])
    unique, index = np.unique(values, return_index=True)
    fits = np.concatenate([trial.fits for trial in trials])[index]
    table = pd.concat([trial.table for trial in trials], ignore_index=True).iloc[index].reset_index(drop=True)
    changes = [change for trial in trials for change in trial.changes]
    return _Trial(tried=unique, fits=fits, table=table, changes=[changes[position] for position in index])


def _other_limit(field: str, w: Workload) -> str:
    """Say what ends a search that memory does not; the workload has one row."""
    if field == "micro_batch_size":
        sequences = int(w.global_batch_size[0] / w.dp[0])
        return f"no larger one divides the {sequences} sequences of a rank into micro-batches that can be placed"
    return f"the search ends at {2**DOUBLINGS:,} times the plan's value"


def _answer(field: str, trial: _Trial, evaluated: int, other_limit: str) -> InverseAnswer:
    failing = np.flatnonzero(~trial.fits)
    beyond = int(failing[0]) if failing.size else None
    best = (len(trial.tried) if beyond is None else beyond) - 1
    next_value = None if beyond is None else int(trial.tried[beyond])
    next_risk = np.nan if beyond is None else float(trial.table["oom_probability"][beyond])
    if best < 0:
        return _nothing_fits(field, evaluated, next_value, next_risk)
    value = int(trial.tried[best])
    return InverseAnswer(
        field=field,
        value=value,
        changes=trial.changes[best],
        bounded_by_memory=beyond is not None,
        limit=other_limit if beyond is None else MEMORY,
        oom_probability=float(trial.table["oom_probability"][best]),
        peak_memory_bytes=float(trial.table["peak_memory_bytes"][best]),
        step_time_s=float(trial.table["step_time_s"][best]),
        next_value=next_value,
        next_oom_probability=next_risk,
        evaluated=evaluated,
    )


def _nothing_fits(field: str, evaluated: int, next_value: int | None, next_risk: float) -> InverseAnswer:
    return InverseAnswer(
        field=field,
        value=None,
        changes={},
        bounded_by_memory=True,
        limit=MEMORY,
        oom_probability=np.nan,
        peak_memory_bytes=np.nan,
        step_time_s=np.nan,
        next_value=next_value,
        next_oom_probability=next_risk,
        evaluated=evaluated,
    )


def _layouts(w: Workload) -> list[Changes]:
    """Enumerate tensor, pipeline and data parallel sizes; the workload has one row."""
    sequences = int(w.global_batch_size[0] / w.micro_batch_size[0])
    cp = int(w.cp[0])
    tensor = [size for size in (2**power for power in range(7)) if size <= w.fast_domain_gpus[0]]
    pipeline = [size for size in range(1, int(w.num_layers[0]) + 1) if w.num_layers[0] % size == 0]
    data = [size for size in range(1, sequences + 1) if sequences % size == 0]
    most = int(w.num_gpus[0]) * 4
    return [
        {"num_gpus": tp * pp * cp * dp, "tp": tp, "pp": pp}
        for tp, pp, dp in product(tensor, pipeline, data)
        if tp * pp * cp * dp <= most
    ]
