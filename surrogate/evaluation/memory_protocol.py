"""How well memory and its risk are predicted out of sample, beside the rule of 16 bytes per parameter.

Two splits: five folds that keep each `split_group` whole, and leaving one source out. Only rows that can be scored take
part: published peaks, and all rows of the sources that report running out of memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import GroupKFold

from surrogate.analytic.model_parameters import model_parameters
from surrogate.analytic.workload import FloatArray, IntArray, Workload
from surrogate.errors import InputError
from surrogate.estimators.memory_model import MemoryModel
from surrogate.estimators.memory_model_sites import read_observations
from surrogate.estimators.oom import DEFAULT_OOM_RISK
from surrogate.features.workload import prepare_runs

NAIVE_BYTES_PER_PARAMETER: Final = 16.0
NUM_FOLDS: Final = 5
NUM_BINS: Final = 5
MAIN_SOURCE: Final = "aleph-alpha-want-2023"
"""It holds 470 of 485 out-of-memory rows: every average without it is reported too."""

Split = tuple[IntArray, IntArray]


@dataclass(frozen=True, kw_only=True, slots=True)
class MemoryEvaluation:
    """Out-of-sample scores of memory."""

    rows: pd.DataFrame
    """One row per run and protocol: peaks with intervals, risk, outcome, and the naive rule's figures."""
    peaks: pd.DataFrame
    """Per protocol and slice: errors of the peak, coverage and width of the 90 % interval, the naive rule's error."""
    outcomes: pd.DataFrame
    """Per protocol, slice and method: ROC AUC, Brier score, accuracy at even odds and at 5 % risk."""
    reliability: pd.DataFrame
    """Per protocol and slice, for each fifth of predicted risk: rows, mean prediction, observed frequency."""


def evaluate_memory(
    runs: pd.DataFrame,
    *,
    make_model: Callable[[], MemoryModel] = MemoryModel,
    random_state: int = 0,
    on_fit: Callable[[int, int], None] | None = None,
) -> MemoryEvaluation:
    """Score the memory model out of sample, grouped and leaving one source out.

    Parameters
    ----------
    runs : DataFrame of n rows
        Canonical columns; rows that say nothing about memory are left aside.
    make_model : callable
        Gives an unfitted model for every fold.
    random_state : int
        Seed of the folds.
    on_fit : callable, optional
        Called with the number of fits done and to do after each.

    Raises
    ------
    InputError
        If fewer than five groups of rows can be scored.
    """
    scored = _scored_rows(runs)
    workload = prepare_runs(scored).workload
    splits = {
        "grouped": list(_grouped_splits(scored, random_state)),
        "leave-one-source-out": list(_source_splits(scored)),
    }
    total, done = sum(len(folds) for folds in splits.values()), 0
    parts = []
    for protocol, folds in splits.items():
        for train, test in folds:
            parts.append(_predict_fold(scored, workload, (train, test), make_model()).assign(protocol=protocol))
            done += 1
            if on_fit is not None:
                on_fit(done, total)
    rows = pd.concat(parts, ignore_index=True)
    return MemoryEvaluation(
        rows=rows,
        peaks=_by_slice(rows[rows["measured_peak_bytes"].notna()], _peak_scores),
        outcomes=_outcome_table(rows),
        reliability=_reliability_table(rows),
    )


def naive_device_bytes(workload: Workload) -> FloatArray:
    """Predict memory by the rule of thumb: 16 bytes per parameter over the GPUs (shape (n,))."""
    return NAIVE_BYTES_PER_PARAMETER * model_parameters(workload).total / workload.num_gpus


def _scored_rows(runs: pd.DataFrame) -> pd.DataFrame:
    observations = read_observations(runs)
    reporting = np.unique(observations.source[observations.out_of_memory])
    scored = np.isfinite(observations.log_peak) | np.isin(observations.source, reporting)
    if len(np.unique(observations.group[scored])) < NUM_FOLDS:
        raise InputError(
            "runs", f"must hold at least {NUM_FOLDS} groups with a published peak or outcome", int(scored.sum())
        )
    return runs[scored].reset_index(drop=True)


def _grouped_splits(runs: pd.DataFrame, random_state: int) -> Iterator[Split]:
    folds = GroupKFold(NUM_FOLDS, shuffle=True, random_state=random_state)
    yield from folds.split(runs, groups=read_observations(runs).group)


def _source_splits(runs: pd.DataFrame) -> Iterator[Split]:
    """Leave out one source at a time; a single source leaves nothing to learn from."""
    source = read_observations(runs).source
    names = np.unique(source)
    for name in names if len(names) > 1 else ():
        yield np.flatnonzero(source != name), np.flatnonzero(source == name)


def _predict_fold(runs: pd.DataFrame, workload: Workload, split: Split, model: MemoryModel) -> pd.DataFrame:
    train, test = split
    observed, held_out = read_observations(runs.iloc[test]), workload.take(test)
    model.fit(runs.iloc[train], workload.take(train))
    prediction = model.predict(runs.iloc[test], held_out, kind=observed.kind)
    naive = naive_device_bytes(held_out)
    return pd.DataFrame(
        {
            "run_id": runs["run_id"].to_numpy()[test],
            "source": observed.source,
            "peak_memory_kind": observed.kind,
            "measured_peak_bytes": np.exp(observed.log_peak),
            "predicted_peak_bytes": prediction.peak_bytes,
            "lower_bytes": prediction.lower_bytes,
            "upper_bytes": prediction.upper_bytes,
            "naive_bytes": naive,
            "out_of_memory": observed.out_of_memory,
            "oom_probability": prediction.oom_probability,
            "naive_fill_fraction": naive / held_out.hbm_bytes,
        }
    )


def _by_slice(rows: pd.DataFrame, score: Callable[[pd.DataFrame], dict[str, float]]) -> pd.DataFrame:
    """Apply a score to every protocol and slice: all rows, the main source, the others, each source."""
    table = []
    for protocol, part in rows.groupby("protocol", sort=False):
        main = part["source"] == MAIN_SOURCE
        others = {"all but " + MAIN_SOURCE: part[~main]} if main.any() else {}
        slices = {"all": part, **others, **{str(name): piece for name, piece in part.groupby("source")}}
        table += [
            {"protocol": protocol, "slice": name, "rows": len(piece), **score(piece)}
            for name, piece in slices.items()
            if len(piece)
        ]
    return pd.DataFrame(table)


def _peak_scores(rows: pd.DataFrame) -> dict[str, float]:
    measured = rows["measured_peak_bytes"]
    error = (rows["predicted_peak_bytes"] / measured - 1.0).abs()
    log_error = np.log(rows["predicted_peak_bytes"] / measured)
    covered = measured.between(rows["lower_bytes"], rows["upper_bytes"])
    return {
        "mape": float(error.mean()),
        "median_ape": float(error.median()),
        "p90_ape": float(error.quantile(0.9)),
        "mean_abs_log": float(np.abs(log_error).mean()),
        "mean_log": float(log_error.mean()),
        "mape_of_source_means": float(error.groupby(rows["source"]).mean().mean()),
        "coverage_90": float(covered.mean()),
        "mean_log_width": float(np.log(rows["upper_bytes"] / rows["lower_bytes"]).mean()),
        "naive_mape": float((rows["naive_bytes"] / measured - 1.0).abs().mean()),
    }


def _mixed_sources(rows: pd.DataFrame) -> pd.DataFrame:
    """Rows of sources with both outcomes."""
    share = rows.groupby("source")["out_of_memory"].transform("mean")
    return rows[share.between(0.0, 1.0, inclusive="neither")]


def _outcome_table(rows: pd.DataFrame) -> pd.DataFrame:
    mixed = _mixed_sources(rows)
    if mixed.empty:
        return pd.DataFrame()
    model = _by_slice(mixed.assign(score=mixed["oom_probability"], risk=mixed["oom_probability"]), _outcome_scores)
    naive_verdict = (mixed["naive_fill_fraction"] > 1.0).astype(float)
    naive = _by_slice(mixed.assign(score=mixed["naive_fill_fraction"], risk=naive_verdict), _outcome_scores)
    return pd.concat([model.assign(method="model"), naive.assign(method="16 bytes per parameter")], ignore_index=True)


def _outcome_scores(rows: pd.DataFrame) -> dict[str, float]:
    outcome, risk = rows["out_of_memory"].to_numpy(dtype=bool), rows["risk"].to_numpy()
    refused = risk > DEFAULT_OOM_RISK
    return {
        "out_of_memory": int(outcome.sum()),
        "roc_auc": float(roc_auc_score(outcome, rows["score"])) if 0 < outcome.sum() < len(outcome) else np.nan,
        "brier": float(np.mean((risk - outcome) ** 2)),
        "accuracy": float(np.mean((risk > 0.5) == outcome)),
        "accuracy_at_5_percent_risk": float(np.mean(refused == outcome)),
        "missed_at_5_percent_risk": int((outcome & ~refused).sum()),
    }


def _reliability_table(rows: pd.DataFrame) -> pd.DataFrame:
    mixed = _mixed_sources(rows)
    table = []
    for (protocol, name), piece in _protocol_slices(mixed):
        risk = piece["oom_probability"].to_numpy()
        outcome = piece["out_of_memory"].to_numpy(dtype=float)
        fifth = np.minimum((risk * NUM_BINS).astype(int), NUM_BINS - 1)
        for index in np.unique(fifth):
            table.append(_reliability_row(protocol, name, index, risk[fifth == index], outcome[fifth == index]))
    return pd.DataFrame(table)


def _protocol_slices(rows: pd.DataFrame) -> Iterator[tuple[tuple[str, str], pd.DataFrame]]:
    for protocol, part in rows.groupby("protocol", sort=False):
        main = part["source"] == MAIN_SOURCE
        apart = {MAIN_SOURCE: part[main], "all but " + MAIN_SOURCE: part[~main]} if main.any() else {}
        slices = {"all": part, **apart}
        yield from (((str(protocol), name), piece) for name, piece in slices.items() if len(piece))


def _reliability_row(
    protocol: str, name: str, index: int, risk: NDArray[np.float64], outcome: NDArray[np.float64]
) -> dict[str, object]:
    return {
        "protocol": protocol,
        "slice": name,
        "from_risk": index / NUM_BINS,
        "to_risk": (index + 1) / NUM_BINS,
        "rows": len(risk),
        "mean_risk": float(risk.mean()),
        "observed_frequency": float(outcome.mean()),
        "gap": float(risk.mean() - outcome.mean()),
    }
