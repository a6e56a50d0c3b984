"""Evaluate the predictor and the baselines under the protocols, and put the figures into tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pandas as pd

from surrogate.errors import InputError
from surrogate.evaluation.bootstrap import compare_predictions
from surrogate.evaluation.execute import OnProgress, run_folds
from surrogate.evaluation.folds import Fold, merge_folds, timed_runs
from surrogate.evaluation.methods import HYBRID, METHODS, MethodFactory
from surrogate.evaluation.protocols import PROTOCOLS, protocol_named
from surrogate.evaluation.ranking import ranking_keys, ranking_scores
from surrogate.evaluation.scores import MEASURED, PREDICTED, log_errors, relative_errors, score
from surrogate.evaluation.slices import ALL_ROWS, slice_masks

QUESTION: Final = ["protocol", "variant"]
KEY_COLUMNS: Final = ["protocol", "variant", "draw", "left_out", "method", "run_id", "source", MEASURED, PREDICTED]
"""The first columns of the predictions."""
RUN_COLUMNS: Final = ["run_id", "source", "publisher_family", "accelerator", "num_gpus", "precision", MEASURED]


@dataclass(frozen=True, kw_only=True, slots=True)
class Evaluation:
    """Figures of merit of several methods under several protocols; see `docs/evaluation.md`."""

    predictions: pd.DataFrame
    """One row per protocol, variant, draw, method and run, with its errors."""
    scores: pd.DataFrame
    """Per protocol, variant, method and slice: the fields of `Scores`."""
    rankings: pd.DataFrame
    """Per protocol, variant and method: Spearman correlation and top-1 regret."""
    comparisons: pd.DataFrame
    """Per protocol, variant, baseline and figure: the first method against it, with bootstrap interval and verdict."""
    random_state: int

    def to_frame(self) -> pd.DataFrame:
        """Return the scores over all rows with the rankings beside them."""
        whole = self.scores[self.scores["slice"] == ALL_ROWS].drop(columns="slice")
        keys = [*QUESTION, "method"]
        return whole.merge(self.rankings[[*keys, "spearman", "regret"]], on=keys, how="left", validate="one_to_one")

    def largest_errors(self, method: str = HYBRID, count: int = 8) -> pd.DataFrame:
        """Return the sources that a method errs most on, worst first within each protocol and variant.

        Parameters
        ----------
        method : str
            As in `predictions`.
        count : int
            Sources of each protocol and variant.

        Returns
        -------
        DataFrame
            With `protocol`, `variant`, `source`, `rows`, `mean_abs_log_error` and `mean_log_error`.
        """
        own = self.predictions[self.predictions["method"] == method]
        own = own.assign(abs_log_error=own["log_error"].abs())
        by_source = own.groupby([*QUESTION, "source"], sort=False).agg(
            rows=("run_id", "nunique"),
            mean_abs_log_error=("abs_log_error", "mean"),
            mean_log_error=("log_error", "mean"),
        )
        order = by_source.sort_values("mean_abs_log_error", ascending=False).groupby(QUESTION, sort=False)
        worst = order.head(count).reset_index()
        asked = own.drop_duplicates(QUESTION)[QUESTION]
        return asked.merge(worst, on=QUESTION, validate="one_to_many")

    def to_dict(self) -> dict[str, Any]:
        """Return all tables but the predictions as lists of records; missing figures are None."""
        return {
            "random_state": self.random_state,
            "scores": records(self.scores),
            "rankings": records(self.rankings),
            "comparisons": records(self.comparisons),
            "largest_errors": records(self.largest_errors(str(self.scores["method"].iloc[0]))),
        }

    def figure(
        self, name: str, *, protocol: str, variant: str = "", method: str = HYBRID, part: str = ALL_ROWS
    ) -> float:
        """Return one figure of `scores`, or of `rankings` (`spearman`, `regret`).

        Raises
        ------
        InputError
            If the evaluation does not hold it.
        """
        table = self.rankings if name in ("spearman", "regret") else self.scores[self.scores["slice"] == part]
        keys = (table["protocol"] == protocol) & (table["variant"] == variant) & (table["method"] == method)
        if keys.sum() != 1:
            raise InputError("protocol", "must be one that was evaluated", f"{protocol} {variant} {method}")
        return float(table.loc[keys, name].iloc[0])


def evaluate(
    runs: pd.DataFrame,
    *,
    protocols: Sequence[str] | None = None,
    methods: Mapping[str, MethodFactory] = METHODS,
    random_state: int = 0,
    n_jobs: int = 1,
    on_progress: OnProgress | None = None,
) -> Evaluation:
    """Score methods out of sample.

    Parameters
    ----------
    runs : DataFrame of n rows
        A runs table as `surrogate.derive.load_runs` gives it; rows without a step time are left aside.
    protocols : sequence of str, optional
        Names from `PROTOCOLS`; without them every protocol the table can answer.
    methods : mapping of name to factory
        The first is compared with each of the others.
    random_state : int
        Seed of splits, draws, methods and bootstrap.
    n_jobs : int
        Processes.
    on_progress : callable, optional
        Called with the number of training sets done and to do.

    Raises
    ------
    UnknownNameError
        If a protocol does not exist.
    InputError
        If the table cannot answer a protocol that was asked for, or none at all.
    """
    timed = timed_runs(runs)
    folds = protocol_folds(timed, protocols, random_state)
    raw = run_folds(timed, folds, methods, random_state=random_state, n_jobs=n_jobs, on_progress=on_progress)
    return summarise(timed, raw, random_state=random_state)


def protocol_folds(timed: pd.DataFrame, protocols: Sequence[str] | None, random_state: int) -> list[Fold]:
    """Return the folds of the protocols, each training set once.

    Raises
    ------
    UnknownNameError, InputError
        As `evaluate`.
    """
    folds: list[Fold] = []
    for name in dict.fromkeys(protocols or PROTOCOLS):
        built = protocol_named(name).build(timed, random_state)
        if protocols and not built:
            raise InputError("protocol", "must be one that these runs can answer", name, "see docs/evaluation.md")
        folds += built
    if not folds:
        raise InputError("runs", "must hold several groups of configurations to split", len(timed), "add runs")
    return merge_folds(folds)


def summarise(timed: pd.DataFrame, raw: pd.DataFrame, *, random_state: int) -> Evaluation:
    """Return the tables of an evaluation from the raw predictions of `run_folds`."""
    order = {name: position for position, name in enumerate(PROTOCOLS)}
    raw = raw.sort_values("protocol", key=lambda names: names.map(order), kind="stable").reset_index(drop=True)
    described = timed[RUN_COLUMNS].iloc[raw["row"].to_numpy()].reset_index(drop=True)
    measured, predicted = described[MEASURED].to_numpy(), raw[PREDICTED].to_numpy()
    predictions = pd.concat([raw, described], axis=1).assign(
        relative_error=relative_errors(measured, predicted), log_error=log_errors(measured, predicted)
    )
    keyed = pd.concat([predictions, ranking_keys(timed).iloc[raw["row"].to_numpy()].reset_index(drop=True)], axis=1)
    return Evaluation(
        predictions=predictions[[*KEY_COLUMNS, *predictions.columns.drop([*KEY_COLUMNS, "row"])]],
        scores=_score_table(predictions, slice_masks(timed)),
        rankings=ranking_scores(keyed, [*QUESTION, "draw", "method"], over=[*QUESTION, "method"]),
        comparisons=_comparison_table(predictions, random_state),
        random_state=random_state,
    )


def records(table: pd.DataFrame) -> list[dict[str, Any]]:
    """Return a table as records for JSON: NaN and infinities become None."""
    plain = table.astype(object).where(table.notna() & ~table.isin([np.inf, -np.inf]), None)
    return [{str(name): value for name, value in record.items()} for record in plain.to_dict(orient="records")]


def _score_table(predictions: pd.DataFrame, masks: Mapping[str, np.typing.NDArray[np.bool_]]) -> pd.DataFrame:
    table = []
    for (protocol, variant, method), part in predictions.groupby([*QUESTION, "method"], sort=False):
        rows = part["row"].to_numpy()
        for name, mask in masks.items():
            inside = part[mask[rows]]
            if len(inside):
                key = {"protocol": protocol, "variant": variant, "method": method, "slice": name}
                table.append({**key, **score(inside).to_dict()})
    return pd.DataFrame(table)


def _comparison_table(predictions: pd.DataFrame, random_state: int) -> pd.DataFrame:
    first, *baselines = pd.unique(predictions["method"])
    table = []
    for (protocol, variant), part in predictions.groupby(QUESTION, sort=False):
        own = part[part["method"] == first]
        for baseline in baselines:
            compared = compare_predictions(own, part[part["method"] == baseline], random_state=random_state)
            key = {"protocol": protocol, "variant": variant, "method": first, "baseline": baseline}
            table += [{**key, **comparison.to_dict()} for comparison in compared]
    return pd.DataFrame(table, columns=None if table else [*QUESTION, "method", "baseline", "figure", "verdict"])
