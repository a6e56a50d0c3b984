"""Prediction intervals: conformal quantiles of standardised residuals, by what is known about the site.

A score is ``|log measured - log predicted| / sigma`` of a row predicted without its own group: its publisher family
(nothing known about the site), its release (sister releases known), or its split group (the release known). Families
weigh alike, so that coverage holds for the next family and not only for the largest sweep.
"""

from __future__ import annotations

from dataclasses import dataclass
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


def with_floor(log_sd: FloatArray, knowledge: NDArray[np.object_] | str) -> FloatArray:
    """Return the spread with `BETWEEN_SITES_SD` of the level of knowledge, shape (m,)."""
    if isinstance(knowledge, str):
        return np.hypot(log_sd, BETWEEN_SITES_SD[knowledge])
    return np.hypot(log_sd, pd.Series(knowledge).map(BETWEEN_SITES_SD).to_numpy(dtype=np.float64))


@dataclass(frozen=True, kw_only=True, slots=True)
class ConformalScores:
    """Scores of held-out rows at one level of knowledge, and the family each row counts for."""

    score: FloatArray
    family: NDArray[np.object_]

    def quantile(self, coverage: float) -> float:
        """Return the half-width in units of sigma at a coverage in (0, 1).

        Notes
        -----
        Weighted quantile with weight 1 / rows of the family (Barber et al. 2023, arXiv 2202.13415); the finite-sample
        correction is ``coverage (1 + 1/n)`` with Kish's effective number of rows n, capped at 1.
        """
        sizes = pd.Series(self.family).map(pd.Series(self.family).value_counts()).to_numpy(dtype=np.float64)
        weights = 1.0 / sizes
        order = np.argsort(self.score)
        cumulative = np.cumsum(weights[order]) / weights.sum()
        effective = weights.sum() ** 2 / (weights**2).sum()
        target = min(coverage * (1.0 + 1.0 / effective), 1.0)
        position = min(int(np.searchsorted(cumulative, target)), len(order) - 1)
        return float(self.score[order][position])


@dataclass(frozen=True, kw_only=True, slots=True)
class ConformalIntervals:
    """Scores per level of knowledge."""

    scores: dict[str, ConformalScores]

    def half_width(self, knowledge: NDArray[np.object_], sigma: FloatArray, coverage: float) -> FloatArray:
        """Return the half-width of the interval of log time, shape (m,).

        Levels without scores fall back to the next lower one that has them.
        """
        factors = {level: self._factor(level, coverage) for level in KNOWLEDGE}
        return sigma * pd.Series(knowledge).map(factors).to_numpy(dtype=np.float64)

    def _factor(self, level: str, coverage: float) -> float:
        for candidate in reversed(KNOWLEDGE[: KNOWLEDGE.index(level) + 1]):
            if candidate in self.scores:
                return self.scores[candidate].quantile(coverage)
        return next(iter(self.scores.values())).quantile(coverage)
