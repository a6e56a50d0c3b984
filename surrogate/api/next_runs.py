"""`site next`: the cheap runs that would narrow a target's interval most."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import product
from typing import TYPE_CHECKING, Final

import numpy as np
import pandas as pd

from surrogate.api.changes import with_changes
from surrogate.api.predictor import Predictor
from surrogate.api.sites import shared_site
from surrogate.errors import InputError
from surrogate.estimators.design import MEASUREMENT_VARIANCE, choose_runs, posterior_covariance
from surrogate.estimators.hybrid import prepare_table
from surrogate.features.workload import prepare_runs

if TYPE_CHECKING:
    from surrogate.analytic.workload import FloatArray
    from surrogate.estimators import HybridPredictor

MOST_RUNS: Final = 3
_MOST_OOM_RISK: Final = 0.2
_LAYOUT: Final = ("num_gpus", "tp", "pp", "cp", "ep", "vp", "num_layers", "micro_batch_size", "global_batch_size")


@dataclass(frozen=True, kw_only=True, slots=True)
class ProposedRun:
    """A run to make next."""

    values: Mapping[str, object]
    """Plan fields that differ from the target's."""
    num_gpus: int
    step_time_s: float
    """Predicted: what a step of it will about take."""
    interval_ratio: float
    """Upper over lower limit of the target's interval once this run and those before it are known."""


@dataclass(frozen=True, kw_only=True, slots=True)
class NextRuns:
    """Runs to make, the most telling first."""

    target: str
    interval_ratio: float
    """Upper over lower limit of the target's interval now."""
    proposals: Sequence[ProposedRun]

    def to_dict(self) -> dict[str, object]:
        """Return the proposals in plain JSON."""
        return asdict(self)


def propose_runs(target: pd.DataFrame, budget_gpus: int, predictor: Predictor, *, most: int = MOST_RUNS) -> NextRuns:
    """Propose runs on at most `budget_gpus` accelerators.

    Parameters
    ----------
    target : DataFrame of one row
        The plan to know better.
    budget_gpus : int
        Accelerators at hand for the measurements.
    predictor : Predictor
        At the site, its runs so far included.
    most : int
        How many runs to propose at most.

    Notes
    -----
    Candidates are the target with fewer accelerators, layers and a smaller batch, and other splits, as far as they can
    be placed and fit. They are chosen from inputs alone by how much they reduce the target's posterior variance, one
    after the other; the interval shrinks with the standard deviation that is left.

    Raises
    ------
    InputError
        If nothing like the target can run on so few accelerators.
    """
    from surrogate.feasibility.candidates import is_placeable

    if budget_gpus < 1:
        raise InputError("--budget-gpus", "must be at least 1", budget_gpus)
    variants = list(_variants(target, budget_gpus))
    table = with_changes(target, variants).iloc[1:].reset_index(drop=True)
    good = np.flatnonzero(is_placeable(table)) if len(table) else np.zeros(0, dtype=np.int64)
    predicted = predictor.predict_frame(table.iloc[good].reset_index(drop=True))
    fits = predicted["oom_probability"].to_numpy(dtype=np.float64) <= _MOST_OOM_RISK
    good = good[fits]
    if not good.size:
        way_out = "raise the budget, or choose a smaller target"
        raise InputError("--budget-gpus", "must hold a run like the target that fits", budget_gpus, way_out)
    candidates = table.iloc[good].reset_index(drop=True)
    seconds = predicted["step_time_s"].to_numpy(dtype=np.float64)[fits]
    at_site = predictor.at_site(shared_site(predictor.site))
    asked, wanted = at_site.sited(candidates), at_site.sited(target)
    chosen = choose_runs(predictor.step_time, asked, wanted, min(most, len(candidates)))
    now = _interval_ratio(predictor.predict_frame(target).iloc[0])
    left = remaining_spread(predictor.step_time, asked.iloc[chosen], wanted)
    return NextRuns(
        target=str(target["run_id"].iloc[0]),
        interval_ratio=now,
        proposals=[
            ProposedRun(
                values=_differences(target, candidates.iloc[[row]]),
                num_gpus=int(candidates["num_gpus"].iloc[row]),
                step_time_s=float(seconds[row]),
                interval_ratio=now ** float(left[position]),
            )
            for position, row in enumerate(chosen)
        ],
    )


def remaining_spread(step_time: HybridPredictor, runs: pd.DataFrame, target: pd.DataFrame) -> FloatArray:
    """Return the target's standard deviation once the first 1, 2, ... n runs are measured, over that before, (n,)."""
    rows = prepare_table(pd.concat([target, runs], ignore_index=True))
    covariance = posterior_covariance(step_time.effects_, rows)
    before, left = covariance[0, 0], []
    for known in range(1, len(runs) + 1):
        own = covariance[1 : known + 1, 1 : known + 1] + MEASUREMENT_VARIANCE * np.eye(known)
        cross = covariance[0, 1 : known + 1]
        left.append(before - cross @ np.linalg.solve(own, cross))
    spread: FloatArray = np.sqrt(np.maximum(left, 0.0) / before)
    return spread


def _variants(target: pd.DataFrame, budget: int) -> Iterator[dict[str, object]]:
    """Yield smaller versions of one plan: replicas, layers per stage and splits scaled down by powers of two."""
    w = prepare_runs(target).workload
    tp, pp, cp, dp = (int(size[0]) for size in (w.tp, w.pp, w.cp, w.dp))
    layers, micro, batch = (int(size[0]) for size in (w.num_layers, w.micro_batch_size, w.global_batch_size))
    has_experts = bool(w.num_experts[0] > 0)
    per_stage = max(layers // pp, 1)
    sizes = product(_halvings(tp), _halvings(pp), _halvings(cp), _halvings(dp))
    for new_tp, new_pp, new_cp, new_dp in sizes:
        gpus = new_tp * new_pp * new_cp * new_dp
        if gpus > budget or (gpus == tp * pp * cp * dp and new_pp == pp):
            continue
        ranks = new_tp * new_cp * new_dp
        change: dict[str, object] = {
            "num_gpus": gpus, "tp": new_tp, "pp": new_pp, "cp": new_cp, "dp": new_dp, "num_layers": per_stage * new_pp,
            "global_batch_size": max(batch // dp, micro) * new_dp, "micro_batch_size": micro, "pipeline_layout": None,
        }  # fmt: skip
        if new_pp == 1:
            change |= {"vp": None, "pipeline_schedule": None}
        if has_experts:
            change |= {"ep": math.gcd(int(w.ep[0]), ranks), "num_dense_layers": None, "expert_tp": None}
        yield change


def _halvings(size: int) -> list[int]:
    """Return a size and its halves down to 1 (or the odd number that is left).

    Examples
    --------
    >>> _halvings(8), _halvings(6)
    ([8, 4, 2, 1], [6, 3])
    """
    sizes = [size]
    while sizes[-1] % 2 == 0:
        sizes.append(sizes[-1] // 2)
    return sizes


def _differences(target: pd.DataFrame, run: pd.DataFrame) -> dict[str, object]:
    before, after = (prepare_runs(plan).workload for plan in (target, run))
    values = {name: (int(getattr(before, name)[0]), int(getattr(after, name)[0])) for name in _LAYOUT}
    return {name: new for name, (old, new) in values.items() if new != old}


def _interval_ratio(row: pd.Series) -> float:
    return float(row["step_time_upper_s"] / row["step_time_lower_s"])
