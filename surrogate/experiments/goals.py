"""What the shipped predictor set out to reach on the shipped runs, and whether it does."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import pandas as pd

from surrogate.evaluation import HYBRID, Evaluation


@dataclass(frozen=True, kw_only=True, slots=True)
class Goal:
    """A limit for one figure of the hybrid: on its absolute value from above, or from below if `at_least`."""

    protocol: str
    figure: str
    limit: float
    variant: str = ""
    part: str = "all"
    at_least: bool = False

    def met(self, value: float) -> bool:
        """Return whether a value keeps the limit."""
        return value >= self.limit if self.at_least else abs(value) <= self.limit


def _goal(protocol: str, figure: str, limit: float, variant: str = "", part: str = "all") -> Goal:
    return Goal(protocol=protocol, figure=figure, limit=limit, variant=variant, part=part)


def _covers(protocol: str, share: float) -> Goal:
    return Goal(protocol=protocol, figure="source_coverage", limit=share, at_least=True)


GOALS: Final = (
    _goal("random", "mape", 0.045),
    _goal("random", "median_ape", 0.022),
    _goal("random", "source_mape", 0.075),
    _goal("random", "mape", 0.065, part="without the sweeps"),
    _goal("random", "mape", 0.09, part="MoE"),
    Goal(protocol="random", figure="coverage", limit=0.87, at_least=True),
    _goal("random", "coverage", 0.93),
    _goal("new-layout", "source_mape", 0.07),
    _goal("new-layout", "regret", 0.04),
    _goal("new-model", "mape", 0.08),
    _goal("new-model", "source_mape", 0.12),
    _covers("new-model", 0.85),
    _goal("scale-out", "mape", 0.09),
    _goal("scale-out", "source_mean_abs_log_error", 0.09),
    _covers("scale-out", 0.85),
    _goal("new-site", "source_mean_abs_log_error", 0.15),
    _goal("new-site", "source_mape", 0.14),
    _goal("new-site", "source_mean_log_error", 0.03),
    _covers("new-site", 0.85),
    _goal("new-release", "source_mape", 0.12),
    _goal("time-forward", "source_mape", 0.15),
    _goal("few-shot", "source_mape", 0.105, "random-5"),
    _goal("few-shot", "source_mape", 0.085, "chosen-5"),
    _goal("few-shot", "source_mape", 0.12, "small-5"),
    _goal("anchored", "source_mape", 0.065, "nearest"),
    _goal("vtrain", "mape", 0.04, "single-100"),
    _goal("vtrain", "mape", 0.10, "multi-0"),
    _goal("vtrain", "regret", 0.02, "single-100"),
    _goal("vtrain", "regret", 0.013, "multi-0"),
)
"""Fractions and natural logarithms, out of sample."""


def goal_table(evaluation: Evaluation) -> pd.DataFrame:
    """Return for each goal that was evaluated its figure, and whether it is met."""
    asked = set(map(tuple, evaluation.scores[["protocol", "variant", "slice"]].to_numpy()))
    rows = []
    for goal in GOALS:
        if (goal.protocol, goal.variant, goal.part) not in asked:
            continue
        key = {"protocol": goal.protocol, "variant": goal.variant, "method": HYBRID, "part": goal.part}
        value = evaluation.figure(goal.figure, **key)
        rows.append(
            {
                "protocol": f"{goal.protocol} {goal.variant}".strip(),
                "part": goal.part,
                "figure": goal.figure,
                "value": value,
                "limit": goal.limit,
                "at_least": goal.at_least,
                "met": goal.met(value),
            }
        )
    return pd.DataFrame(rows)
