"""Held-out scores for the intervals: every row predicted without its split group, release or family."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from surrogate.analytic.workload import FloatArray
from surrogate.estimators.intervals import (
    ConformalIntervals,
    ConformalScores,
    equal_weights,
    weighted_quantile,
    with_floor,
)
from surrogate.estimators.site_data import SiteData
from surrogate.estimators.site_effects import SiteEffects
from surrogate.features.knobs import KNOBS
from surrogate.features.levels import SiteLevels

_FOLDS = 4
_PRIOR_ROWS = 10.0
"""Rows of weight that the spread over all families has against a family's own."""
_LARGEST_ERROR2 = 0.25
"""Squared errors of log time count at most this much: one outlier says little about the others."""
OPEN_GATE = 0.5
"""Weight of the trees' correction from which on a row has neighbours."""
_FOLDS_BY_LEVEL = {"population": 7, "family": 7, "release": _FOLDS}


@dataclass(frozen=True, kw_only=True, slots=True)
class ResidualSpread:
    """Root mean square of what trees leave, per stratum, for rows whose gate is open."""

    overall: float
    by_stratum: dict[str, float]

    def combined(self, log_sd: FloatArray, gate: FloatArray, strata: NDArray[np.object_]) -> FloatArray:
        """Return the spread of the hybrid: the effects' where the gate is shut, the trees' where it is open."""
        usual = pd.Series(strata).map(self.by_stratum).fillna(self.overall).to_numpy(np.float64)
        own = np.minimum(usual, np.maximum(log_sd, usual * 0.5))
        spread: FloatArray = np.hypot((1.0 - gate) * log_sd, gate * own)
        return spread


def strata(levels: SiteLevels, knobs: FloatArray) -> NDArray[np.object_]:
    """Return the publisher family of each row, dense and mixture-of-experts models apart, shape (n,)."""
    kind = np.where(knobs[:, KNOBS.index("num_experts")] > 0.0, " (MoE)", "").astype(object)
    return np.asarray(levels.publisher_family + kind)


def with_neighbourhood(strata: NDArray[np.object_], gate: FloatArray) -> NDArray[np.object_]:
    """Return the strata of rows of known releases, those that little measured is like apart, shape (n,)."""
    return np.where(gate < OPEN_GATE, strata + " (alone)", strata).astype(object)


def residual_spread(corrected: FloatArray, strata: NDArray[np.object_]) -> ResidualSpread:
    """Return the spread of log-time errors after trees that did not see a row's split group.

    Parameters
    ----------
    corrected : ndarray, shape (n,)
        Errors of rows predicted without their split group, the gated trees' correction included.
    strata : ndarray of str, shape (n,)
        As `strata` returns them.
    """
    error2 = pd.Series(corrected**2).clip(upper=_LARGEST_ERROR2)
    overall = float(error2.groupby(strata).mean().mean())
    grouped = error2.groupby(strata).agg(["sum", "size"])
    shrunk = (grouped["sum"] + _PRIOR_ROWS * overall) / (grouped["size"] + _PRIOR_ROWS)
    by_stratum = {str(name): float(np.sqrt(value)) for name, value in shrunk.items()}
    return ResidualSpread(overall=float(np.sqrt(overall)), by_stratum=by_stratum)


def fold_of_groups(groups: NDArray[np.int64], folds: int = _FOLDS) -> NDArray[np.int64]:
    """Return a fold per row that keeps groups whole and spreads them by a fixed permutation."""
    codes = pd.factorize(groups)[0]
    shuffled = np.random.default_rng(0).permutation(codes.max() + 1)
    return shuffled[codes] % folds


@dataclass(frozen=True, kw_only=True, slots=True)
class HeldOutCorrection:
    """What the trees say of rows whose split group they did not see, each of shape (n,)."""

    gate: FloatArray
    correction: FloatArray
    """Of log time, before the gate."""

    def take(self, rows: NDArray[np.int64]) -> HeldOutCorrection:
        """Return the selected rows."""
        return HeldOutCorrection(gate=self.gate[rows], correction=self.correction[rows])


def unseen_scores(
    effects: SiteEffects, data: SiteData, error: FloatArray, gate: FloatArray, spread: ResidualSpread
) -> ConformalScores:
    """Return scores of rows whose split group the effects did not see.

    Parameters
    ----------
    effects : SiteEffects
        Fitted on other rows.
    data : SiteData
        n rows of releases it knows.
    error, gate : ndarray, shape (n,)
        Of log time after trees that did not see a row's split group, and the weight of those.
    spread : ResidualSpread
        After the trees.
    """
    kinds = strata(data.levels, data.knobs)
    log_sd = effects.predict(data.terms, data.levels, data.knobs).log_sd
    return ConformalScores(
        score=np.abs(error) / with_floor(spread.combined(log_sd, gate, kinds), "release"),
        stratum=with_neighbourhood(kinds, gate),
    )


def conformalize(
    effects: SiteEffects,
    data: SiteData,
    trees: HeldOutCorrection,
    spread: ResidualSpread,
    *,
    groups: NDArray[np.int64],
    levels: tuple[str, ...],
) -> ConformalIntervals:
    """Return conformal scores at each level of knowledge.

    Parameters
    ----------
    effects : SiteEffects
        Fitted on `data`.
    data : SiteData
        n rows.
    trees : HeldOutCorrection
        Of the same rows.
    spread : ResidualSpread
        After the trees.
    groups : ndarray of int, shape (n,)
        Split groups.
    levels : tuple of str
        Out of population, family and release.

    Notes
    -----
    Sites nobody knows are mostly as fast as tuned runs and sometimes far slower: the mean error is not the median one.
    Predictions for them are therefore centred on the median, which is what a scoring by absolute log error asks for.
    """
    families, releases = data.levels.publisher_family, data.levels.release
    keys = {
        "population": pd.factorize(families)[0],
        "family": pd.factorize(releases)[0],
        "release": groups,
    }
    kinds = strata(data.levels, data.knobs)
    has_sister = pd.Series(releases).groupby(families).transform("nunique").to_numpy() > 1
    scores, centres = {}, {}
    for level in levels:
        stratum = with_neighbourhood(kinds, trees.gate) if level == "release" else kinds
        log_sd, error = _held_out(effects, data, fold_of_groups(keys[level], _FOLDS_BY_LEVEL[level]))
        if level == "release":
            error = error + trees.gate * trees.correction
            log_sd = spread.combined(log_sd, trees.gate, kinds)
        usable = has_sister if level == "family" else np.ones(len(data), dtype=np.bool_)
        if level == "population":
            centres[level] = weighted_quantile(-error, equal_weights(families), 0.5)
            error = error + centres[level]
        if usable.any():
            score = np.abs(error) / with_floor(log_sd, level)
            scores[level] = ConformalScores(score=score[usable], stratum=stratum[usable])
    return ConformalIntervals(scores=scores, centres=centres)


def _held_out(effects: SiteEffects, data: SiteData, folds: NDArray[np.int64]) -> tuple[FloatArray, FloatArray]:
    """Return predicted spread and error of log time of rows whose fold was left out, shape (n,) each."""
    spread, error = np.full(len(data), np.std(data.log_time)), np.zeros(len(data))
    masks = [held for fold in np.unique(folds) if not (held := folds == fold).all()]
    for held, fitted in zip(masks, effects.restrictions(~held for held in masks), strict=True):
        estimate = fitted.predict(data.terms.take(held), data.levels.take(held), data.knobs[held])
        spread[held], error[held] = estimate.log_sd, estimate.log_time - data.log_time[held]
    return spread, error
