"""Is the probability that one layout beats another right? Measured pairs, predicted out of sample.

Pairs are neighbours in the predicted order of a ranking group (one source, model, cluster and batch): what a search
compares.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Final, cast

import numpy as np
import pandas as pd
from scipy.special import ndtr

from surrogate.analytic.workload import IntArray
from surrogate.estimators.hybrid import HybridPredictor
from surrogate.evaluation.folds import Fold, timed_runs
from surrogate.evaluation.protocols import protocol_named
from surrogate.evaluation.ranking import ranking_keys
from surrogate.search.comparison import log_difference_sds

EDGES: Final = (0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
MOST_IN_GROUP: Final = 24
"""Runs of one group that take part, spread over it: the large sweeps would outweigh everything."""
_KEYS: Final = ["ranking_group", "layout"]
_FIGURES: Final = ("predicted", "measured", "sd", "probability")
_NORMAL_95: Final = 1.6448536269514722


def measured_pairs(predictor: HybridPredictor, runs: pd.DataFrame) -> pd.DataFrame:
    """Return pairs of layouts with what is predicted and measured of their difference.

    Parameters
    ----------
    predictor : HybridPredictor
        That did not see `runs`.
    runs : DataFrame
        Derived runs with measured times.

    Returns
    -------
    DataFrame
        `source`, `predicted` and `measured` (log time of the second less that of the first, predicted at least 0), `sd`
        and `probability` that the first is faster.
    """
    made = runs.join(ranking_keys(runs)).assign(
        predicted=predictor.predict_log(runs).log_time,
        measured=np.log(runs["measured_step_time_s"].to_numpy(dtype=np.float64)),
    )
    pairs = []
    for _, group in made.groupby("ranking_group", sort=True):
        ranked = group.sort_values("predicted", kind="stable").drop_duplicates("layout")
        chosen = np.unique(np.linspace(0, len(ranked) - 1, min(len(ranked), MOST_IN_GROUP)).round().astype(np.int64))
        if len(chosen) < 2:
            continue
        ranked = ranked.iloc[chosen].reset_index(drop=True)
        pairs.append(
            pd.DataFrame(
                {
                    "source": ranked["source"].iloc[0],
                    "predicted": np.diff(ranked["predicted"]),
                    "measured": np.diff(ranked["measured"]),
                    "sd": log_difference_sds(ranked.drop(columns=[*_KEYS, "predicted", "measured"]), predictor),
                }
            )
        )
    if not pairs:
        return pd.DataFrame({"source": [], **{name: np.empty(0) for name in _FIGURES}})
    table = pd.concat(pairs, ignore_index=True)
    return table.assign(probability=ndtr(table["predicted"] / table["sd"]))


def held_out_pairs(runs: pd.DataFrame, protocol: str, *, folds: int, random_state: int = 0) -> pd.DataFrame:
    """Return the measured pairs of a protocol's largest folds, each predicted without the rows it holds out.

    Parameters
    ----------
    runs : DataFrame
        As `evaluation.folds.timed_runs` gives them.
    protocol : str
        ``new-layout`` (the site is known) or ``new-site`` (it is not), for example.
    folds : int
        How many: each fits a predictor.
    """
    made = []
    largest_first = sorted(protocol_named(protocol).build(runs, random_state), key=lambda fold: -len(_asked(fold)))
    for fold in largest_first[:folds]:
        predictor = HybridPredictor(random_state=random_state).fit(runs.iloc[fold.train])
        made.append(measured_pairs(predictor, runs.iloc[_asked(fold)].reset_index(drop=True)))
    return pd.concat([pairs for pairs in made if len(pairs)] or made, ignore_index=True)


def reliability(pairs: pd.DataFrame) -> pd.DataFrame:
    """Return how often the first was faster, by what was said: `said`, `was`, `pairs` per bin of `EDGES`."""
    bins = pd.cut(pairs["probability"], EDGES, include_lowest=True)
    grouped = pairs.assign(was=(pairs["measured"] > 0.0).astype(float)).groupby(bins, observed=True)
    table = grouped.agg(said=("probability", "mean"), was=("was", "mean"), pairs=("was", "size"))
    return table.reset_index(drop=True)


def log_loss(pairs: pd.DataFrame) -> float:
    """Return the mean negative log probability of what was measured; log 2 for knowing nothing."""
    likelihood = np.where(pairs["measured"] > 0.0, pairs["probability"], 1.0 - pairs["probability"])
    return float(-np.log(np.maximum(likelihood, np.finfo(np.float64).tiny)).mean())


def run_experiment(config: Mapping[str, object], folder: Path) -> str:
    """Run the experiment `experiments/pair_probability` and return its tables as markdown.

    Parameters
    ----------
    config : mapping
        ``runs`` (path relative to ``folder``) and ``folds`` (number by protocol).
    folder : Path
        The experiment's own folder.
    """
    from surrogate.derive import load_runs

    runs = timed_runs(load_runs(folder / str(config["runs"])))
    parts = []
    for protocol, folds in cast("Mapping[str, int]", config["folds"]).items():
        pairs = held_out_pairs(runs, protocol, folds=folds)
        inside = float((np.abs(pairs["measured"] - pairs["predicted"]) <= _NORMAL_95 * pairs["sd"]).mean())
        parts.append(
            f"{protocol}, {folds} folds, {len(pairs):,} pairs: log loss {log_loss(pairs):.3f} (not knowing: "
            f"{math.log(2.0):.3f}), the difference lies in its 90 % interval in {inside:.1%}.\n\n"
            + _markdown(reliability(pairs))
        )
    return "\n\n".join(parts) + "\n"


def _markdown(table: pd.DataFrame) -> str:
    rows = [f"| {row.said:.1%} | {row.was:.1%} | {row.pairs:,} |" for row in table.itertuples()]
    return "\n".join(["| said | was faster | pairs |", "| ---: | ---: | ---: |", *rows])


def _asked(fold: Fold) -> IntArray:
    return np.unique(np.concatenate([query.test for query in fold.queries]))
