"""The reference: the best of all candidates, proved by bounds rather than by predicting every one exactly.

Every candidate gets a lower bound of its losses. Candidates are then looked at best bound first, memory before
objective; once the bound of the next is worse than the worst of the k best found, none of the rest can matter. With
several objectives the k best are the front, and a candidate is dropped when a member of it beats its bound.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from surrogate.analytic.workload import BoolArray, FloatArray
from surrogate.search.enumeration import CodeBlock, candidate_blocks
from surrogate.search.evaluation import Evaluator, Memory, join, take
from surrogate.search.pareto import is_dominated_by, non_dominated

THREADS: Final = 2
"""Threads that bound candidates."""
FIRST_BATCH: Final = 256
"""Candidates of the first look; each further one is twice as large."""
LARGEST_BATCH: Final = 8192
NEAR_MISS_RISK: Final = 0.5
"""Candidates more likely to run out of memory than not are no near misses."""
BOUND_TOLERANCE: Final = 1e-3
POOL_ROWS: Final = 2_000_000
"""Candidates that wait for a look; when more do, the best are looked at and the hopeless dropped."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Ranked:
    """Candidates with their losses, best first."""

    codes: CodeBlock
    losses: FloatArray
    """Shape (n, objectives)."""

    def __len__(self) -> int:
        return len(self.losses)


@dataclass(frozen=True, kw_only=True, slots=True)
class Outcome:
    """What a search found.

    Parameters
    ----------
    best : Ranked or None
        The k best, or the front; None when nothing fits.
    misses : Ranked or None
        The most promising candidates that do not fit, by the bound of their losses.
    evaluated : int
        Candidates considered, pruned ones included.
    predicted : int
        Of these, candidates whose objective was predicted exactly.
    exhaustive : bool
        Whether `best` is proved to be the best of the whole space.
    """

    best: Ranked | None
    misses: Ranked | None
    evaluated: int
    predicted: int
    exhaustive: bool
    least_risky: CodeBlock | None = None
    """The candidate, of those that do not fit, with the smallest risk of running out of memory."""
    enumerated: bool = True
    """Whether candidates were enumerated, or tried by a study."""
    interrupted: bool = False
    """Whether the user stopped the search."""


Progress = Callable[[int], None]


def enumerate_best(evaluator: Evaluator, *, top: int, misses: int = 0, progress: Progress | None = None) -> Outcome:
    """Return the best of every candidate of the space.

    Parameters
    ----------
    evaluator : Evaluator
        Of the space.
    top : int
        Candidates wanted with one objective; a front is returned whole.
    misses : int
        Candidates wanted that do not fit.
    progress : callable, optional
        Called with the candidates of each finished block.

    Notes
    -----
    An interrupt from the keyboard ends the enumeration; the most promising of the candidates seen are still looked at.
    """
    looking = _BestFirst(evaluator, top=top, most_misses=misses)
    interrupted = False
    try:
        for bounded in _bounded_blocks(evaluator):
            looking.add(bounded)
            if progress is not None:
                progress(len(bounded.bounds))
        looking.finish()
    except KeyboardInterrupt:
        interrupted = True
        looking.finish()
    return looking.outcome(interrupted=interrupted)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Bounded:
    """Candidates with what their losses cannot fall below."""

    codes: CodeBlock
    bounds: FloatArray
    """Shape (n, objectives)."""


def _bounded_blocks(evaluator: Evaluator) -> Iterator[_Bounded]:
    """Bound all candidates block by block, in order, a few blocks at a time: numpy lets threads share the work."""

    def bound(block: CodeBlock) -> _Bounded:
        prepared = evaluator.prepare(block)
        memory = evaluator.memory(prepared) if evaluator.goal.needs_memory else None
        return _Bounded(codes=block, bounds=evaluator.bounds(prepared, memory))

    ahead: deque[Future[_Bounded]] = deque()
    with ThreadPoolExecutor(max_workers=THREADS) as pool:
        try:
            for block in candidate_blocks(evaluator.space):
                ahead.append(pool.submit(bound, block))
                if len(ahead) > THREADS:
                    yield ahead.popleft().result()
            while ahead:
                yield ahead.popleft().result()
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


@dataclass
class _BestFirst:
    """Candidates waiting with their bounds, and the best found."""

    evaluator: Evaluator
    top: int
    most_misses: int
    waiting: list[_Bounded] = field(default_factory=list)
    best: Ranked | None = None
    misses: Ranked | None = None
    least_risky: CodeBlock | None = None
    least_risk: float = np.inf
    evaluated: int = 0
    predicted: int = 0
    bounds_hold: bool = True
    """No prediction has fallen below its bound: what pruning stands on, checked wherever both are known."""

    def add(self, block: _Bounded) -> None:
        """Let a block wait; what cannot matter any more is dropped at once."""
        self.evaluated += len(block.bounds)
        hopeful = self._is_hopeful(block.bounds)
        self.waiting.append(_Bounded(codes=take(block.codes, hopeful), bounds=block.bounds[hopeful]))
        if sum(len(waiting.bounds) for waiting in self.waiting) > POOL_ROWS:
            self.finish()

    def finish(self) -> None:
        """Look at waiting candidates, best bound first, until none of the rest can matter."""
        if not self.waiting:
            return
        codes = join([block.codes for block in self.waiting])
        bounds = np.concatenate([block.bounds for block in self.waiting])
        self.waiting = []
        order, start, size = np.argsort(bounds[:, 0], kind="stable"), 0, FIRST_BATCH
        while start < len(order):
            rows = order[start : start + size]
            start, size = start + size, min(2 * size, LARGEST_BATCH)
            hopeful = self._is_hopeful(bounds[rows])
            if hopeful.any():
                self._look(take(codes, rows[hopeful]), bounds[rows[hopeful]])
            elif self.evaluator.goal.is_single:
                return

    def outcome(self, *, interrupted: bool) -> Outcome:
        """Return what was found."""
        return Outcome(
            best=self.best,
            misses=self.misses,
            evaluated=self.evaluated,
            predicted=self.predicted,
            exhaustive=self.bounds_hold and not interrupted,
            least_risky=self.least_risky,
            interrupted=interrupted,
        )

    def _is_hopeful(self, bounds: FloatArray) -> BoolArray:
        if self.best is None:
            return np.ones(len(bounds), dtype=np.bool_)
        if not self.evaluator.goal.is_single:
            return ~is_dominated_by(bounds, self.best.losses)
        if len(self.best) < self.top:
            return np.ones(len(bounds), dtype=np.bool_)
        return np.asarray(bounds[:, 0] < self.best.losses[-1, 0])

    def _look(self, codes: CodeBlock, bounds: FloatArray) -> None:
        """Predict memory, then the objectives of what fits, and keep the best."""
        evaluator = self.evaluator
        memory = evaluator.memory(evaluator.prepare(codes))
        fits = evaluator.fits(memory)
        self._keep_misses(take(codes, ~fits), bounds[~fits], memory.oom_probability[~fits])
        if not fits.any():
            return
        fitting = take(codes, fits)
        held = Memory(peak_bytes=memory.peak_bytes[fits], oom_probability=memory.oom_probability[fits])
        losses = evaluator.losses(fitting, held)
        self.predicted += len(losses)
        self.bounds_hold &= bool(np.all(losses >= bounds[fits] * (1.0 - BOUND_TOLERANCE)))
        self.best = _best_of(self.best, fitting, losses, None if not evaluator.goal.is_single else self.top)

    def _keep_misses(self, codes: CodeBlock, bounds: FloatArray, risks: FloatArray) -> None:
        if not len(bounds):
            return
        near = risks <= NEAR_MISS_RISK
        if self.most_misses and near.any():
            self.misses = _best_of(self.misses, take(codes, near), bounds[near, :1], self.most_misses)
        row = int(np.argmin(risks))
        if risks[row] < self.least_risk:
            self.least_risk, self.least_risky = float(risks[row]), take(codes, slice(row, row + 1))


def _best_of(known: Ranked | None, codes: CodeBlock, losses: FloatArray, top: int | None) -> Ranked:
    """Return the best of known and new candidates: so many, or the front when `top` is None."""
    if known is not None:
        codes, losses = join([known.codes, codes]), np.concatenate([known.losses, losses])
    if top is None:
        front = np.flatnonzero(non_dominated(losses))
        order = front[np.argsort(losses[front, 0], kind="stable")]
    else:
        order = np.argsort(losses[:, 0], kind="stable")[:top]
    return Ranked(codes=take(codes, order), losses=losses[order])


def rank(codes: CodeBlock, losses: FloatArray, top: int | None) -> Ranked:
    """Return candidates best first: so many, or the front when `top` is None."""
    return _best_of(None, codes, losses, top)


__all__ = ["Outcome", "Ranked", "enumerate_best", "rank"]
