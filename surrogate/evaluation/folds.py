"""What is trained on and what is asked then: folds that never separate the rows of a `split_group`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import pandas as pd
from sklearn.model_selection import GroupKFold

from surrogate.analytic.workload import BoolArray, IntArray
from surrogate.errors import InputError

NO_ROWS: IntArray = np.zeros(0, dtype=np.int64)


@dataclass(frozen=True, kw_only=True, slots=True)
class OwnRuns:
    """Measured runs of the target's site that a trained predictor is conditioned on.

    Either `rows` names them, or the predictor chooses `count` of `candidates` from their inputs only.
    """

    rows: IntArray = field(default_factory=lambda: NO_ROWS)
    candidates: IntArray = field(default_factory=lambda: NO_ROWS)
    count: int = 0


NO_OWN_RUNS = OwnRuns()


@dataclass(frozen=True, kw_only=True, slots=True)
class Query:
    """Rows to predict with one trained predictor, after it was shown some own runs."""

    protocol: str
    test: IntArray
    variant: str = ""
    draw: int = 0
    own: OwnRuns = NO_OWN_RUNS


@dataclass(frozen=True, kw_only=True, slots=True)
class Fold:
    """One training set and the queries it answers; `left_out` says what it never saw."""

    left_out: str
    train: IntArray
    queries: tuple[Query, ...]


def timed_runs(runs: pd.DataFrame) -> pd.DataFrame:
    """Return the rows with a measured step time under a fresh index, their publisher family filled from the source.

    Raises
    ------
    InputError
        If fewer than two `split_group`s have a measured time.
    """
    timed = runs[runs["measured_step_time_s"].notna()].reset_index(drop=True)
    if timed["split_group"].nunique() < 2:
        raise InputError("runs", "must hold at least two different configurations with a step time", len(timed))
    return timed.assign(publisher_family=timed["publisher_family"].fillna(timed["source"]))


def grouped_folds(runs: pd.DataFrame, groups: pd.Series, *, folds: int, random_state: int) -> Iterator[BoolArray]:
    """Yield test masks of shape (n,): `groups` dealt out at random into at most `folds` parts of like size."""
    count = min(folds, groups.nunique())
    if count < 2:
        return
    splitter = GroupKFold(count, shuffle=True, random_state=random_state)
    for _, test in splitter.split(runs, groups=groups):
        mask = np.zeros(len(runs), dtype=np.bool_)
        mask[test] = True
        yield mask


def without_groups_of(runs: pd.DataFrame, allowed: BoolArray, test: BoolArray | IntArray) -> IntArray:
    """Return the rows of `allowed` (shape (n,)) that share no `split_group` with the rows of `test`."""
    group = runs["split_group"].to_numpy()
    return np.flatnonzero(allowed & ~np.isin(group, group[test]))


def holdout_fold(runs: pd.DataFrame, test: BoolArray, query: Query, *, left_out: str, among: BoolArray) -> Fold:
    """Return the fold that asks one query after training on the rows of `among` that share nothing with `test`."""
    return Fold(left_out=left_out, train=without_groups_of(runs, among & ~test, test), queries=(query,))


def merge_folds(folds: list[Fold]) -> list[Fold]:
    """Join folds with the same training rows, so that each training set is fitted once."""
    merged: dict[bytes, Fold] = {}
    for fold in folds:
        key = fold.train.tobytes()
        known = merged.get(key)
        queries = fold.queries if known is None else known.queries + fold.queries
        left_out = fold.left_out if known is None else known.left_out
        merged[key] = Fold(left_out=left_out, train=fold.train, queries=queries)
    return list(merged.values())
