"""Sources that publish neither a peak nor a failure still say something: what ran, fitted.

Their rows do not move the shared factors (published runs are the ones that ran; as evidence for everyone they would
only make memory look small). They update the factors of their own source: a Gaussian prior from the wider levels, the
same likelihood, a Laplace posterior. A user's few runs are taken in the same way, without fitting anything again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from surrogate.analytic.workload import FloatArray
from surrogate.estimators.memory_model_fit import Evidence, row_terms
from surrogate.estimators.memory_model_items import NUM_ITEMS
from surrogate.estimators.memory_model_posterior import log_peak

NEWTON_STEPS: Final = 12
JITTER: Final = 1e-6


@dataclass(frozen=True, kw_only=True, slots=True)
class ItemFactors:
    """Gaussian over the log factors of the items at one place."""

    mean: FloatArray
    """Shape (num_items,)."""
    covariance: FloatArray
    """Shape (num_items, num_items)."""


def condition_factors(prior: ItemFactors, evidence: Evidence, *, peak_scale: float, limit_scale: float) -> ItemFactors:
    """Update item factors by the rows of one source.

    Parameters
    ----------
    prior : ItemFactors
        Of a source of the same stack and publisher family that nothing is known of.
    evidence : Evidence
        Rows of the source; their codes are not read.
    peak_scale, limit_scale : float
        Noise of a published peak and at the limit, in log.
    """
    limit_scales = np.full(len(evidence.side), limit_scale)
    precision = np.linalg.inv(prior.covariance + JITTER * np.eye(NUM_ITEMS))

    def objective(factors: FloatArray) -> float:
        predicted, _ = log_peak(evidence.items, factors[None, :])
        away = factors - prior.mean
        return float(
            row_terms(evidence, predicted, peak_scale, limit_scales).loss.sum() + 0.5 * away @ precision @ away
        )

    factors, hessian = prior.mean, precision
    for _ in range(NEWTON_STEPS):
        predicted, shares = log_peak(evidence.items, factors[None, :])
        terms = row_terms(evidence, predicted, peak_scale, limit_scales)
        gradient = shares.T @ terms.slope + precision @ (factors - prior.mean)
        hessian = (shares.T * terms.curvature) @ shares + precision
        direction, length, before = np.linalg.solve(hessian, gradient), 1.0, objective(factors)
        while objective(factors - length * direction) > before and length > 1e-3:
            length /= 2.0
        factors = factors - length * direction
    return ItemFactors(mean=factors, covariance=np.linalg.inv(hessian))
