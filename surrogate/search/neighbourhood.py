"""The layouts around the best ones that could still be better: cheap bounds say which are worth a trial."""

from __future__ import annotations

from typing import Final

import numpy as np

from surrogate.analytic.workload import FloatArray, IntArray
from surrogate.search.enumeration import CodeBlock, candidate_blocks
from surrogate.search.evaluation import Evaluator, Memory, join, take
from surrogate.search.layouts import LayoutTable

POOL: Final = 240
"""Layouts that are screened at once."""
_ROW: Final = "_row"
"""Extra column that says which layout a candidate belongs to."""


def hopeful_neighbours(  # noqa: PLR0913
    evaluator: Evaluator,
    layouts: LayoutTable,
    centres: IntArray,
    best: float,
    count: int,
    rng: np.random.Generator,
) -> list[int]:
    """Return free layouts near the best ones, most promising first.

    Parameters
    ----------
    evaluator : Evaluator
        Of the space.
    layouts : LayoutTable
        All layouts.
    centres : ndarray of int
        The best layouts known.
    best : float
        The best loss known, by the first objective.
    count : int
        Layouts wanted at most.
    rng : numpy.random.Generator
        Draws among neighbours that are too many.

    Returns
    -------
    list of int
        Layouts with a setting that fits and whose bound is below `best`: all others cannot improve on it.

    Notes
    -----
    A neighbour differs in one column, or in two; chunks (`vp`) follow the stages and count as no difference.
    """
    pool = _pool(layouts, centres, rng)
    if not len(pool):
        return []
    bounds = _screened(evaluator, layouts, pool)
    order = np.argsort(bounds, kind="stable")[:count]
    return [int(pool[place]) for place in order if bounds[place] < best]


def _pool(layouts: LayoutTable, centres: IntArray, rng: np.random.Generator) -> IntArray:
    """Return free layouts one change away, filled up with a draw from those two changes away."""
    counted = [name for name in layouts.columns if name != "vp"]
    changes = np.full(len(layouts), len(counted) + 1)
    for centre in centres:
        differing = sum((layouts.codes[name] != layouts.codes[name][centre]).astype(np.int64) for name in counted)
        changes = np.minimum(changes, differing)
    free = ~layouts.is_taken
    near, far = np.flatnonzero(free & (changes <= 1)), np.flatnonzero(free & (changes == 2))
    near = near if len(near) <= POOL else np.sort(rng.choice(near, POOL, replace=False))
    room = min(POOL - len(near), len(far))
    return np.concatenate([near, np.sort(rng.choice(far, room, replace=False))]) if room else near


def _screened(evaluator: Evaluator, layouts: LayoutTable, rows: IntArray) -> FloatArray:
    """Return the least bound over the settings of each layout that fit; infinite where none does."""
    start: CodeBlock = {**layouts.at(rows), _ROW: np.arange(len(rows), dtype=np.int16)}
    blocks = list(candidate_blocks(evaluator.space, start=start))
    least = np.full(len(rows), np.inf)
    if not blocks:
        return least
    candidates = join(blocks)
    row_of = candidates.pop(_ROW).astype(np.int64)
    prepared = evaluator.prepare(candidates)
    memory = evaluator.memory(prepared)
    fits = evaluator.fits(memory)
    if fits.any():
        fitting = evaluator.prepare(take(candidates, fits))
        held = Memory(peak_bytes=memory.peak_bytes[fits], oom_probability=memory.oom_probability[fits])
        np.minimum.at(least, row_of[fits], evaluator.bounds(fitting, held)[:, 0])
    return least
