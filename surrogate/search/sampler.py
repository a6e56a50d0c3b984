"""An Optuna sampler whose every proposal is a layout that exists and was not tried before."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Any, Final

import numpy as np
from optuna.distributions import BaseDistribution, CategoricalDistribution, IntDistribution
from optuna.samplers import BaseSampler, NSGAIISampler, RandomSampler, TPESampler
from optuna.study import Study
from optuna.trial import FrozenTrial, TrialState

from surrogate.search.domains import Domain
from surrogate.search.layouts import LayoutTable

STARTUP_TRIALS: Final = 40
"""Layouts drawn at random before proposals follow from what was found."""
_POPULATION: Final = 40


class Algorithm(StrEnum):
    """How layouts are proposed."""

    TPE = "tpe"
    NSGA2 = "nsga2"
    RANDOM = "random"


def distributions_of(layouts: LayoutTable) -> dict[str, BaseDistribution]:
    """Return the Optuna distribution of every open layout column, over its real values."""
    return {name: _distribution(layouts.space.domains[name]) for name in layouts.columns}


def _distribution(domain: Domain) -> BaseDistribution:
    if not domain.is_ordered:
        return CategoricalDistribution(domain.values)
    low, high = int(domain.values[0]), int(domain.values[-1])
    return IntDistribution(low, high, log=low > 0 and high > 4 * low)


class LayoutSampler(BaseSampler):
    """Moves the proposals of another sampler to the nearest free layout; draws one at random while that has none.

    Parameters
    ----------
    algorithm : Algorithm
        The other sampler.
    layouts : LayoutTable
        What exists; proposals are marked as taken.
    seed : int
        Draws depend on it and on the trial's number, so that workers of one study differ.
    """

    def __init__(self, algorithm: Algorithm, layouts: LayoutTable, seed: int) -> None:
        self._layouts, self._seed = layouts, seed
        self._distributions = distributions_of(layouts)
        self._inner = _inner_sampler(algorithm, seed)
        self._next: list[int] = []

    def propose_next(self, rows: Sequence[int]) -> None:
        """Propose these layouts first, as far as they are still free."""
        self._next = list(rows)

    def infer_relative_search_space(self, study: Study, trial: FrozenTrial) -> dict[str, BaseDistribution]:  # noqa: ARG002
        """Return all open layout columns: they are proposed together."""
        return self._distributions

    def sample_relative(
        self, study: Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        """Return a layout that exists and is free, as values of its open columns."""
        row = self._proposed_row(study, trial, search_space)
        self._layouts.is_taken[row] = True
        return dict(self._layouts.values(row))

    def sample_independent(
        self, study: Study, trial: FrozenTrial, param_name: str, param_distribution: BaseDistribution
    ) -> Any:
        """Pass on; no column is sampled alone."""
        return self._inner.sample_independent(study, trial, param_name, param_distribution)

    def before_trial(self, study: Study, trial: FrozenTrial) -> None:
        """Pass on."""
        self._inner.before_trial(study, trial)

    def after_trial(self, study: Study, trial: FrozenTrial, state: TrialState, values: Sequence[float] | None) -> None:
        """Pass on."""
        self._inner.after_trial(study, trial, state, values)

    def reseed_rng(self) -> None:
        """Pass on."""
        self._inner.reseed_rng()

    def _proposed_row(self, study: Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]) -> int:
        while self._next:
            row = self._next.pop(0)
            if not self._layouts.is_taken[row]:
                return row
        several = {name: space for name, space in search_space.items() if not space.single()}
        proposed = self._inner.sample_relative(study, trial, several) if several else {}
        free = self._layouts.free
        rng = np.random.default_rng((self._seed, trial.number))
        drawn = int(free[rng.integers(len(free))])
        if not proposed:
            return drawn
        # NSGA-II leaves mutated columns out, to be drawn at random
        nearest = self._layouts.nearest_free({**self._layouts.values(drawn), **proposed})
        return drawn if nearest is None else nearest


def _inner_sampler(algorithm: Algorithm, seed: int) -> BaseSampler:
    match algorithm:
        case Algorithm.TPE:
            return TPESampler(seed=seed, n_startup_trials=STARTUP_TRIALS)
        case Algorithm.NSGA2:
            return NSGAIISampler(seed=seed, population_size=_POPULATION)
    return RandomSampler(seed=seed)
