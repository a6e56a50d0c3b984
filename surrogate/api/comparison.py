"""Two plans side by side: which is faster, why, and how sure that is."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Final

import pandas as pd

from surrogate.api.predictor import PARTS, Predictor, Site
from surrogate.estimators.ratio_spread import log_difference_sds
from surrogate.plan import Plan, plans_to_frame

COVERAGE: Final = 0.9
_NORMAL_90: Final = 1.6448536269514722
"""Half-width of a 90 % interval in standard deviations of a normal."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TermDifference:
    """One cause in both plans, in seconds of the same work per GPU."""

    cause: str
    a_s: float
    b_s: float

    @property
    def difference_s(self) -> float:
        """Seconds that A takes beyond B."""
        return self.a_s - self.b_s


@dataclass(frozen=True, kw_only=True, slots=True)
class Comparison:
    """A against B, by tokens per second and GPU."""

    a: str
    b: str
    a_step_time_s: float
    b_step_time_s: float
    a_tokens_per_s_per_gpu: float
    b_tokens_per_s_per_gpu: float
    a_feasible: bool
    b_feasible: bool
    speedup: float
    """Tokens per second and GPU of A over those of B."""
    speedup_lower: float
    speedup_upper: float
    """90 % interval of the ratio: what both share, such as the site's habits, cancels."""
    probability_a_beats_b: float
    work_scale: float
    """Factor on B's seconds that gives them A's tokens per GPU; 1 for equal batches on as many GPUs."""
    terms: Sequence[TermDifference]
    """Largest difference first; the differences sum to that of the step times (B's scaled)."""

    def to_dict(self) -> dict[str, object]:
        """Return the comparison in plain JSON."""
        terms = [asdict(term) | {"difference_s": term.difference_s} for term in self.terms]
        return asdict(self) | {"terms": terms}


def compare(plan_a: Plan, plan_b: Plan, predictor: Predictor) -> Comparison:
    """Compare two plans term by term.

    Parameters
    ----------
    plan_a, plan_b : Plan
        Any two; different batches or sizes are compared by tokens per second and GPU.
    predictor : Predictor
        From `load_predictor`, at a site if one is known.

    Notes
    -----
    The ratio's spread is that of the joint posterior of both log times, as in a search: both are taken to run at one
    site (unless each names another), so that shared habits cancel. ``P(A beats B) = Phi(log speed-up / sd)``.
    """
    frames = [plans_to_frame([plan]) for plan in (plan_a, plan_b)]
    both = predictor.predict_frame(pd.concat(frames, ignore_index=True))
    a, b = both.iloc[0], both.iloc[1]
    speedup = float(a["tokens_per_s_per_gpu"] / b["tokens_per_s_per_gpu"])
    scale = speedup * float(a["step_time_s"]) / float(b["step_time_s"])
    sd = ratio_log_sd(frames[0], frames[1], predictor)
    half = _NORMAL_90 * sd
    terms = [TermDifference(cause=part, a_s=float(a[part]), b_s=float(b[part]) * scale) for part in PARTS]
    return Comparison(
        a=plan_a.name,
        b=plan_b.name,
        a_step_time_s=float(a["step_time_s"]),
        b_step_time_s=float(b["step_time_s"]),
        a_tokens_per_s_per_gpu=float(a["tokens_per_s_per_gpu"]),
        b_tokens_per_s_per_gpu=float(b["tokens_per_s_per_gpu"]),
        a_feasible=bool(a["feasible"]),
        b_feasible=bool(b["feasible"]),
        speedup=speedup,
        speedup_lower=speedup * math.exp(-half),
        speedup_upper=speedup * math.exp(half),
        probability_a_beats_b=_normal_cdf(math.log(speedup) / sd),
        work_scale=scale,
        terms=sorted(terms, key=lambda term: -abs(term.difference_s)),
    )


def ratio_log_sd(a: pd.DataFrame, b: pd.DataFrame, predictor: Predictor) -> float:
    """Return the standard deviation of the log ratio of two plans' step times (one row each)."""
    if _own_site(a, predictor) != _own_site(b, predictor):
        predicted = (predictor.predict_frame(plan, coverage=COVERAGE).iloc[0] for plan in (a, b))
        return math.hypot(*(_log_sd(row) for row in predicted))
    both = predictor.sited(pd.concat([a, b], ignore_index=True))
    return float(log_difference_sds(both, predictor.step_time)[0])


def _own_site(plan: pd.DataFrame, predictor: Predictor) -> Site | None:
    row = predictor.sited(plan).iloc[0]
    source, family = (None if pd.isna(row.get(name)) else str(row[name]) for name in ("source", "publisher_family"))
    return Site(name=source or family or "", source=source, family=family) if source or family else None


def _log_sd(row: pd.Series) -> float:
    """Return the standard deviation that a 90 % interval stands for."""
    return max(math.log(float(row["step_time_upper_s"]) / float(row["step_time_s"])) / _NORMAL_90, 1e-6)


def _normal_cdf(value: float) -> float:
    return 0.5 * math.erfc(-value / math.sqrt(2.0))
