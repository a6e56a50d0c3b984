"""What a site's own runs are worth: errors with and without them, coefficients that moved, rows that contradict."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING, Final

import numpy as np
import pandas as pd
from scipy.linalg import cho_solve

from surrogate.analytic.coefficients import LOG_SD, NAMES
from surrogate.api.predictor import Predictor, Site
from surrogate.api.site_files import SitePack, named_runs
from surrogate.errors import InputError, UnknownNameError
from surrogate.features.levels import site_levels
from surrogate.features.workload import prepare_runs

if TYPE_CHECKING:
    from surrogate.analytic.workload import BoolArray, FloatArray, IntArray
    from surrogate.estimators import HybridPredictor

COVERAGE: Final = 0.9
MIN_ROWS_TO_JUDGE: Final = 3
"""With fewer rows there is nothing to leave one out of; the model shrinks what so few can teach."""
_TARGET: Final = "measured_step_time_s"
_MAX_COEFFICIENTS: Final = 6
_SMALLEST_MOVE: Final = 0.1
_REPEAT_LIMIT: Final = 0.2
"""Repeats of one configuration on one cluster differ by 2.4 % (standard deviation); 20 % is no noise."""
_SURPRISE_LIMIT: Final = 3.0
_TOLERATED: Final = 1.05
"""Leaving a configuration out also takes its near neighbours' help away: 5 % worse is no proof against the rows."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Errors:
    """Errors of log step time over a site's rows."""

    mean_abs_log_error: float
    mean_log_error: float
    """Predicted less measured: positive when predicted too slow."""
    coverage: float
    """Share of the rows inside their 90 % interval."""


@dataclass(frozen=True, kw_only=True, slots=True)
class MovedCoefficient:
    """A coefficient of the step-time model that the site's rows moved."""

    name: str
    factor: float
    """The site's value over the one without its rows."""
    prior_deviations: float
    """The move in standard deviations of what coefficients vary by."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Contradiction:
    """Rows that do not go together."""

    run_ids: tuple[str, ...]
    reason: str


@dataclass(frozen=True, kw_only=True, slots=True)
class SiteFindings:
    """What a site's rows taught."""

    rows: int
    zero_shot: Errors
    """Without any of them."""
    left_out: Errors | None
    """Each configuration predicted with the others known; None below three configurations."""
    moved: Sequence[MovedCoefficient]
    contradictions: Sequence[Contradiction]

    @property
    def improves(self) -> bool:
        """Whether predictions with the rows are no worse than without, as far as the rows can tell.

        Too few configurations to leave one out must at least agree: nothing else tells which of them is right.
        """
        if self.left_out is None:
            return not self.contradictions
        return self.left_out.mean_abs_log_error <= _TOLERATED * self.zero_shot.mean_abs_log_error

    def to_dict(self) -> dict[str, object]:
        """Return the findings in plain JSON."""
        return asdict(self) | {"improves": self.improves}


def make_site(name: str, runs: pd.DataFrame, predictor: Predictor, *, family: str | None = None) -> SitePack:
    """Return a site of one's own runs, assessed.

    Parameters
    ----------
    name : str
        The site.
    runs : DataFrame of n rows
        Derived runs (`derive.load_runs`); rows without a step time only inform the memory model.
    predictor : Predictor
        The one that the runs are laid over.
    family : str, optional
        A known publisher family whose habits the site shares; by default none.

    Raises
    ------
    InputError
        If no row has a step time, or the name is that of a published source.
    UnknownNameError
        If the predictor knows no publisher of that family.
    """
    if name in predictor.manifest.sites:
        way_out = f"predict with --site {name}, or choose a name of your own"
        raise InputError("site", "must not be a source the predictor was trained on", name, way_out)
    if not runs[_TARGET].notna().any():
        raise InputError(_TARGET, "must be measured in at least one run", "none", "add runs with a step time")
    if family is not None:
        _require_known(family, predictor)
    known = family if family is not None else name
    own = named_runs(runs, name, known)
    findings = assess_site(own, predictor)
    return SitePack(
        name=name,
        family=known,
        runs=own,
        conditions=findings.improves,
        model=predictor.name,
        findings=findings.to_dict(),
    )


def _require_known(family: str, predictor: Predictor) -> None:
    families = sorted({known for names in predictor.manifest.sites.values() for known in names})
    if family not in families:
        near = get_close_matches(family, families, n=3)
        raise UnknownNameError("--family", family, near, f"one of {', '.join(families)}")


def assess_site(own: pd.DataFrame, predictor: Predictor) -> SiteFindings:
    """Return what a site's rows taught.

    Parameters
    ----------
    own : DataFrame of n rows
        Derived runs of one `source`.
    predictor : Predictor
        Without these rows.

    Notes
    -----
    With S the posterior covariance of the rows before they are known, noise included, and r their errors, the error of
    a group g that is left out is ``[S^-1]_gg^-1 [S^-1 r]_g`` and its variance ``[S^-1]_gg^-1`` (Rasmussen and Williams
    2006, section 5.4.2): nothing is fitted again.
    """
    timed = own[own[_TARGET].notna()].reset_index(drop=True)
    before, after = predictor.step_time, predictor.step_time.condition(timed)
    groups = pd.factorize(timed["split_group"].astype(object))[0]
    error, variance = left_out_errors(after, groups)
    half = after.intervals_.half_width(np.full(len(timed), "release", dtype=object), np.sqrt(variance), COVERAGE)
    enough = len(np.unique(groups)) >= MIN_ROWS_TO_JUDGE
    return SiteFindings(
        rows=len(timed),
        zero_shot=zero_shot_errors(timed, predictor),
        left_out=_errors(error, np.abs(error) <= half) if enough else None,
        moved=moved_coefficients(before, after, timed),
        contradictions=[*_unequal_repeats(timed), *(_surprises(timed, error / np.sqrt(variance)) if enough else [])],
    )


def zero_shot_errors(timed: pd.DataFrame, predictor: Predictor) -> Errors:
    """Return the errors on measured rows of a predictor that does not know them."""
    source, family = (str(timed[name].iloc[0]) for name in ("source", "publisher_family"))
    predicted = predictor.at_site(Site(name=source, source=source, family=family)).predict_frame(timed)
    log_times = {name: np.log(predicted[f"step_time{name}_s"].to_numpy(dtype=np.float64)) for name in _ENDS}
    measured = np.log(timed[_TARGET].to_numpy(dtype=np.float64))
    inside = (measured >= log_times["_lower"]) & (measured <= log_times["_upper"])
    return _errors(measured - log_times[""], inside)


_ENDS: Final = ("", "_lower", "_upper")


def left_out_errors(after: HybridPredictor, groups: IntArray) -> tuple[FloatArray, FloatArray]:
    """Return measured less predicted log time, and its variance, of each own row without its group (n,).

    Parameters
    ----------
    after : HybridPredictor
        Conditioned on the n own rows, which are its last.
    groups : ndarray of shape (n,)
        Codes of the configurations.
    """
    effects, count = after.effects_, len(groups)
    unit = np.zeros((len(effects.alpha_), count))
    unit[-count:] = np.eye(count)
    inverse = cho_solve(effects.covariance_factor_, unit, check_finite=False)[-count:]
    alpha = effects.alpha_[-count:]
    error, variance = np.empty(count), np.empty(count)
    for group in np.unique(groups):
        rows = np.flatnonzero(groups == group)
        covariance = np.linalg.inv(inverse[np.ix_(rows, rows)])
        error[rows] = covariance @ alpha[rows]
        variance[rows] = np.diag(covariance)
    return error, variance


def moved_coefficients(before: HybridPredictor, after: HybridPredictor, own: pd.DataFrame) -> list[MovedCoefficient]:
    """Return the coefficients that own rows moved most, in prior standard deviations."""
    site = site_levels(own, prepare_runs(own)).take(np.array([0]))
    move = (after.effects_.coefficients(site) - before.effects_.coefficients(site))[0]
    deviations = move / LOG_SD
    order = np.argsort(-np.abs(deviations))[:_MAX_COEFFICIENTS]
    return [
        MovedCoefficient(name=NAMES[i], factor=float(np.exp(move[i])), prior_deviations=float(deviations[i]))
        for i in order
        if abs(deviations[i]) >= _SMALLEST_MOVE
    ]


def _errors(measured_less_predicted: FloatArray, inside: BoolArray) -> Errors:
    return Errors(
        mean_abs_log_error=float(np.abs(measured_less_predicted).mean()),
        mean_log_error=float(-measured_less_predicted.mean()),
        coverage=float(np.mean(inside)),
    )


def _unequal_repeats(timed: pd.DataFrame) -> list[Contradiction]:
    """Return configurations that were measured several times with times apart."""
    found = []
    for _, rows in timed.groupby("repeat_group", sort=False):
        times = rows[_TARGET].to_numpy(dtype=np.float64)
        spread = float(np.log(times.max() / times.min()))
        if len(rows) > 1 and spread > _REPEAT_LIMIT:
            reason = f"the same configuration, {times.max() / times.min():.2f} times apart"
            found.append(Contradiction(run_ids=tuple(rows["run_id"]), reason=reason))
    return found


def _surprises(timed: pd.DataFrame, surprise: FloatArray) -> list[Contradiction]:
    """Return rows that the others would not have expected."""
    return [
        Contradiction(
            run_ids=(str(timed["run_id"].iloc[row]),),
            reason=f"{'slower' if surprise[row] > 0 else 'faster'} than the others make it by "
            f"{abs(surprise[row]):.1f} standard deviations",
        )
        for row in np.flatnonzero(np.abs(surprise) > _SURPRISE_LIMIT)
    ]
