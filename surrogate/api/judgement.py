"""Is a measured step time normal? By how much not, how sure, against what, and what would explain it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

import numpy as np
import pandas as pd

from surrogate.api.changes import Effect, effects_of_changes
from surrogate.api.predictor import PARTS, Predictor
from surrogate.errors import InputError

if TYPE_CHECKING:
    from surrogate.estimators import HybridPredictor

JUDGEMENT_COVERAGE: Final = 0.95
"""A normal run is called slow or fast in 5 % of cases at most."""
_SMALLEST_SHARE: Final = 0.3
_LARGEST_SHARE: Final = 3.0
"""Changes are causes when they explain between this share and this multiple of the gap."""
_SMALLEST_GAP: Final = 0.05
"""Of log time: twice what repeats of one run differ by (2.4 %, standard deviation); less calls for no cause."""
_MAX_CAUSES: Final = 5
_SMALLEST_PART: Final = 0.02


class Verdict(StrEnum):
    """What a step time is called."""

    NORMAL = "normal"
    SLOW = "slow"
    FAST = "fast"


@dataclass(frozen=True, kw_only=True, slots=True)
class Cause:
    """One thing that would explain a gap."""

    cause: str
    ratio: float
    """Step time with it over step time without."""
    explained: float
    """Share of the gap, in logarithms: 1 is all of it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Judgement:
    """A verdict on one measured step time."""

    verdict: Verdict
    measured_step_time_s: float
    expected_step_time_s: float
    deviation: float
    """Measured over expected, less 1."""
    normal_lower_s: float
    normal_upper_s: float
    """Step times within are normal; 5 % of normal runs lie outside."""
    smallest_callable_slowdown: float
    """The smallest excess over the expected time, as a fraction, that could be called slow at this knowledge."""
    smallest_callable_speedup: float
    """The smallest shortfall below the expected time, as a fraction, that could be called fast."""
    reference: str
    """What normal means here."""
    causes: Sequence[Cause]

    def to_dict(self) -> dict[str, object]:
        """Return the judgement in plain JSON."""
        return asdict(self)


def judge(plan: pd.DataFrame, measured_step_time_s: float, predictor: Predictor, *, reference: str = "") -> Judgement:
    """Judge a measured step time.

    Parameters
    ----------
    plan : DataFrame of one row
        The configuration of the run.
    measured_step_time_s : float
        Seconds per step.
    predictor : Predictor
        At the run's site, or anchored.
    reference : str, optional
        What normal means; said by what is known about the site when not given.

    Raises
    ------
    InputError
        If the time is not positive and finite, or `plan` is not one row.
    """
    if not (math.isfinite(measured_step_time_s) and measured_step_time_s > 0.0):
        raise InputError("--measured", "must be a positive number of seconds", measured_step_time_s)
    if len(plan) != 1:
        raise InputError("--measured", "judges one plan at a time", f"{len(plan)} plans")
    row = predictor.predict_frame(plan, coverage=JUDGEMENT_COVERAGE).iloc[0]
    expected, lower, upper = (float(row[f"step_time{end}"]) for end in ("_s", "_lower_s", "_upper_s"))
    verdict = Verdict.NORMAL
    if measured_step_time_s > upper:
        verdict = Verdict.SLOW
    elif measured_step_time_s < lower:
        verdict = Verdict.FAST
    gap = math.log(measured_step_time_s / expected)
    return Judgement(
        verdict=verdict,
        measured_step_time_s=measured_step_time_s,
        expected_step_time_s=expected,
        deviation=measured_step_time_s / expected - 1.0,
        normal_lower_s=lower,
        normal_upper_s=upper,
        smallest_callable_slowdown=upper / expected - 1.0,
        smallest_callable_speedup=1.0 - lower / expected,
        reference=reference or describe_reference(str(row["site_knowledge"]), predictor),
        causes=explaining_causes(gap, effects_of_changes(plan, predictor), row),
    )


def false_alarm_rates(step_time: HybridPredictor) -> dict[str, float]:
    """Return how often normal runs are called slow or fast, by what is known about their site.

    Parameters
    ----------
    step_time : HybridPredictor
        Fitted.

    Returns
    -------
    dict
        Per level of knowledge the share of a stratum's runs outside the limits that the other strata
        set, averaged over strata: each is judged as if it were new.
    """
    from surrogate.estimators.intervals import ConformalScores

    rates = {}
    for level, scores in step_time.intervals_.scores.items():
        shares = []
        for stratum in np.unique(scores.stratum):
            own = scores.stratum == stratum
            if own.all():
                continue
            others = ConformalScores(score=scores.score[~own], stratum=scores.stratum[~own])
            shares.append(float(np.mean(scores.score[own] > others.quantile(JUDGEMENT_COVERAGE))))
        if shares:
            rates[level] = float(np.mean(shares))
    return rates


def describe_reference(knowledge: str, predictor: Predictor) -> str:
    """Return what a step time is compared with, by what is known about the site."""
    site = predictor.site
    if site is not None and site.own_runs:
        return f"{site.own_runs} own runs of {site.name}, over tuned public runs"
    return {
        "release": "tuned public runs of the same release",
        "family": "tuned public runs of the same publisher",
    }.get(knowledge, "tuned public runs; the site is unknown")


def explaining_causes(gap: float, effects: Sequence[Effect], row: pd.Series) -> list[Cause]:
    """Return what would explain a gap of log time, the closest match first; nothing where repeats differ as much.

    Parameters
    ----------
    gap : float
        log(measured / expected).
    effects : sequence of Effect
        Single changes of the plan.
    row : Series
        The prediction with its parts: a part that takes longer may explain a slow run alone.
    """
    if abs(gap) <= _SMALLEST_GAP:
        return []
    causes = [
        Cause(cause=effect.change, ratio=effect.ratio, explained=math.log(effect.ratio) / gap) for effect in effects
    ]
    causes = [cause for cause in causes if _SMALLEST_SHARE <= cause.explained <= _LARGEST_SHARE]
    by_match = sorted(causes, key=lambda cause: abs(math.log(cause.explained)))[:_MAX_CAUSES]
    return by_match + ([_slower_compute(gap, row)] if gap > 0.0 else [])


def _slower_compute(gap: float, row: pd.Series) -> Cause:
    """Return by how much the largest part must be slower: throttled clocks, a weak node, another process."""
    parts = row[list(PARTS)].to_numpy(dtype=np.float64)
    largest = int(parts.argmax())
    share = max(parts[largest] / float(row["step_time_s"]), _SMALLEST_PART)
    factor = 1.0 + math.expm1(gap) / share
    name = PARTS[largest].removesuffix("_s").replace("_", " ")
    return Cause(
        cause=f"{name} takes {factor:.2f} times as long (throttled clocks, a weak node)",
        ratio=math.exp(gap),
        explained=1.0,
    )
