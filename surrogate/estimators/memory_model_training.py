"""From a runs table to a fitted memory model: evidence, trust in the textbook, interval widths, recalibration."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from surrogate.analytic.memory import peak_memory
from surrogate.analytic.workload import BoolArray, FloatArray, IntArray, Workload
from surrogate.errors import InputError
from surrogate.estimators.memory_model_conditioning import ItemFactors, condition_factors
from surrogate.estimators.memory_model_files import MemoryModelState
from surrogate.estimators.memory_model_fit import Evidence, LeftOut, fit_posterior, leave_out
from surrogate.estimators.memory_model_items import NUM_ITEMS, PRIOR_COEFFICIENTS, item_table, seen_items
from surrogate.estimators.memory_model_posterior import Posterior
from surrogate.estimators.memory_model_sites import (
    NOT_SAID,
    UNKNOWN,
    MemoryObservations,
    SiteVocabulary,
    read_observations,
)
from surrogate.estimators.oom import fit_recalibration, oom_probability
from surrogate.estimators.oom_trees import OomTrees, oom_features

ITEM_SCALES: Final = (0.05, 0.1, 0.2, 0.4)
"""Trust in the textbook: candidate prior standard deviations of an item's log factor."""

COVERAGE: Final = 0.9

GAUSSIAN_FACTOR: Final = 1.6448536269514722
"""Half width of a 90 % interval in standard deviations, where no published peak can say better."""

SHIFT_PRIOR_SOURCES: Final = 2.0
"""Sources without any excess that the mean excess of strangers is shrunk by."""

LARGEST_STRANGER_RESIDUAL: Final = 1.0
"""In log, of a peak whose source was left out; more says that the linearisation does not reach that far."""

MIN_ROWS_FOR_TREES: Final = 200
"""One-sided rows of each outcome below which trees would only learn the sites' names."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TrainingRows:
    """Evidence with what its rows belong to; arrays of shape (n,)."""

    evidence: Evidence
    workload: Workload
    device_bytes: FloatArray
    source_name: NDArray[np.str_]
    source: IntArray
    group: IntArray


def train_memory_model(
    runs: pd.DataFrame, workload: Workload, *, item_scale: float | None, random_state: int
) -> MemoryModelState:
    """Fit everything; the arguments are those of `MemoryModel`."""
    observations = read_observations(runs)
    informative = _informative_rows(observations)
    if informative.size == 0:
        raise InputError("runs", "must hold published peaks or out-of-memory rows", len(runs), "add such rows")
    vocabulary = SiteVocabulary.of(runs.iloc[informative])
    rows = _stacked_rows(observations, informative, workload, vocabulary.codes(runs))
    num_sites = tuple(len(names) for names in vocabulary.names)
    scales = ITEM_SCALES if item_scale is None else (item_scale,)
    fits = [fit_posterior(rows.evidence, num_sites, scale) for scale in scales]
    strangers = [leave_out(fit, rows.evidence, rows.source) for fit in fits]
    best = int(np.argmax([_source_score(fit, rows, left) for fit, left in zip(fits, strangers, strict=True)]))
    posterior, stranger = fits[best], strangers[best]
    known = leave_out(posterior, rows.evidence, rows.group)
    shift = stranger_shift(rows.evidence.target - stranger.mean, _equal_weights(rows))
    stranger = stranger._replace(mean=stranger.mean + shift)
    known_factor = _interval_factor(posterior, rows, known, np.ones(len(rows.source)))
    stranger_factor = _interval_factor(posterior, rows, stranger, _equal_weights(rows))
    recalibration, trees = _fit_outcomes(posterior, rows, known, random_state)
    state = MemoryModelState(
        item_scale=scales[best],
        vocabulary=vocabulary,
        posterior=posterior,
        stranger_shift=shift,
        interval_factors=(known_factor, max(known_factor, stranger_factor)),
        recalibration=recalibration,
        trees=trees,
    )
    return condition_on_sources(state, runs, workload)


def condition_on_sources(state: MemoryModelState, runs: pd.DataFrame, workload: Workload) -> MemoryModelState:
    """Condition on every named source of `runs` that is not in the fit; earlier conditioning on it is replaced."""
    observations = read_observations(runs)
    fitted = replace(state.vocabulary, own_sources=())
    codes = fitted.codes(runs)
    open_rows = np.flatnonzero((codes[:, -1] == UNKNOWN) & (observations.source != NOT_SAID))
    rows = _stacked_rows(observations, open_rows, workload, codes)
    own = dict(zip(state.vocabulary.own_sources, _own_factors(state.posterior), strict=True))
    scale = float(state.posterior.limit_scales[-1])
    for source in np.unique(rows.source_name):
        chosen = rows.source_name == source
        mean, covariance = state.posterior.site_factors(rows.evidence.codes[chosen][0])
        own[str(source)] = condition_factors(
            ItemFactors(mean=mean + state.stranger_shift, covariance=covariance),
            rows.evidence.take(chosen),
            peak_scale=state.posterior.peak_scale,
            limit_scale=scale,
        )
    posterior = replace(
        state.posterior,
        own_means=np.array([factors.mean for factors in own.values()]).reshape(-1, NUM_ITEMS),
        own_covariances=np.array([factors.covariance for factors in own.values()]).reshape(-1, NUM_ITEMS, NUM_ITEMS),
    )
    return replace(state, vocabulary=replace(fitted, own_sources=tuple(own)), posterior=posterior)


def _own_factors(posterior: Posterior) -> list[ItemFactors]:
    pairs = zip(posterior.own_means, posterior.own_covariances, strict=True)
    return [ItemFactors(mean=mean, covariance=covariance) for mean, covariance in pairs]


def _stacked_rows(
    observations: MemoryObservations, chosen: IntArray, workload: Workload, codes: IntArray
) -> TrainingRows:
    """Stack the published peaks and then the outcomes of some rows; codes of shape (n, num_levels)."""
    peaks = chosen[np.isfinite(observations.log_peak[chosen])]
    taken = np.concatenate([peaks, chosen])
    is_peak = np.arange(len(taken)) < len(peaks)
    breakdown = peak_memory(workload.take(taken), PRIOR_COEFFICIENTS)
    kinds = np.where(is_peak, observations.kind[taken], "device")
    outcome = np.where(observations.out_of_memory[taken], -1.0, 1.0)
    usable = np.log(workload.hbm_bytes[taken])
    evidence = Evidence(
        items=item_table(breakdown) * seen_items(kinds),
        codes=codes[taken],
        target=np.where(is_peak, observations.log_peak[taken], usable),
        side=np.where(is_peak, 0.0, outcome),
    )
    return TrainingRows(
        evidence=evidence,
        workload=workload.take(taken),
        device_bytes=breakdown.device_bytes,
        source_name=observations.source[taken],
        source=np.unique(observations.source[taken], return_inverse=True)[1],
        group=np.unique(observations.group[taken], return_inverse=True)[1],
    )


def _informative_rows(observations: MemoryObservations) -> IntArray:
    """Rows with a published peak, and all rows of sources that report running out of memory."""
    reporting = np.unique(observations.source[observations.out_of_memory])
    return np.flatnonzero(np.isfinite(observations.log_peak) | np.isin(observations.source, reporting))


def _source_score(posterior: Posterior, rows: TrainingRows, left: LeftOut) -> float:
    """Mean over sources of the mean log density of their peaks, each source predicted without itself."""
    total = left.variance + posterior.peak_scale**2
    density = -0.5 * ((rows.evidence.target - left.mean) ** 2 / total + np.log(total))
    return float(np.average(density, weights=_equal_weights(rows) + 1e-12))


def _equal_weights(rows: TrainingRows) -> FloatArray:
    """Weights that give every source with published peaks the same sum (0 on one-sided rows), shape (n,)."""
    counts = np.maximum(np.bincount(rows.source, weights=rows.evidence.is_peak), 1.0)
    weights: FloatArray = rows.evidence.is_peak / counts[rows.source]
    return weights


def stranger_shift(residual: FloatArray, weights: FloatArray) -> float:
    """Return how much more than predicted a source shows that was left out, in log, shrunk towards nothing.

    Parameters
    ----------
    residual : ndarray, shape (n,)
        Measured less predicted log memory without the row's source.
    weights : ndarray, shape (n,)
        Of the rows in the mean, each source's summing to 1; 0 where no peak was published.
    """
    plausible = residual.clip(-LARGEST_STRANGER_RESIDUAL, LARGEST_STRANGER_RESIDUAL)
    return float((weights * plausible).sum() / (weights.sum() + SHIFT_PRIOR_SOURCES))


def _interval_factor(posterior: Posterior, rows: TrainingRows, left: LeftOut, weights: FloatArray) -> float:
    """Weighted 90 % quantile of the standardised residuals of peaks that were left out."""
    peak = rows.evidence.is_peak
    if not peak.any():
        return GAUSSIAN_FACTOR
    spread = np.sqrt(left.variance[peak] + posterior.peak_scale**2)
    score = np.abs(rows.evidence.target - left.mean)[peak] / spread
    order = np.argsort(score)
    cumulative = np.cumsum(weights[peak][order])
    index = int(np.searchsorted(cumulative, COVERAGE * cumulative[-1]))
    return float(score[order][min(index, len(order) - 1)])


def _fit_outcomes(
    posterior: Posterior, rows: TrainingRows, left: LeftOut, random_state: int
) -> tuple[tuple[float, float], OomTrees | None]:
    """Recalibrate the probit and grow trees on it, both on rows predicted without their group."""
    limit = np.flatnonzero(~rows.evidence.is_peak)
    scale = posterior.limit_scale(rows.evidence.source)
    margin = ((left.mean - rows.evidence.target) / np.sqrt(left.variance + scale**2))[limit]
    out_of_memory: BoolArray = rows.evidence.side[limit] < 0
    recalibration = fit_recalibration(margin, out_of_memory)
    if min(out_of_memory.sum(), (~out_of_memory).sum()) < MIN_ROWS_FOR_TREES:
        return recalibration, None
    features = oom_features(rows.workload.take(limit), margin, rows.device_bytes[limit])
    probability = oom_probability(margin, recalibration)
    return recalibration, OomTrees.fit(features, probability, out_of_memory, random_state=random_state)
