"""Held-out scores for the intervals: every row predicted without its split group, release or family."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from surrogate.analytic.workload import FloatArray
from surrogate.estimators.intervals import ConformalIntervals, ConformalScores
from surrogate.estimators.residual_model import ResidualModel
from surrogate.estimators.site_effects import SiteData, SiteEffects
from surrogate.features.levels import SiteLevels

_FOLDS = 5
_PRIOR_ROWS = 10.0
"""Rows of weight that the spread over all families has against a family's own."""
_SMALLEST_SD = 0.004


@dataclass(frozen=True, kw_only=True, slots=True)
class ResidualSpread:
    """Root mean square of what trees leave, per publisher family, for rows whose gate is open."""

    overall: float
    by_family: dict[str, float]

    def combined(self, log_sd: FloatArray, gate: FloatArray, levels: SiteLevels) -> FloatArray:
        """Return the spread of the hybrid: the effects' where the gate is shut, the trees' where it is open."""
        family = pd.Series(levels.publisher_family).map(self.by_family).fillna(self.overall).to_numpy(np.float64)
        own = np.minimum(family, np.maximum(log_sd, family * 0.5))
        return np.maximum(np.hypot((1.0 - gate) * log_sd, gate * own), _SMALLEST_SD)


def residual_spread(
    model: ResidualModel,
    features: FloatArray,
    leftover: FloatArray,
    levels: SiteLevels,
    groups: NDArray[np.int64],
) -> ResidualSpread:
    """Return the spread of residuals after trees that did not see a row's split group."""
    model.out_of_fold_ = model.out_of_fold(features, leftover, fold_of_groups(groups))
    error2 = pd.Series((leftover - model.out_of_fold_) ** 2).clip(upper=0.25)
    overall = float(error2.groupby(levels.publisher_family).mean().mean())
    grouped = error2.groupby(levels.publisher_family).agg(["sum", "size"])
    shrunk = (grouped["sum"] + _PRIOR_ROWS * overall) / (grouped["size"] + _PRIOR_ROWS)
    by_family = {str(name): float(np.sqrt(value)) for name, value in shrunk.items()}
    return ResidualSpread(overall=float(np.sqrt(overall)), by_family=by_family)


def fold_of_groups(groups: NDArray[np.int64], folds: int = _FOLDS) -> NDArray[np.int64]:
    """Return a fold per row that keeps groups whole and spreads them by a fixed permutation."""
    codes = pd.factorize(groups)[0]
    shuffled = np.random.default_rng(0).permutation(codes.max() + 1)
    return shuffled[codes] % folds


def conformalize(
    effects: SiteEffects, data: SiteData, spread: ResidualSpread, *, groups: NDArray[np.int64], levels: tuple[str, ...]
) -> ConformalIntervals:
    """Return conformal scores at each level of knowledge.

    Parameters
    ----------
    effects : SiteEffects
        Fitted on `data`.
    data : SiteData
        n rows.
    spread : ResidualSpread
        Of the trees, for rows whose release is known.
    groups : ndarray of int, shape (n,)
        Split groups.
    levels : tuple of str
        Out of population, family and release.
    """
    keys = {
        "population": pd.factorize(data.levels.publisher_family)[0],
        "family": pd.factorize(data.levels.release)[0],
        "release": groups,
    }
    families = data.levels.publisher_family
    has_sister = np.array([len(set(data.levels.release[families == name])) > 1 for name in families])
    scores = {}
    for level in levels:
        estimate, error = _held_out(effects, data, fold_of_groups(keys[level], 7 if level != "release" else _FOLDS))
        sigma = np.maximum(estimate, _SMALLEST_SD)
        usable = has_sister if level == "family" else np.ones(len(data), dtype=np.bool_)
        if usable.any():
            scores[level] = ConformalScores(score=np.abs(error[usable]) / sigma[usable], family=families[usable])
    return ConformalIntervals(scores=scores)


def _held_out(effects: SiteEffects, data: SiteData, folds: NDArray[np.int64]) -> tuple[FloatArray, FloatArray]:
    """Return predicted spread and error of log time of rows whose fold was left out, shape (n,) each."""
    spread, error = np.empty(len(data)), np.empty(len(data))
    for fold in np.unique(folds):
        held = folds == fold
        if held.all():
            spread[held], error[held] = np.std(data.log_time), 0.0
            continue
        fitted = effects.restricted(~held)
        estimate = fitted.predict(data.terms.take(held), data.levels.take(held), data.knobs[held])
        spread[held], error[held] = estimate.log_sd, estimate.log_time - data.log_time[held]
    return spread, error
