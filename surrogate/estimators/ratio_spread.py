"""How sure the ratio of two configurations' step times is: what both share cancels."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import numpy as np
import pandas as pd

from surrogate.estimators.design import posterior_covariance
from surrogate.estimators.hybrid import prepare_table
from surrogate.estimators.intervals import BETWEEN_SITES_SD
from surrogate.features.levels import UNKNOWN, SiteLevels

if TYPE_CHECKING:
    from surrogate.analytic.workload import FloatArray
    from surrogate.estimators import HybridPredictor

HYPOTHETICAL_SITE: Final = "(this site)"
"""Where plans of an unknown site are measured in thought, so that they share its habits."""
_UNEXPLAINED_SD: Final = math.sqrt(2.0) * BETWEEN_SITES_SD["release"]
"""Of the difference of two configurations' log times: each differs by as much between repeats."""
_COVERAGE: Final = 0.9
_NORMAL_95: Final = 1.6448536269514722


def log_difference_sds(plans: pd.DataFrame, predictor: HybridPredictor) -> FloatArray:
    """Return the standard deviation of the log time of each row less that of the next, shape (n - 1,).

    Notes
    -----
    With C the posterior covariance of log time between the rows, given everything that was measured,
    ``var = C_ii + C_jj - 2 C_ij``: what both share (the site's habits, the device, measured neighbours) cancels. Rows
    of a site nobody knows are taken to be of one such site. The spread is widened by the factor that conformalization
    found, and what no term explains of two configurations is added. `experiments/pair_probability` measures how right
    the probabilities are.
    """
    table = prepare_table(plans)
    knowledge = predictor.effects_.knowledge(table.levels)
    covariance = posterior_covariance(predictor.effects_, replace(table, levels=_at_one_site(table.levels)))
    own, shared = np.diag(covariance), np.diag(covariance, 1)
    sds = np.sqrt(np.maximum(own[1:] + own[:-1] - 2.0 * shared, 0.0))
    half = predictor.intervals_.half_width(knowledge, np.ones(len(plans)), _COVERAGE)
    widening = np.maximum(np.maximum(half[1:], half[:-1]) / _NORMAL_95, 1.0)
    return np.asarray(np.hypot(widening * sds, _UNEXPLAINED_SD))


def _at_one_site(levels: SiteLevels) -> SiteLevels:
    """Return levels whose unknown publishers and releases are one and the same."""
    named = {
        name: np.where(getattr(levels, name) == UNKNOWN, HYPOTHETICAL_SITE, getattr(levels, name)).astype(object)
        for name in ("publisher_family", "release")
    }
    return replace(levels, **named)
