"""Candidates that would be among the best but for memory."""

from __future__ import annotations

from typing import Final

import numpy as np

from surrogate.search.enumeration import CodeBlock, candidate_blocks
from surrogate.search.evaluation import Evaluator, join, take
from surrogate.search.exhaustive import NEAR_MISS_RISK, Ranked, rank
from surrogate.search.pareto import is_dominated_by

LOOKED_AT: Final = 4
"""Promising candidates that are looked at for each near miss that is wanted: bounds promise too much."""


def promising_misses(evaluator: Evaluator, layouts: CodeBlock, count: int) -> Ranked | None:
    """Return the candidates inside some layouts that nearly fit, by the bound of their losses.

    Parameters
    ----------
    evaluator : Evaluator
        Of the space.
    layouts : dict of ndarray, shape (n,)
        Codes of layouts; every combination of the settings inside them is considered.
    count : int
        Candidates wanted at most.
    """
    best: Ranked | None = None
    for block in candidate_blocks(evaluator.space, start=layouts):
        prepared = evaluator.prepare(block)
        memory = evaluator.memory(prepared)
        near = ~evaluator.fits(memory) & (memory.oom_probability <= NEAR_MISS_RISK)
        if not near.any():
            continue
        codes, bounds = take(block, near), evaluator.bounds(prepared, memory)[near, :1]
        if best is not None:
            codes, bounds = join([best.codes, codes]), np.concatenate([best.losses, bounds])
        best = rank(codes, bounds, count)
    return best


def near_misses(evaluator: Evaluator, promising: Ranked | None, best: Ranked | None, count: int) -> CodeBlock | None:
    """Return the promising candidates that really are better than the last of the best, the best of them first.

    Parameters
    ----------
    evaluator : Evaluator
        Of the space.
    promising : Ranked or None
        Candidates that do not fit, by the bound of their losses.
    best : Ranked or None
        What fits, best first, or a front; None keeps all.
    count : int
        Candidates wanted at most.
    """
    if promising is None or not len(promising) or not count:
        return None
    losses = evaluator.losses(promising.codes, evaluator.memory(evaluator.prepare(promising.codes)))
    if best is None:
        better = np.ones(len(losses), dtype=np.bool_)
    elif evaluator.goal.is_single:
        better = losses[:, 0] < best.losses[-1, 0]
    else:
        better = ~is_dominated_by(losses, best.losses)
    rows = np.flatnonzero(better)
    return take(promising.codes, rows[np.argsort(losses[rows, 0], kind="stable")[:count]]) if len(rows) else None
