"""How far a study ends from the optimum, by number of trials: experiments/search_regret."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Final

import numpy as np
import pandas as pd

from surrogate.analytic.workload import FloatArray
from surrogate.errors import InputError
from surrogate.plan import parse_partial_plan
from surrogate.search.evaluation import Evaluator, SearchPredictor
from surrogate.search.exhaustive import enumerate_best
from surrogate.search.objectives import Goal
from surrogate.search.sampler import Algorithm
from surrogate.search.space import build_space
from surrogate.search.study import LayoutStudy, StudyOptions

OOM_RISK: Final = 0.05


@dataclass(frozen=True, kw_only=True, slots=True)
class StudyRegret:
    """One study of one problem against the optimum."""

    problem: str
    algorithm: str
    seed: int
    layouts: int
    candidates: int
    enumeration_s: float
    study_s: float
    regrets: tuple[float, ...]
    """Throughput lost against the optimum after each number of trials asked for; 1 while nothing that fits is known."""


def measure_regrets(
    problems: Mapping[str, Mapping[str, object]],
    predictor: SearchPredictor,
    *,
    trials: Sequence[int],
    seeds: Iterable[int],
) -> list[StudyRegret]:
    """Run every algorithm on every problem with enumeration switched off.

    Parameters
    ----------
    problems : mapping of name to plan
        Plans with open columns.
    predictor : SearchPredictor
        Through which both the studies and the enumeration look.
    trials : sequence of int
        Numbers of trials to report, ascending.
    seeds : iterable of int
        One study each.

    Raises
    ------
    InputError
        If nothing fits in a problem.
    """
    seeds = tuple(seeds)
    results = []
    for name, plan in problems.items():
        evaluator = Evaluator.of_predictor(
            build_space(parse_partial_plan(plan, name)), Goal(), predictor, oom_risk=OOM_RISK
        )
        started = time.perf_counter()
        reference = enumerate_best(evaluator, top=1)
        elapsed = time.perf_counter() - started
        if reference.best is None:
            raise InputError(name, "must have a layout that fits", reference.evaluated)
        optimum = 1.0 / float(reference.best.losses[0, 0])
        for algorithm in Algorithm:
            for seed in seeds:
                study_s, layouts, best = _study(evaluator, algorithm, seed, trials)
                results.append(
                    StudyRegret(
                        problem=name,
                        algorithm=str(algorithm),
                        seed=seed,
                        layouts=layouts,
                        candidates=reference.evaluated,
                        enumeration_s=elapsed,
                        study_s=study_s,
                        regrets=tuple(np.maximum(1.0 - best / optimum, 0.0).tolist()),
                    )
                )
    return results


def _study(
    evaluator: Evaluator, algorithm: Algorithm, seed: int, trials: Sequence[int]
) -> tuple[float, int, FloatArray]:
    """Return the seconds, the layouts, and the best throughput that fits after each number of trials."""
    started = time.perf_counter()
    study = LayoutStudy(evaluator, StudyOptions(algorithm=algorithm, trials=trials[-1], seed=seed))
    study.run()
    elapsed = time.perf_counter() - started
    values = [
        trial.values[0] if trial.values and max(trial.constraints.values()) <= 0.0 else 0.0
        for trial in study.study.get_trials(deepcopy=False)
    ]
    best = np.maximum.accumulate(values)
    return elapsed, len(study.layouts), best[np.minimum(np.asarray(trials), len(best)) - 1]


def regret_table(results: Sequence[StudyRegret], trials: Sequence[int]) -> pd.DataFrame:
    """Return median and worst regret over problems and seeds, by algorithm and number of trials."""
    frame = _long(results, trials)
    grouped = frame.groupby(["algorithm", "trials"], sort=False)["regret"]
    return grouped.agg(median="median", mean="mean", worst="max").reset_index()


def problem_table(results: Sequence[StudyRegret]) -> pd.DataFrame:
    """Return each problem's size, times, and the worst final regret of each algorithm over the seeds."""
    frame = pd.DataFrame([{**_plain(result), "regret": result.regrets[-1]} for result in results])
    sizes = frame.groupby("problem", sort=False)[["layouts", "candidates", "enumeration_s"]].first()
    regrets = frame.pivot_table(index="problem", columns="algorithm", values="regret", aggfunc="max", sort=False)
    seconds = frame[frame["algorithm"] == Algorithm.TPE].groupby("problem", sort=False)["study_s"].max()
    return sizes.join(seconds.rename("tpe_s")).join(regrets).reset_index()


def _long(results: Sequence[StudyRegret], trials: Sequence[int]) -> pd.DataFrame:
    rows = [
        {"problem": result.problem, "algorithm": result.algorithm, "trials": count, "regret": regret}
        for result in results
        for count, regret in zip(trials, result.regrets, strict=True)
    ]
    return pd.DataFrame(rows)


def _plain(result: StudyRegret) -> dict[str, Any]:
    return {field.name: getattr(result, field.name) for field in fields(result) if field.name != "regrets"}
