"""The learned memory model: itemised analytic bytes, item factors learnt with their doubt, risk of running out."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from surrogate.analytic.memory import MemoryBreakdown, peak_memory, stage_memory
from surrogate.analytic.workload import BoolArray, FloatArray, IntArray, Workload
from surrogate.errors import InputError
from surrogate.estimators.memory_model_files import MemoryModelState, read_memory_model, write_memory_model
from surrogate.estimators.memory_model_items import PRIOR_COEFFICIENTS, item_table, scaled_breakdown, seen_items
from surrogate.estimators.memory_model_sites import UNKNOWN
from surrogate.estimators.memory_model_training import condition_on_sources, train_memory_model
from surrogate.estimators.oom import oom_margin, oom_probability
from surrogate.estimators.oom_trees import oom_features


@dataclass(frozen=True, kw_only=True, slots=True)
class MemoryPrediction:
    """Predicted memory; every array of shape (n,)."""

    breakdown: MemoryBreakdown
    """Items of the worst stage, corrected: they sum to the allocated, reserved and device peaks."""
    peak_bytes: FloatArray
    """Peak as the asked kind of measurement would show it."""
    lower_bytes: FloatArray
    upper_bytes: FloatArray
    """90 % interval of `peak_bytes`."""
    oom_probability: FloatArray


class MemoryModel(BaseEstimator):  # type: ignore[misc]
    """Peak memory with an interval, and the probability of running out of it.

    Each item of the analytic breakdown is scaled by a factor: a shared one close to the textbook, times shrunk ones of
    the framework stack, the publisher family and the source. Published peaks, runs that ran and runs that ran out of
    memory are fitted together. Trees on the log odds correct sources whose failures are known.

    Parameters
    ----------
    item_scale : float or None
        Prior standard deviation of the shared log factors; None lets the fit choose among four by how well each
        source's peaks are predicted without it.
    random_state : int
        Seed of the trees.

    Attributes
    ----------
    state_ : MemoryModelState
        Everything learnt.

    Notes
    -----
    `fit` and `predict` take the completed workload beside the table, so that rows are completed once for all models:
    scikit-learn's `check_estimator` therefore does not apply.
    """

    def __init__(self, *, item_scale: float | None = None, random_state: int = 0) -> None:
        self.item_scale = item_scale
        self.random_state = random_state

    def fit(self, runs: pd.DataFrame, workload: Workload) -> Self:
        """Learn from published peaks and outcomes.

        Parameters
        ----------
        runs : DataFrame of n rows
            Canonical columns; see `read_observations`.
        workload : Workload of n rows
            The same rows, complete.

        Raises
        ------
        InputError
            If the tables differ in length, or no row has a published peak or ran out of memory.
        """
        _check_lengths(runs, workload)
        self.state_ = train_memory_model(runs, workload, item_scale=self.item_scale, random_state=self.random_state)
        return self

    def condition(self, runs: pd.DataFrame, workload: Workload) -> MemoryModel:
        """Return a model that knows more of the sources of `runs`, without fitting anything again.

        Parameters
        ----------
        runs : DataFrame of n rows
            Rows of sources that are not in the fit: peaks, failures, or just that they ran. Others are left aside.
        workload : Workload of n rows
            The same rows, complete.
        """
        check_is_fitted(self)
        _check_lengths(runs, workload)
        model = MemoryModel(item_scale=self.item_scale, random_state=self.random_state)
        model.state_ = condition_on_sources(self.state_, runs, workload)
        return model

    def predict(
        self, runs: pd.DataFrame, workload: Workload, *, kind: NDArray[np.str_] | None = None
    ) -> MemoryPrediction:
        """Predict the peak, its 90 % interval and the probability of running out of memory.

        Parameters
        ----------
        runs : DataFrame of n rows
            Only the columns that name the site are read; absent or unknown names mean the population.
        workload : Workload of n rows
            The same rows, complete.
        kind : array of str, shape (n,), optional
            How `peak_bytes` is measured: allocated (default), reserved or device.
        """
        check_is_fitted(self)
        _check_lengths(runs, workload)
        state: MemoryModelState = self.state_
        kinds = np.full(len(workload), "allocated") if kind is None else kind
        codes = state.vocabulary.codes(runs)
        breakdown = peak_memory(workload, PRIOR_COEFFICIENTS)
        items = item_table(breakdown)
        shift = _shift(state, codes)
        log_peak, variance = state.posterior.predict(items * seen_items(kinds), codes)
        log_peak = log_peak + shift
        half_width = _interval_factor(state, codes) * np.sqrt(variance + state.posterior.peak_scale**2)
        return MemoryPrediction(
            breakdown=scaled_breakdown(breakdown, np.exp(state.posterior.log_factors(codes) + shift[:, None])),
            peak_bytes=np.exp(log_peak),
            lower_bytes=np.exp(log_peak - half_width),
            upper_bytes=np.exp(log_peak + half_width),
            oom_probability=_oom_probability(state, workload, items, codes),
        )

    def predict_stages(self, run: pd.DataFrame, workload: Workload) -> MemoryBreakdown:
        """Itemise every pipeline stage of one run, corrected for its site (arrays of shape (pp,), first stage first).

        Raises
        ------
        InputError
            If there is not exactly one row.
        """
        check_is_fitted(self)
        _check_lengths(run, workload)
        stages = stage_memory(workload, PRIOR_COEFFICIENTS)
        codes = self.state_.vocabulary.codes(run)
        log_factors = self.state_.posterior.log_factors(codes) + _shift(self.state_, codes)[:, None]
        return scaled_breakdown(stages, np.repeat(np.exp(log_factors), len(stages.stage), axis=0))

    def save(self, directory: Path) -> None:
        """Write the fitted model into `directory` as JSON, npz and UBJSON."""
        check_is_fitted(self)
        write_memory_model(self.state_, directory)

    @classmethod
    def load(cls, directory: Path) -> MemoryModel:
        """Read a model that `save` wrote.

        Raises
        ------
        ModelDirectoryError
            If a file is missing, damaged, or of another version.
        """
        state = read_memory_model(directory)
        model = cls(item_scale=state.item_scale)
        model.state_ = state
        return model


def _check_lengths(runs: pd.DataFrame, workload: Workload) -> None:
    if len(runs) != len(workload):
        raise InputError("workload", f"must have as many rows as runs ({len(runs)})", len(workload))


def _source_is_fitted(state: MemoryModelState, codes: IntArray) -> BoolArray:
    """Tell rows of sources that took part in the fit from strangers and from sources conditioned on (shape (n,))."""
    source = codes[:, -1]
    fitted: BoolArray = (source != UNKNOWN) & (source < state.posterior.num_sites[-1])
    return fitted


def _shift(state: MemoryModelState, codes: IntArray) -> FloatArray:
    return np.where(codes[:, -1] == UNKNOWN, state.stranger_shift, 0.0)


def _interval_factor(state: MemoryModelState, codes: IntArray) -> FloatArray:
    known, stranger = state.interval_factors
    return np.where(_source_is_fitted(state, codes), known, stranger)


def _oom_probability(state: MemoryModelState, workload: Workload, items: FloatArray, codes: IntArray) -> FloatArray:
    log_device, variance = state.posterior.predict(items, codes)
    scale = state.posterior.limit_scale(codes[:, -1])
    log_device = log_device + _shift(state, codes)
    margin = oom_margin(log_device, np.sqrt(variance + scale**2), workload.hbm_bytes)
    probability = oom_probability(margin, state.recalibration)
    known = np.flatnonzero(_source_is_fitted(state, codes))
    if state.trees is None or known.size == 0:
        return probability
    features = oom_features(workload.take(known), margin[known], items[known].sum(axis=1))
    probability[known] = state.trees.correct(features, probability[known])
    return probability
