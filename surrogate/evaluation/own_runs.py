"""Protocols in which a new site shows some runs of its own: few-shot, small to large, anchored.

The predictor is trained once without the site's publisher family; each query conditions it on other own runs. Rows that
share a `split_group` with a shown run are not asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

import numpy as np
import pandas as pd

from surrogate.analytic.workload import IntArray
from surrogate.evaluation.choice import nearest_rows
from surrogate.evaluation.folds import Fold, OwnRuns, Query, without_groups_of
from surrogate.features.columns import numbers

SHOTS: Final = (3, 5, 10)
DRAWS: Final = 6
MIN_CONFIGURATIONS: Final = 16
SMALLER_SHOTS: Final = 5
MAX_ANCHORED_TARGETS: Final = 60
"""Targets of one source, drawn at random: each needs a predictor conditioned on its own anchor."""
SCALE_UP: Final = 4.0
"""Runs "at small scale" use at most the target's accelerators divided by this."""

Queries = Callable[[IntArray], tuple[Query, ...]]


def family_folds(runs: pd.DataFrame, queries: Queries) -> list[Fold]:
    """Return one fold per publisher family, trained without it; `queries` gets the family's rows.

    A family that leaves nothing to train on, or asks nothing, is left out.
    """
    family = runs["publisher_family"].to_numpy()
    everything = np.ones(len(runs), dtype=np.bool_)
    folds = []
    for name in pd.unique(family):
        test = np.flatnonzero(family == name)
        train = without_groups_of(runs, everything & (family != name), test)
        asked = queries(test)
        if len(train) and asked:
            folds.append(Fold(left_out=str(name), train=train, queries=asked))
    return folds


def few_shot_folds(runs: pd.DataFrame, random_state: int) -> list[Fold]:
    """Return the few-shot protocol: no own runs, random ones (6 draws), chosen ones, and chosen ones at small scale."""
    configurations = runs.groupby("source")["repeat_group"].nunique()
    large = set(configurations[configurations >= MIN_CONFIGURATIONS].index)

    def queries(rows: IntArray) -> tuple[Query, ...]:
        asked: list[Query] = []
        for source, site in _sites(runs, rows):
            if source in large:
                asked += _few_shot_queries(runs, site, np.random.default_rng([random_state, int(site[0])]))
        return tuple(asked)

    return family_folds(runs, queries)


def anchored_folds(runs: pd.DataFrame, random_state: int) -> list[Fold]:
    """Return the anchored protocol: each row predicted after its nearest own run of another configuration."""

    def queries(rows: IntArray) -> tuple[Query, ...]:
        asked: list[Query] = []
        for _, site in _sites(runs, rows):
            order = np.random.default_rng([random_state, int(site[0])]).permutation(site)
            asked += _anchored_queries(runs, site, np.sort(order[:MAX_ANCHORED_TARGETS]))
        return tuple(asked)

    return family_folds(runs, queries)


def _sites(runs: pd.DataFrame, rows: IntArray) -> Iterator[tuple[str, IntArray]]:
    """Yield the sources within a family's rows."""
    source = runs["source"].to_numpy()[rows]
    for name in pd.unique(source):
        yield str(name), rows[source == name]


def _few_shot_queries(runs: pd.DataFrame, site: IntArray, generator: np.random.Generator) -> list[Query]:
    queries = [Query(protocol="few-shot", variant="zero-shot", test=site)]
    for count in SHOTS:
        chosen = OwnRuns(candidates=site, count=count)
        queries.append(Query(protocol="few-shot", variant=f"chosen-{count}", test=site, own=chosen))
    for draw in range(DRAWS):
        order = generator.permutation(site)
        for count in SHOTS:
            own = order[:count]
            left = others(runs, site, own)
            queries.append(
                Query(protocol="few-shot", variant=f"random-{count}", draw=draw, test=left, own=OwnRuns(rows=own))
            )
    return queries + _small_to_large_queries(runs, site)


def _small_to_large_queries(runs: pd.DataFrame, site: IntArray) -> list[Query]:
    """Ask for the rows of each size after runs chosen among those on a quarter of its accelerators or fewer."""
    sizes = numbers(runs, "num_gpus")[site]
    queries = []
    for size in np.unique(sizes):
        target = site[sizes == size]
        small = others(runs, site[sizes <= size / SCALE_UP], target)
        if len(small):
            own = OwnRuns(candidates=small, count=min(SMALLER_SHOTS, len(small)))
            queries.append(Query(protocol="few-shot", variant=f"small-{SMALLER_SHOTS}", test=target, own=own))
    return queries


def _anchored_queries(runs: pd.DataFrame, site: IntArray, targets: IntArray) -> list[Query]:
    """Ask for the targets anchor by anchor."""
    group = runs["split_group"].to_numpy()
    same = group[targets][:, None] == group[site][None, :]
    nearest = nearest_rows(runs.iloc[targets], runs.iloc[site], forbidden=same)
    return [
        Query(
            protocol="anchored",
            variant="nearest",
            test=targets[nearest == anchor],
            own=OwnRuns(rows=site[anchor : anchor + 1]),
        )
        for anchor in np.unique(nearest[nearest >= 0])
    ]


def others(runs: pd.DataFrame, rows: IntArray, shown: IntArray) -> IntArray:
    """Return the rows that share no `split_group` with the shown ones."""
    group = runs["split_group"].to_numpy()
    return rows[~np.isin(group[rows], group[shown])]
