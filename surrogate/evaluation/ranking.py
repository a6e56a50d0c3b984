"""Does the predictor pick the right layout? Rankings within groups of runs that differ by their layout only."""

from __future__ import annotations

from typing import Final

import numpy as np
import pandas as pd

from surrogate.analytic.workload import IntArray
from surrogate.evaluation.scores import MEASURED, PREDICTED

GROUP: Final = ("source", "model_name", "accelerator", "precision", "num_gpus", "global_batch_size", "seq_len")
LAYOUT: Final = (
    "tp",
    "pp",
    "cp",
    "dp",
    "ep",
    "expert_tp",
    "vp",
    "pipeline_schedule",
    "zero_stage",
    "fsdp",
    "hsdp_shard",
    "sequence_parallel",
    "micro_batch_size",
    "recompute",
)
MIN_LAYOUTS: Final = 4
_TIE_DIGITS: Final = 9
"""Log times that agree to this many digits are ties: a constant utilisation must not win by rounding."""


def ranking_keys(runs: pd.DataFrame) -> pd.DataFrame:
    """Return for n rows the codes `ranking_group` and `layout`; equal codes mean equal values, missing included."""
    return pd.DataFrame({"ranking_group": _codes(runs, GROUP), "layout": _codes(runs, LAYOUT)}, index=runs.index)


def _codes(runs: pd.DataFrame, columns: tuple[str, ...]) -> IntArray:
    present = [column for column in columns if column in runs.columns]
    return np.asarray(runs.groupby(present, dropna=False, sort=False).ngroup(), dtype=np.int64)


def group_rankings(predictions: pd.DataFrame, by: list[str]) -> pd.DataFrame:
    """Rank the runs of each group with at least four distinct layouts by prediction and by measurement.

    Parameters
    ----------
    predictions : DataFrame
        `source`, measured and predicted step time, `ranking_group`, `layout`, and the columns `by`.
    by : list of str
        What separates one set of predictions from another (protocol, variant, draw, method).

    Returns
    -------
    DataFrame
        One row per set and group: `layouts`, `spearman` (0 when all predictions tie) and `regret`, the throughput
        lost by taking the run predicted fastest: 1 - min(t)/t(chosen), averaged over tied choices.
    """
    keys = [*by, "source", "ranking_group"]
    made = predictions[predictions[PREDICTED].notna()]
    made = made.assign(layouts=made.groupby(keys, dropna=False)["layout"].transform("nunique"))
    made = made[made["layouts"] >= MIN_LAYOUTS]
    made = made.assign(predicted_log=np.log(made[PREDICTED]).round(_TIE_DIGITS))
    grouped = made.groupby(keys, dropna=False)
    predicted_rank = grouped["predicted_log"].rank()
    measured_rank = grouped[MEASURED].rank()
    chosen = made["predicted_log"] == grouped["predicted_log"].transform("min")
    lost = 1.0 - grouped[MEASURED].transform("min") / made[MEASURED]
    made = made.assign(
        x=predicted_rank - predicted_rank.groupby([made[key] for key in keys], dropna=False).transform("mean"),
        y=measured_rank - measured_rank.groupby([made[key] for key in keys], dropna=False).transform("mean"),
        regret=lost.where(chosen),
    )
    sums = made.assign(xy=made["x"] * made["y"], xx=made["x"] ** 2, yy=made["y"] ** 2).groupby(keys, dropna=False)
    table = sums.agg(
        layouts=("layouts", "first"), xy=("xy", "sum"), xx=("xx", "sum"), yy=("yy", "sum"), regret=("regret", "mean")
    )
    spread = (table["xx"] * table["yy"]) ** 0.5
    table = table.assign(spearman=(table["xy"] / spread.where(spread > 0.0)).fillna(0.0))
    return table[["layouts", "spearman", "regret"]].reset_index()


def ranking_scores(predictions: pd.DataFrame, by: list[str], *, over: list[str]) -> pd.DataFrame:
    """Average the rankings over groups within each source, then over sources.

    Parameters
    ----------
    predictions, by
        As for `group_rankings`.
    over : list of str
        The columns of `by` that stay apart; draws, say, are averaged.

    Returns
    -------
    DataFrame
        Per set: `groups`, `sources`, `spearman`, `regret`, `regret_se` (over sources) and `group_regret` (over groups).
    """
    groups = group_rankings(predictions, by)
    by_source = groups.groupby([*over, "source"], sort=False).agg(
        groups=("ranking_group", "nunique"), spearman=("spearman", "mean"), regret=("regret", "mean")
    )
    over_groups = groups.groupby(over, sort=False)["regret"].mean().rename("group_regret")
    table = by_source.groupby(level=over, sort=False).agg(
        groups=("groups", "sum"),
        sources=("groups", "size"),
        spearman=("spearman", "mean"),
        regret=("regret", "mean"),
        regret_se=("regret", "sem"),
    )
    return table.join(over_groups).reset_index()
