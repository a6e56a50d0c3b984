"""Why one candidate is faster than another, term by term, and how sure that is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pandas as pd
from scipy.special import ndtr

from surrogate.analytic.part_names import PART_NAMES
from surrogate.analytic.workload import FloatArray
from surrogate.estimators.hybrid import PARTS, HybridPredictor
from surrogate.estimators.ratio_spread import log_difference_sds

_SMALLEST_SHARE: Final = 0.002
"""Terms below this share of the step are not worth a word."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TermDifference:
    """One term of the step time, of a candidate and of the next."""

    part: str
    seconds: float
    """This candidate's, per step of the first's size."""
    seconds_of_next: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Comparison:
    """A candidate against the next one."""

    terms: tuple[TermDifference, ...]
    """Largest difference first; those too small for a word are left out."""
    probability_faster: float
    """That it really needs less time for the same work; both run at one site, so that its habits cancel."""

    def sentence(self) -> str:
        """Return the three largest differences in words."""
        gains = [term for term in self.terms if term.seconds < term.seconds_of_next][:3]
        losses = [term for term in self.terms if term.seconds > term.seconds_of_next][:2]
        parts = [f"{term.seconds_of_next - term.seconds:.3g} s less {PART_NAMES[term.part]}" for term in gains]
        costs = [f"{term.seconds - term.seconds_of_next:.3g} s more {PART_NAMES[term.part]}" for term in losses]
        if not parts and not costs:
            return "no difference that matters"
        return ", ".join(parts) + (f"{', but ' if parts else ''}{', '.join(costs)}" if costs else "")


def compare_neighbours(plans: pd.DataFrame, predicted: pd.DataFrame, predictor: HybridPredictor) -> list[Comparison]:
    """Compare each candidate with the next one of a ranking.

    Parameters
    ----------
    plans, predicted : DataFrame of n rows
        Candidates, best first, and their predictions with parts.
    predictor : HybridPredictor
        Whose doubt counts.

    Returns
    -------
    list of Comparison
        n - 1 of them.
    """
    if len(plans) < 2:
        return []
    work = work_per_gpu(plans)
    parts = predicted[list(PARTS)].to_numpy(dtype=np.float64)
    sds = log_difference_sds(plans, predictor)
    log_cost = np.log(predicted["step_time_s"].to_numpy(dtype=np.float64) / work)
    sure = ndtr(np.diff(log_cost) / sds)
    return [
        Comparison(
            terms=_differences(parts[row], parts[row + 1] * work[row] / work[row + 1]),
            probability_faster=float(sure[row]),
        )
        for row in range(len(plans) - 1)
    ]


def work_per_gpu(plans: pd.DataFrame) -> FloatArray:
    """Return tokens per step and accelerator, shape (n,)."""
    tokens = plans["global_batch_size"].to_numpy(dtype=np.float64) * plans["seq_len"].to_numpy(dtype=np.float64)
    return np.asarray(tokens / plans["num_gpus"].to_numpy(dtype=np.float64))


def _differences(own: FloatArray, following: FloatArray) -> tuple[TermDifference, ...]:
    order = np.argsort(-np.abs(following - own), kind="stable")
    smallest = _SMALLEST_SHARE * own.sum()
    return tuple(
        TermDifference(part=PARTS[place], seconds=float(own[place]), seconds_of_next=float(following[place]))
        for place in order
        if abs(following[place] - own[place]) > smallest
    )


def bottlenecks(predicted: pd.DataFrame, parts: Sequence[str] = PARTS) -> list[str]:
    """Return the largest part of each row's step beside its computation, with its share, shape (n,)."""
    seconds = predicted[list(parts)].to_numpy(dtype=np.float64)
    beside = np.where(np.array(parts) == "compute_s", -np.inf, seconds)
    largest = beside.argmax(axis=1)
    shares = np.take_along_axis(seconds, largest[:, None], axis=1)[:, 0] / seconds.sum(axis=1)
    return [f"{PART_NAMES[parts[place]]} {share:.0%}" for place, share in zip(largest, shares, strict=True)]


__all__ = [
    "Comparison",
    "TermDifference",
    "bottlenecks",
    "compare_neighbours",
    "log_difference_sds",
    "work_per_gpu",
]
