"""What the memory model has learnt: a Gaussian over the log factors of items, and its predictions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from surrogate.analytic.workload import FloatArray, IntArray
from surrogate.estimators.memory_model_items import ITEM_EFFECT, NUM_EFFECTS, NUM_ITEMS
from surrogate.estimators.memory_model_sites import UNKNOWN

MAX_LOG_FACTOR: Final = 4.0
"""No item is scaled by more than e^4."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Posterior:
    """Gaussian posterior of all log factors, with the scales it was made with."""

    num_sites: tuple[int, ...]
    """Values per level."""
    mean: FloatArray
    """theta, shape (num_parameters,)."""
    covariance: FloatArray
    """Shape (num_parameters, num_parameters)."""
    variances: FloatArray
    """Prior variance of the item factors, then of every level and effect, shape (1 + num_levels * num_effects,)."""
    peak_scale: float
    """Scale of the noise of a published peak, in log."""
    limit_scales: FloatArray
    """Scale of the noise at the limit, in log: of each source, then of the population, shape (num_sources + 1,)."""

    own_means: FloatArray
    """Log factors of sources that were conditioned on, shape (num_own, num_items): their codes follow the others'."""
    own_covariances: FloatArray
    """Shape (num_own, num_items, num_items)."""

    def limit_scale(self, sources: IntArray) -> FloatArray:
        """Give the noise at the limit of rows by source code (unfitted sources take the population's)."""
        scale: FloatArray = self.limit_scales[np.where(sources < self.num_sites[-1], sources, UNKNOWN)]
        return scale

    def predict(self, items: FloatArray, codes: IntArray) -> tuple[FloatArray, FloatArray]:
        """Predict the mean and the variance (without noise) of the log peak, each of shape (n,)."""
        mean, variance = np.empty(len(items)), np.empty(len(items))
        for site, rows in rows_by_site(codes):
            factors, covariance = self.site_factors(site)
            mean[rows], shares = log_peak(items[rows], factors)
            variance[rows] = ((shares @ covariance) * shares).sum(axis=1)
        return mean, variance

    def log_factors(self, codes: IntArray) -> FloatArray:
        """Give the log factor of every item for each row's site, shape (n, num_items)."""
        factors = np.empty((len(codes), NUM_ITEMS))
        for site, rows in rows_by_site(codes):
            factors[rows] = self.site_factors(site)[0]
        return factors

    def site_factors(self, site: IntArray) -> tuple[FloatArray, FloatArray]:
        """Give one site's log factors (shape (num_items,)) and their covariance.

        An unknown level adds its prior variance: a stranger is less sure, not different.
        """
        own = int(site[-1]) - self.num_sites[-1]
        if own >= 0:
            return self.own_means[own], self.own_covariances[own]
        selector, strange = self._selector(site)
        same_effect = (ITEM_EFFECT[:, None] == ITEM_EFFECT[None, :]).astype(np.float64)
        covariance = selector @ self.covariance @ selector.T + same_effect * strange[ITEM_EFFECT][:, None]
        return selector @ self.mean, covariance

    def _selector(self, site: IntArray) -> tuple[FloatArray, FloatArray]:
        selector = np.zeros((NUM_ITEMS, len(self.mean)))
        selector[np.arange(NUM_ITEMS), np.arange(NUM_ITEMS)] = 1.0
        strange = np.zeros(NUM_EFFECTS)
        offset = NUM_ITEMS
        for level, (code, count) in enumerate(zip(site, self.num_sites, strict=True)):
            if code == UNKNOWN:
                strange += self.variances[1 + level * NUM_EFFECTS : 1 + (level + 1) * NUM_EFFECTS]
            else:
                selector[np.arange(NUM_ITEMS), offset + code * NUM_EFFECTS + ITEM_EFFECT] = 1.0
            offset += count * NUM_EFFECTS
        return selector, strange


def rows_by_site(codes: IntArray) -> Iterator[tuple[IntArray, IntArray | slice]]:
    """Group rows by their site codes (shape (n, num_levels)); a table of one site, as in a search, costs nothing."""
    if len(codes) and (codes == codes[0]).all():
        yield codes[0], slice(None)
        return
    sites, site_of_row = np.unique(codes, axis=0, return_inverse=True)
    order = np.argsort(site_of_row.ravel(), kind="stable")
    ends = np.cumsum(np.bincount(site_of_row.ravel(), minlength=len(sites)))
    for site, start, end in zip(sites, np.concatenate([[0], ends[:-1]]), ends, strict=True):
        yield site, order[start:end]


def log_peak(items: FloatArray, factors: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the log peak (shape (n,)) and item shares for item bytes and log factors (both (n, num_items))."""
    scaled = items * np.exp(np.clip(factors, -MAX_LOG_FACTOR, MAX_LOG_FACTOR))
    total = scaled.sum(axis=1)
    return np.log(total), scaled / total[:, None]
