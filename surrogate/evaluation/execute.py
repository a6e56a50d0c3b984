"""Fitting each method once per training set and asking it the queries of the fold."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pandas as pd

from surrogate.analytic.workload import IntArray
from surrogate.evaluation.baselines import AdaptsToOwnRuns, ChoosesRuns, ConformalizesByKnowledge, StepTimeMethod
from surrogate.evaluation.choice import choose_runs
from surrogate.evaluation.folds import NO_ROWS, Fold, Query
from surrogate.evaluation.methods import MethodFactory
from surrogate.evaluation.own_runs import others
from surrogate.evaluation.scores import LOWER, MEASURED, PREDICTED, UPPER
from surrogate.features.columns import numbers

OnProgress = Callable[[int, int], None]
KEPT_COLUMNS: Final = (PREDICTED, LOWER, UPPER, "in_domain", "similarity")
"""Columns of a prediction that an evaluation keeps."""
SITE_KNOWLEDGE: Final = ("population", "family", "release")


def run_folds(
    runs: pd.DataFrame,
    folds: Sequence[Fold],
    methods: Mapping[str, MethodFactory],
    *,
    random_state: int,
    n_jobs: int,
    on_progress: OnProgress | None,
) -> pd.DataFrame:
    """Return the predictions of all methods for all queries.

    Parameters
    ----------
    runs : DataFrame of n rows
        Timed runs under a fresh index.
    folds : sequence of Fold
    methods : mapping of name to factory
        The first one chooses own runs where a query leaves the choice.
    random_state : int
        Seed of every method.
    n_jobs : int
        Processes; folds are shared out among them, results keep the folds' order.
    on_progress : callable, optional
        Called with the folds done and to do.

    Returns
    -------
    DataFrame
        `protocol`, `variant`, `draw`, `left_out`, `method`, `row` (position in `runs`) and the predictions.
    """
    pieces: list[pd.DataFrame] = []
    for done, piece in enumerate(_fold_results(runs, folds, methods, random_state, n_jobs), start=1):
        pieces += piece
        if on_progress is not None:
            on_progress(done, len(folds))
    return pd.concat(pieces, ignore_index=True)


def _fold_results(
    runs: pd.DataFrame, folds: Sequence[Fold], methods: Mapping[str, MethodFactory], random_state: int, n_jobs: int
) -> Iterator[list[pd.DataFrame]]:
    if n_jobs == 1:
        return (run_fold(runs, fold, methods, random_state) for fold in folds)
    from joblib import Parallel, delayed, parallel_config  # type: ignore[import-untyped]

    with parallel_config("loky", n_jobs=n_jobs, inner_max_num_threads=1):
        jobs = (delayed(run_fold)(runs, fold, dict(methods), random_state) for fold in folds)
        results: Iterator[list[pd.DataFrame]] = Parallel(return_as="generator", batch_size=1)(jobs)
    return results


def run_fold(
    runs: pd.DataFrame, fold: Fold, methods: Mapping[str, MethodFactory], random_state: int
) -> list[pd.DataFrame]:
    """Return one table of predictions per method and query."""
    pieces: list[pd.DataFrame] = []
    settled: list[SettledQuery] | None = None
    for name, make in methods.items():
        unfitted = make(random_state)
        if isinstance(unfitted, ConformalizesByKnowledge):
            unfitted = unfitted.limited_to(levels_asked(runs, fold))
        method = unfitted.fit(runs.iloc[fold.train])
        if settled is None:
            settled = [_settle(runs, query, method) for query in fold.queries]
        answers = _answers(runs, [query for query in settled if len(query.test)], method)
        pieces += [answer.assign(left_out=fold.left_out, method=name) for answer in answers]
    return pieces


def levels_asked(runs: pd.DataFrame, fold: Fold) -> tuple[str, ...]:
    """Return what is known about the sites of the queries, least first: population, family, release."""
    names = runs[["source", "publisher_family"]].to_numpy(dtype=object)
    asked: set[str] = set()
    for query in fold.queries:
        shown = np.concatenate([fold.train, query.own.rows, query.own.candidates])
        families, releases = set(names[shown, 1]), set(map(tuple, names[shown]))
        for release in set(map(tuple, names[query.test])):
            known = "release" if release in releases else "family" if release[1] in families else "population"
            asked.add(known)
    return tuple(level for level in SITE_KNOWLEDGE if level in asked)


@dataclass(frozen=True, kw_only=True, slots=True)
class SettledQuery:
    """A query with its own runs chosen, which it does not ask for."""

    query: Query
    own: IntArray
    test: IntArray


def _settle(runs: pd.DataFrame, query: Query, method: StepTimeMethod) -> SettledQuery:
    own = query.own.rows
    if query.own.count:
        candidates = query.own.candidates
        choose = method.choose if isinstance(method, ChoosesRuns) else choose_runs
        own = candidates[choose(runs.iloc[candidates], runs.iloc[query.test], query.own.count)]
    test = others(runs, query.test, own) if len(own) else query.test
    return SettledQuery(query=query, own=own, test=test)


def _answers(runs: pd.DataFrame, queries: Sequence[SettledQuery], method: StepTimeMethod) -> Iterator[pd.DataFrame]:
    """Yield a table per query; without own runs, or where they only scale, from one prediction of all rows."""
    rows = np.unique(np.concatenate([NO_ROWS, *(np.concatenate([query.own, query.test]) for query in queries)]))
    whole = method.predict_frame(runs.iloc[rows]).reindex(columns=list(KEPT_COLUMNS))
    log_ratio = np.log(numbers(runs.iloc[rows], MEASURED) / numbers(whole, PREDICTED))
    for settled in queries:
        if len(settled.own) and isinstance(method, AdaptsToOwnRuns):
            informed = method.condition(runs.iloc[settled.own])
            answer = informed.predict_frame(runs.iloc[settled.test]).reindex(columns=list(KEPT_COLUMNS))
        else:
            answer = whole.iloc[np.searchsorted(rows, settled.test)]
            if len(settled.own):
                factor = np.exp(np.median(log_ratio[np.searchsorted(rows, settled.own)]))
                answer = answer.assign(**{name: answer[name] * factor for name in (PREDICTED, LOWER, UPPER)})
        query = settled.query
        yield answer.assign(protocol=query.protocol, variant=query.variant, draw=query.draw, row=settled.test)
