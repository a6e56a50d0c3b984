"""Step time of prepared candidates: exact for some, a lower bound that is quick and never too high for all.

The hybrid's log time is a sum: the analytic model at a site's coefficients, a smooth term in the knobs, and trees that
are clipped to `LARGEST_RESIDUAL` and weighted by a gate. The first two are cheap for a whole grid, because the smooth
term's Gaussian kernel is a product over knobs: a block of candidates has few distinct layouts and few distinct
settings, and the sum over measured runs is one matrix product of the two. Only the trees are bounded.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Protocol

import numpy as np
import pandas as pd

from surrogate.analytic.coefficients import LOG_TEXTBOOK
from surrogate.analytic.step_terms import StepTerms, step_terms
from surrogate.analytic.step_time import log_step_time
from surrogate.analytic.workload import BoolArray, FloatArray, IntArray
from surrogate.estimators.hybrid import HybridPredictor
from surrogate.estimators.residual_model import GATE_HALF, GATE_LENGTH, LARGEST_RESIDUAL
from surrogate.estimators.site_effects import SLOPE_STEP
from surrogate.features.knobs import KNOBS, knob_matrix
from surrogate.features.levels import UNKNOWN, SiteLevels, site_levels
from surrogate.features.workload import PreparedRuns, prepare_runs
from surrogate.search.preparation import CandidatePreparer

_SETTINGS: Final = ("full_recompute", "sequence_parallel", "selective_recompute")
_SETTING_KNOBS: Final = np.array([KNOBS.index(name) for name in _SETTINGS])
_LAYOUT_KNOBS: Final = np.array([position for position in range(len(KNOBS)) if position not in set(_SETTING_KNOBS)])
_NO_FACTORS: Final[FloatArray] = np.ones(len(KNOBS))
_SLACK: Final = 1e-4
"""Rounding of the kernel sums, in log time."""
_COVERAGE: Final = 0.9
_NORMAL_95: Final = 1.6448536269514722


@dataclass(frozen=True, kw_only=True, slots=True)
class StepTimes:
    """Step times of n candidates, arrays of shape (n,)."""

    step_time_s: FloatArray
    upper_s: FloatArray
    """Pessimistic end of the 90 % interval."""


class StepTimeModel(Protocol):
    """Predicts candidates of one space."""

    def lower_bound_s(self, prepared: PreparedRuns) -> FloatArray:
        """Return seconds that no prediction of these n rows falls below, shape (n,)."""
        ...

    def predict(self, runs: pd.DataFrame) -> StepTimes:
        """Return the predictions of a table of n candidates."""
        ...


class TextbookStepTime:
    """The analytic model at textbook coefficients, with a fixed spread: for tests and comparisons.

    Parameters
    ----------
    log_sd : float
        Standard deviation of log time that is reported.
    """

    def __init__(self, log_sd: float = 0.2) -> None:
        self.log_sd = log_sd

    def lower_bound_s(self, prepared: PreparedRuns) -> FloatArray:
        """Return the prediction itself."""
        terms = step_terms(prepared.workload, prepared.software)
        seconds: FloatArray = np.exp(log_step_time(terms, LOG_TEXTBOOK))
        return seconds

    def predict(self, runs: pd.DataFrame) -> StepTimes:
        """Return textbook step times."""
        seconds = self.lower_bound_s(prepare_runs(runs))
        return StepTimes(step_time_s=seconds, upper_s=seconds * np.exp(_NORMAL_95 * self.log_sd))


class HybridStepTime:
    """A fitted hybrid predictor on the candidates of one space.

    Parameters
    ----------
    predictor : HybridPredictor
        Fitted.
    preparer : CandidatePreparer
        Of the space: its candidates differ in site by their accelerator only.
    """

    def __init__(self, predictor: HybridPredictor, preparer: CandidatePreparer) -> None:
        self.predictor = predictor
        levels = site_levels(preparer.context_runs, preparer.contexts)
        accelerators = np.asarray(preparer.contexts.hardware.accelerator, dtype=object)
        names, first = np.unique(accelerators.astype(str), return_index=True)
        self._sites = {
            str(name): _Site.of(predictor, levels.take(first[place : place + 1])) for place, name in enumerate(names)
        }

    def lower_bound_s(self, prepared: PreparedRuns) -> FloatArray:
        """Return the time without trees, less what they may take off."""
        terms, grid = step_terms(prepared.workload, prepared.software), _Grid.of(knob_matrix(prepared))
        if len(self._sites) == 1:
            log_bound = self._log_bound(terms, next(iter(self._sites.values())), grid)
        else:
            accelerators = np.asarray(prepared.hardware.accelerator, dtype=object)
            is_at = {name: accelerators == name for name in self._sites}
            log_bound = np.select(
                list(is_at.values()), [self._log_bound(terms, self._sites[name], grid) for name in is_at]
            )
        bound: FloatArray = np.maximum(np.exp(log_bound), terms.roofline_s)
        return bound

    def predict(self, runs: pd.DataFrame) -> StepTimes:
        """Return the hybrid's step times with the upper end of their 90 % interval."""
        prediction = self.predictor.predict_log(runs)
        half = self.predictor.half_width(prediction, _COVERAGE)
        return StepTimes(step_time_s=np.exp(prediction.log_time), upper_s=np.exp(prediction.log_time + half))

    def _log_bound(self, terms: StepTerms, site: _Site, grid: _Grid) -> FloatArray:
        effects = self.predictor.effects_
        scales = effects.scales
        base = log_step_time(terms, site.point)
        slope = (log_step_time(terms, site.ahead) - base) / SLOPE_STEP
        smooth = scales.smooth**2 * grid.kernel_sum(
            effects.knobs_, effects.alpha_, scales.smooth_length, factors=scales.knob_factors
        )
        if site.own_rows.any():
            own = site.own_rows
            local = grid.kernel_sum(effects.knobs_[own], effects.alpha_[own], scales.site_smooth_length)
            smooth = smooth + scales.site_smooth**2 * local
        bound: FloatArray = base + slope + smooth + site.offset - self._largest_gain(site, grid) - _SLACK
        return bound

    def _largest_gain(self, site: _Site, grid: _Grid) -> FloatArray:
        """Return the most that trees may take off log time: their clip times the gate, shape (n,) or ()."""
        if not len(site.evidence_knobs):
            return np.zeros(())
        similar = grid.kernel_sum(site.evidence_knobs, np.ones(len(site.evidence_knobs)), GATE_LENGTH)
        return LARGEST_RESIDUAL * similar / (similar + GATE_HALF)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Site:
    """What a predictor knows about one site."""

    point: FloatArray
    """Log coefficients around which log time is linear."""
    ahead: FloatArray
    offset: float
    own_rows: BoolArray
    """Measured rows of the same publisher family."""
    evidence_knobs: FloatArray
    """Of the measured runs that open the trees' gate, shape (e, d)."""

    @classmethod
    def of(cls, predictor: HybridPredictor, site: SiteLevels) -> _Site:
        effects, residual, family = predictor.effects_, predictor.residual_, site.publisher_family[0]
        point = effects.linearisation_points(site)[0]
        is_known = family != UNKNOWN
        return cls(
            point=point,
            ahead=point + SLOPE_STEP * (effects.coefficients(site)[0] - point),
            offset=float((effects.offsets(site) + predictor.intervals_.centre(effects.knowledge(site)))[0]),
            own_rows=np.asarray((effects.levels_.publisher_family == family) & is_known, dtype=np.bool_),
            evidence_knobs=residual.evidence_knobs_[(residual.evidence_family_ == family) & is_known],
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class _Grid:
    """Knobs of n candidates as distinct layouts and distinct settings.

    ``exp(-|x - z|^2 / 2 l^2)`` is the product of the same over layout knobs and over setting knobs, so that sums over
    measured runs z need the exponential of (layouts + settings) rows instead of n.
    """

    layouts: FloatArray
    settings: FloatArray
    layout_of: IntArray
    setting_of: IntArray

    @classmethod
    def of(cls, knobs: FloatArray) -> _Grid:
        layouts, layout_of = _distinct(knobs[:, _LAYOUT_KNOBS])
        settings, setting_of = _distinct(knobs[:, _SETTING_KNOBS])
        return cls(layouts=layouts, settings=settings, layout_of=layout_of, setting_of=setting_of)

    def kernel_sum(
        self, measured: FloatArray, weights: FloatArray, length: float, factors: FloatArray = _NO_FACTORS
    ) -> FloatArray:
        """Return ``sum_i weights_i exp(-|x - z_i|^2 / 2 length^2)`` for each candidate, shape (n,).

        Knobs are multiplied by `factors`, shape (d,).
        """
        of_layout = weights * _kernel(self.layouts, measured[:, _LAYOUT_KNOBS], length, factors[_LAYOUT_KNOBS])
        of_setting = _kernel(self.settings, measured[:, _SETTING_KNOBS], length, factors[_SETTING_KNOBS])
        sums: FloatArray = (of_layout @ of_setting.T)[self.layout_of, self.setting_of]
        return sums


def _distinct(rows: FloatArray) -> tuple[FloatArray, IntArray]:
    """Return the distinct rows and each row's place among them; equal rows mostly follow each other."""
    changes = np.flatnonzero((rows[1:] != rows[:-1]).any(axis=1)) + 1
    starts = np.concatenate([[0], changes])
    unique, inverse = np.unique(rows[starts], axis=0, return_inverse=True)
    runs = np.repeat(inverse.ravel(), np.diff(np.append(starts, len(rows))))
    return unique, runs


def _kernel(one: FloatArray, other: FloatArray, length: float, factors: FloatArray) -> FloatArray:
    one, other = one * factors, other * factors
    distance2 = (one**2).sum(axis=1)[:, None] + (other**2).sum(axis=1)[None, :] - 2.0 * one @ other.T
    kernel: FloatArray = np.exp(np.maximum(distance2, 0.0) * (-0.5 / length**2))
    return kernel
