"""Prediction intervals: conformal quantiles of standardised residuals, by what is known about the site.

A score is ``|log measured - log predicted| / sigma`` of a row predicted without its own group: its publisher family
(nothing known about the site), its release (sister releases known), or its split group (the release known). Strata
(a family's dense models, or its mixtures of experts) weigh alike, so that coverage holds for the next one and not only
for the largest sweep; where a site is known, its own stratum's errors count more.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from surrogate.analytic.workload import FloatArray

KNOWLEDGE: Final = ("population", "family", "release")
"""What is known about a site, least first."""
BETWEEN_SITES_SD: Final = {"population": 0.10, "family": 0.08, "release": 0.02}
"""Spread of log time that no model of the site explains, added in quadrature: the noise floor between publications,
between releases, and between repeats (data/README.md)."""
_OWN_ROWS_AT_HALF: Final = 20.0
"""Rows of a known stratum at which its own errors make half of the quantile."""


def with_floor(log_sd: FloatArray, knowledge: NDArray[np.object_] | str) -> FloatArray:
    """Return the spread with `BETWEEN_SITES_SD` of the level of knowledge, shape (m,)."""
    if isinstance(knowledge, str):
        return np.hypot(log_sd, BETWEEN_SITES_SD[knowledge])
    return np.hypot(log_sd, pd.Series(knowledge).map(BETWEEN_SITES_SD).to_numpy(dtype=np.float64))


@dataclass(frozen=True, kw_only=True, slots=True)
class ConformalScores:
    """Scores of held-out rows at one level of knowledge, and the stratum each row counts for."""

    score: FloatArray
    stratum: NDArray[np.object_]
    """A publisher family's dense models, or its mixtures of experts."""

    def quantile(self, coverage: float, stratum: str | None = None) -> float:
        """Return the half-width in units of sigma at a coverage in (0, 1), for a new stratum or a known one.

        Notes
        -----
        Weighted quantile with weight 1 / rows of the stratum (Barber et al. 2023, arXiv 2202.13415); the finite-sample
        correction is ``coverage (1 + 1/n)`` with Kish's effective number of rows n, capped at 1. Of a known stratum's
        m rows the share ``m / (m + 20)`` is its own.
        """
        weights = equal_weights(self.stratum)
        weights = weights / weights.sum()
        own = self.stratum == stratum
        if own.any():
            share = own.sum() / (own.sum() + _OWN_ROWS_AT_HALF)
            weights = (1.0 - share) * weights + share * own / own.sum()
        effective = weights.sum() ** 2 / (weights**2).sum()
        return weighted_quantile(self.score, weights, min(coverage * (1.0 + 1.0 / effective), 1.0))


def equal_weights(stratum: NDArray[np.object_]) -> FloatArray:
    """Return 1 / rows of the stratum, shape (n,)."""
    names = pd.Series(stratum)
    return np.asarray(1.0 / names.map(names.value_counts()).to_numpy(dtype=np.float64))


def weighted_quantile(values: FloatArray, weights: FloatArray, share: float) -> float:
    """Return the smallest value up to which the weights make up `share` of their sum."""
    order = np.argsort(values)
    cumulative = np.cumsum(weights[order]) / weights.sum()
    position = min(int(np.searchsorted(cumulative, share)), len(order) - 1)
    return float(values[order][position])


@dataclass(frozen=True, kw_only=True, slots=True)
class ConformalIntervals:
    """Scores per level of knowledge, and where its errors are centred."""

    scores: dict[str, ConformalScores]
    centres: dict[str, float] = field(default_factory=dict)
    """Median of log measured less log predicted where known; families weigh alike."""

    def joined(self, level: str, more: ConformalScores) -> ConformalIntervals:
        """Return intervals that count more scores at a level."""
        known = self.scores[level]
        both = ConformalScores(
            score=np.concatenate([known.score, more.score]), stratum=np.concatenate([known.stratum, more.stratum])
        )
        return replace(self, scores=self.scores | {level: both})

    def centre(self, knowledge: NDArray[np.object_]) -> FloatArray:
        """Return what is added to the log time of each row, shape (m,); 0 at levels without a centre."""
        return np.asarray(pd.Series(knowledge).map(self.centres).fillna(0.0), dtype=np.float64)

    def half_width(
        self,
        knowledge: NDArray[np.object_],
        sigma: FloatArray,
        coverage: float,
        strata: NDArray[np.object_] | None = None,
    ) -> FloatArray:
        """Return the half-width of the interval of log time, shape (m,).

        Levels without scores fall back to the next lower one that has them. Where `strata` are given, the errors of the
        same stratum count more; nothing of a site that is not known counts as its own.
        """
        own = np.full(len(knowledge), "", dtype=object) if strata is None else strata
        pairs = pd.MultiIndex.from_arrays([knowledge, own])
        codes, distinct = pairs.factorize()
        factors = np.array([self._factor(level, coverage, stratum) for level, stratum in distinct], dtype=np.float64)
        return np.asarray(sigma * factors[codes])

    def _factor(self, level: str, coverage: float, stratum: str) -> float:
        own = stratum if level != KNOWLEDGE[0] else None
        for candidate in reversed(KNOWLEDGE[: KNOWLEDGE.index(level) + 1]):
            if candidate in self.scores:
                return self.scores[candidate].quantile(coverage, own)
        return next(iter(self.scores.values())).quantile(coverage)
