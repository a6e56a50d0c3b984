"""vTrain's public measurements as a protocol of their own, because its authors report errors on them.

Single node: 1,224 of their 1,440 rows, after 0, 20, 100 or 300 of them (6 draws). Multi node: 91 of their 109 rows,
without any vTrain row, and with the single-node rows known.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import pandas as pd

from surrogate.analytic.workload import IntArray
from surrogate.evaluation.folds import Fold, Query, holdout_fold, without_groups_of
from surrogate.evaluation.own_runs import others
from surrogate.features.columns import numbers

VTRAIN_FAMILY: Final = "vtrain"
SINGLE_NODE_GPUS: Final = 8.0
SHOTS: Final = (20, 100, 300)
DRAWS: Final = 6


def vtrain_folds(runs: pd.DataFrame, random_state: int) -> list[Fold]:
    """Return the folds of the vTrain protocol; none in a table without vTrain's rows."""
    family = (runs["publisher_family"] == VTRAIN_FAMILY).to_numpy()
    single = family & (numbers(runs, "num_gpus") <= SINGLE_NODE_GPUS)
    multi = family & ~single
    if not single.any() or not multi.any() or family.all():
        return []
    one, many = np.flatnonzero(single), np.flatnonzero(multi)
    zero_shot = Fold(
        left_out=VTRAIN_FAMILY,
        train=without_groups_of(runs, ~family, family),
        queries=(
            Query(protocol="vtrain", variant="single-0", test=one),
            Query(protocol="vtrain", variant="multi-0", test=many),
        ),
    )
    known = Query(protocol="vtrain", variant="multi-0, single known", test=many)
    return [
        zero_shot,
        holdout_fold(runs, multi, known, left_out="vtrain, multi-node", among=~multi),
        *_few_of_single_node(runs, zero_shot.train, one, random_state),
    ]


def _few_of_single_node(runs: pd.DataFrame, elsewhere: IntArray, rows: IntArray, random_state: int) -> list[Fold]:
    """Return folds trained on other publishers and a few of the rows, each asked for the rest of them."""
    folds = []
    for draw in range(DRAWS):
        order = np.random.default_rng([random_state, draw]).permutation(rows)
        for count in (count for count in SHOTS if count < len(rows)):
            shown = order[:count]
            asked = Query(protocol="vtrain", variant=f"single-{count}", draw=draw, test=others(runs, rows, shown))
            train = np.sort(np.concatenate([elsewhere, shown]))
            folds.append(Fold(left_out=f"vtrain but {count} rows", train=train, queries=(asked,)))
    return folds
