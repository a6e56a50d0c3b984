"""The hybrid predictor: analytic step time with site effects, times the exponential of a gated residual."""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils.validation import check_is_fitted

from surrogate.analytic.step_terms import StepTerms, step_terms
from surrogate.analytic.step_time import StepTimeBreakdown, step_time
from surrogate.analytic.workload import FloatArray
from surrogate.errors import InputError
from surrogate.estimators import persistence
from surrogate.estimators.conformalization import (
    HeldOutCorrection,
    ResidualSpread,
    conformalize,
    fold_of_groups,
    residual_spread,
    strata,
    unseen_scores,
    with_neighbourhood,
)
from surrogate.estimators.domain import domain_reasons
from surrogate.estimators.evidence import Evidence, measured_evidence, nearest_evidence
from surrogate.estimators.intervals import ConformalIntervals, with_floor
from surrogate.estimators.residual_model import ResidualModel
from surrogate.estimators.scale_selection import ROWS_PER_SOURCE, select_scales
from surrogate.estimators.site_data import SiteData
from surrogate.estimators.site_effects import SiteEffects
from surrogate.estimators.sites import distinct_sites
from surrogate.estimators.training_rows import TARGET, diverse_rows, left_over, measured_seconds, noise_sd
from surrogate.features.columns import texts
from surrogate.features.knobs import knob_matrix
from surrogate.features.levels import SiteLevels, site_levels
from surrogate.features.ratios import CATEGORIES, ratio_matrix
from surrogate.features.workload import PreparedRuns, prepare_runs

PARTS = tuple(field.name for field in fields(StepTimeBreakdown))


@dataclass(frozen=True, kw_only=True, slots=True)
class PreparedTable:
    """n rows as every stage of the hybrid sees them."""

    runs: pd.DataFrame
    prepared: PreparedRuns
    terms: StepTerms
    levels: SiteLevels
    knobs: FloatArray

    def __len__(self) -> int:
        return len(self.levels)


@dataclass(frozen=True, kw_only=True, slots=True)
class LogPrediction:
    """Log step time of n rows, in parts."""

    log_time: FloatArray
    log_sd: FloatArray
    analytic_log_time: FloatArray
    """With site effects, before the residual."""
    gate: FloatArray
    similarity: FloatArray
    knowledge: NDArray[np.object_]
    strata: NDArray[np.object_]
    """Publisher family; mixtures of experts, and rows without neighbours in known releases, apart."""


def prepare_table(runs: pd.DataFrame) -> PreparedTable:
    """Return a validated runs table with its analytic terms, site levels and knobs."""
    prepared = prepare_runs(runs)
    return PreparedTable(
        runs=runs,
        prepared=prepared,
        terms=step_terms(prepared.workload, prepared.software),
        levels=site_levels(runs, prepared),
        knobs=knob_matrix(prepared),
    )


class HybridPredictor(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """Predicts the step time of training configurations with calibrated uncertainty.

    ``log t = log t_analytic(coefficients of the site) + smooth(knobs) + gate * trees(ratios)``, never below the
    roofline.

    Parameters
    ----------
    rows_per_source : int
        Rows of one source that enter the site effects, chosen to be diverse; the trees see all of them.
    conformal_levels : tuple of str
        Levels of site knowledge to conformalize.
    random_state : int
        Seed of everything random.
    num_threads : int
        Threads of the tree fits.

    Attributes
    ----------
    effects_ : SiteEffects
    residual_ : ResidualModel
    intervals_ : ConformalIntervals
    evidence_ : Evidence
        Every measured row with its prediction, for nearest runs and the gate.
    """

    def __init__(
        self,
        *,
        rows_per_source: int = 60,
        conformal_levels: tuple[str, ...] = ("release", "family", "population"),
        random_state: int = 0,
        num_threads: int = 1,
    ) -> None:
        self.rows_per_source = rows_per_source
        self.conformal_levels = conformal_levels
        self.random_state = random_state
        self.num_threads = num_threads

    def fit(self, X: pd.DataFrame, y: FloatArray | None = None) -> HybridPredictor:
        """Calibrate the analytic model, learn the residual and conformalize the intervals.

        Parameters
        ----------
        X : DataFrame of shape (n, columns)
            A derived runs table (`surrogate.derive.load_runs`); rows without a measured time are left out.
        y : ndarray of shape (n,), optional
            Seconds per step; the column `measured_step_time_s` when not given.

        Raises
        ------
        InputError
            If no row has a time, or `y` has another length than `X`.
        """
        seconds, timed = measured_seconds(X, y)
        if not timed.any():
            raise InputError(TARGET, "must hold at least one measured step time", "none", "train on measured runs")
        table = prepare_table(X[timed].reset_index(drop=True))
        log_time = np.log(seconds[timed])
        self.n_features_in_ = X.shape[1]
        self.feature_names_in_ = np.asarray(X.columns, dtype=object)
        self.categories_ = {name: sorted(map(str, texts(table.runs, name).categories)) for name in CATEGORIES}
        rows = diverse_rows(table.runs, table.knobs, self.rows_per_source)
        data = site_data(table, log_time, noise_sd(table.runs))
        groups = split_groups(table.runs)
        few = diverse_rows(table.runs, table.knobs, min(self.rows_per_source, ROWS_PER_SOURCE))
        scales = select_scales(data.take(few), groups[few])
        self.effects_ = SiteEffects(scales).fit(data.take(rows), groups[rows])
        leftover = left_over(self.effects_, data, rows, groups)
        features = self._features(table)
        self.residual_ = ResidualModel(random_state=self.random_state, num_threads=self.num_threads)
        self.residual_.fit(features, leftover, table.levels, table.knobs)
        trees = self._held_out_correction(table, features, leftover, groups)
        error = leftover - trees.gate * trees.correction
        self.spread_ = residual_spread(error, strata(table.levels, table.knobs))
        self.intervals_ = self._conformal_intervals(data, rows, groups, trees, error)
        self.evidence_ = measured_evidence(table.runs, table.levels, table.knobs, log_time, log_time - error)
        return self

    def _held_out_correction(
        self, table: PreparedTable, features: FloatArray, leftover: FloatArray, groups: NDArray[np.int64]
    ) -> HeldOutCorrection:
        return HeldOutCorrection(
            gate=self.residual_.gate(table.levels, table.knobs, without_itself=True),
            correction=self.residual_.out_of_fold(features, leftover, fold_of_groups(groups)),
        )

    def _conformal_intervals(
        self,
        data: SiteData,
        rows: NDArray[np.int64],
        groups: NDArray[np.int64],
        trees: HeldOutCorrection,
        error: FloatArray,
    ) -> ConformalIntervals:
        """Return intervals from the `rows` of the site effects and, where releases are known, from all other rows."""
        chosen, levels = data.take(rows), self.conformal_levels
        intervals = conformalize(
            self.effects_, chosen, trees.take(rows), self.spread_, groups=groups[rows], levels=levels
        )
        unseen = ~np.isin(groups, groups[rows])
        if "release" not in levels or not unseen.any():
            return intervals
        scores = unseen_scores(self.effects_, data.take(unseen), error[unseen], trees.gate[unseen], self.spread_)
        return intervals.joined("release", scores)

    def condition(self, runs: pd.DataFrame) -> HybridPredictor:
        """Return a predictor that knows these measured rows of a site too; trees and intervals stay.

        Parameters
        ----------
        runs : DataFrame
            Derived rows with measured times; their `source` (and `publisher_family`) name the site.
        """
        check_is_fitted(self, "effects_")
        seconds, timed = measured_seconds(runs)
        if not timed.any():
            return self
        table = prepare_table(runs[timed].reset_index(drop=True))
        own = site_data(table, np.log(seconds[timed]), noise_sd(table.runs))
        clone = HybridPredictor(**self.get_params())
        clone.__dict__.update(self.__dict__)
        clone.effects_ = self.effects_.extended(own)
        before = self._predict(table, with_spread=False).log_time
        own_evidence = measured_evidence(table.runs, table.levels, table.knobs, own.log_time, before)
        clone.evidence_ = self.evidence_.joined(own_evidence)
        return clone

    def predict(self, X: pd.DataFrame) -> FloatArray:
        """Return the step time in seconds, shape (n,)."""
        return np.exp(self.predict_log(X).log_time)

    def predict_log(self, X: pd.DataFrame) -> LogPrediction:
        """Return log step time and its spread without tables of parts: the fast path."""
        check_is_fitted(self, "effects_")
        return self._predict(prepare_table(X))

    def predict_prepared(self, table: PreparedTable) -> LogPrediction:
        """Return log step time of rows that are prepared already, as the search does."""
        check_is_fitted(self, "effects_")
        return self._predict(table)

    def predict_frame(self, X: pd.DataFrame, *, coverage: float = 0.9) -> pd.DataFrame:
        """Return predictions with interval, parts and domain.

        Parameters
        ----------
        X : DataFrame of shape (n, columns)
            Validated rows.
        coverage : float
            Of the interval, in (0, 1).

        Returns
        -------
        DataFrame of shape (n, 25)
            With the index of `X`.
        """
        check_is_fitted(self, "effects_")
        return self.predict_prepared_frame(prepare_table(X), coverage=coverage)

    def predict_prepared_frame(self, table: PreparedTable, *, coverage: float = 0.9) -> pd.DataFrame:
        """Return what `predict_frame` does, of rows that are prepared already."""
        if not 0.0 < coverage < 1.0:
            raise InputError("coverage", "must lie between 0 and 1", coverage, "0.9 is the default")
        prediction = self._predict(table)
        half = self.half_width(prediction, coverage)
        floor = table.terms.roofline_s
        reasons = domain_reasons(
            table.prepared, prediction.similarity, table.knobs, self.evidence_.knobs, self.categories_
        )
        seconds = np.exp(prediction.log_time)
        columns: dict[str, Any] = {
            "step_time_s": seconds,
            "step_time_lower_s": np.maximum(np.exp(prediction.log_time - half), np.minimum(floor, seconds)),
            "step_time_upper_s": np.exp(prediction.log_time + half),
            "analytic_step_time_s": np.maximum(np.exp(prediction.analytic_log_time), floor),
            "log_sd": prediction.log_sd,
            "similarity": prediction.similarity,
            "site_knowledge": prediction.knowledge,
            "in_domain": [not row for row in reasons],
            "out_of_domain_reasons": reasons,
            **self._parts(table, seconds),
        }
        return pd.DataFrame(columns, index=table.runs.index)

    def half_width(self, prediction: LogPrediction, coverage: float) -> FloatArray:
        """Return the half-width of the intervals of log time at a coverage in (0, 1), shape (n,)."""
        return self.intervals_.half_width(prediction.knowledge, prediction.log_sd, coverage, prediction.strata)

    def nearest_runs(self, X: pd.DataFrame, k: int = 3) -> list[list[dict[str, Any]]]:
        """Return the k nearest measured runs of each row with their error: the evidence."""
        check_is_fitted(self, "effects_")
        prepared = prepare_runs(X)
        return nearest_evidence(self.evidence_, knob_matrix(prepared), prepared, k)

    def save(self, directory: str | Path) -> None:
        """Write the fitted predictor as JSON, npy arrays and UBJSON."""
        check_is_fitted(self, "effects_")
        header, arrays = persistence.effects_state(self.effects_)
        header |= {
            "parameters": self.get_params(),
            "categories": self.categories_,
            "columns": [str(name) for name in self.feature_names_in_],
            "spread": persistence.spread_state(self.spread_),
        }
        arrays |= persistence.evidence_state(self.evidence_) | persistence.intervals_state(self.intervals_)
        trees = self.residual_.booster_.get_booster().save_raw("ubj")
        persistence.save_state({"header": header, "arrays": arrays, "trees": trees}, Path(directory))

    @classmethod
    def load(cls, directory: str | Path) -> HybridPredictor:
        """Read a predictor that `save` wrote.

        Raises
        ------
        ModelDirectoryError
            If the directory is missing, incomplete, altered or of another version.
        """
        state = persistence.load_state(Path(directory))
        header, arrays = state["header"], state["arrays"]
        parameters = header["parameters"] | {"conformal_levels": tuple(header["parameters"]["conformal_levels"])}
        model = cls(**parameters)
        model.categories_ = header["categories"]
        model.feature_names_in_ = np.asarray(header["columns"], dtype=object)
        model.n_features_in_ = len(header["columns"])
        model.spread_ = ResidualSpread(**header["spread"])
        model.effects_ = persistence.effects_of(header, arrays)
        model.evidence_ = persistence.evidence_of(arrays)
        model.intervals_ = persistence.intervals_of(arrays)
        model.residual_ = persistence.residual_of(state["trees"], model.evidence_, model.random_state)
        return model

    def _predict(self, table: PreparedTable, *, with_spread: bool = True) -> LogPrediction:
        estimate = self.effects_.predict(table.terms, table.levels, table.knobs, with_spread=with_spread)
        knowledge = self.effects_.knowledge(table.levels)
        gate = self.residual_.gate(table.levels, table.knobs)
        analytic_log_time = estimate.log_time + self.intervals_.centre(knowledge)
        log_time = analytic_log_time.copy()
        known = gate > 0.0
        if known.any():
            log_time[known] += gate[known] * self.residual_.predict(self._features(table)[known])
        floor = np.log(table.terms.roofline_s)
        kinds = strata(table.levels, table.knobs)
        return LogPrediction(
            log_time=np.maximum(log_time, floor),
            log_sd=with_floor(
                self.spread_.combined(estimate.log_sd, gate, strata(table.levels, table.knobs)), knowledge
            ),
            analytic_log_time=analytic_log_time,
            gate=gate,
            similarity=estimate.similarity,
            knowledge=knowledge,
            strata=np.where(knowledge == "release", with_neighbourhood(kinds, gate), kinds),
        )

    def _features(self, table: PreparedTable) -> FloatArray:
        """Return features of the residual: ratios at the shared coefficients, and category codes."""
        points = self.effects_.linearisation_points(table.levels)
        breakdown = step_time(table.terms, points)
        numeric = ratio_matrix(table.prepared, table.terms, breakdown, table.knobs)
        codes = [category_codes(texts(table.runs, name), self.categories_[name]) for name in CATEGORIES]
        return np.column_stack([numeric, *codes])

    def _parts(self, table: PreparedTable, seconds: FloatArray) -> dict[str, FloatArray]:
        """Return the parts at the site's coefficients, scaled to the predicted time."""
        parts = {part: np.empty(len(table)) for part in PARTS}
        for rows, site in distinct_sites(table.levels):
            breakdown = step_time(table.terms.take(rows), self.effects_.coefficients(site)[0])
            scale = seconds[rows] / breakdown.total_s
            for part, values in parts.items():
                values[rows] = getattr(breakdown, part) * scale
        return parts


def category_codes(values: pd.Categorical, known: list[str]) -> FloatArray:
    """Return the position of each text among the known ones, -1 for others, shape (n,)."""
    positions = {name: float(position) for position, name in enumerate(known)}
    table = np.array([positions.get(str(text), -1.0) for text in values.categories], dtype=np.float64)
    codes: FloatArray = table[values.codes]
    return codes


def split_groups(runs: pd.DataFrame) -> NDArray[np.int64]:
    """Return codes of configurations that no split may separate, shape (n,)."""
    if "split_group" not in runs.columns:
        return np.arange(len(runs))
    named = runs["split_group"].astype(object)
    return pd.factorize(named.where(named.notna(), [f"row-{row}" for row in range(len(runs))]))[0]


def site_data(table: PreparedTable, log_time: FloatArray, noise: FloatArray) -> SiteData:
    """Return measured rows as site effects take them."""
    return SiteData(terms=table.terms, levels=table.levels, knobs=table.knobs, log_time=log_time, noise_sd=noise)


__all__ = ["Evidence", "HybridPredictor", "LogPrediction", "PreparedTable", "prepare_table"]
