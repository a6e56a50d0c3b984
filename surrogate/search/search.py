"""Search the layouts that a plan leaves open: the public function of this package."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pandas as pd

from surrogate.estimators.oom import DEFAULT_OOM_RISK
from surrogate.plan import PartialPlan
from surrogate.search.comparison import Comparison, bottlenecks, compare_neighbours
from surrogate.search.enumeration import CodeBlock, count_candidates, require_candidates
from surrogate.search.evaluation import Evaluator, SearchPredictor, hybrid_of
from surrogate.search.exhaustive import Outcome, Ranked, enumerate_best
from surrogate.search.near_misses import LOOKED_AT, near_misses
from surrogate.search.objectives import COLUMN_OF, Goal, shown
from surrogate.search.preparation import candidate_frame
from surrogate.search.shortage import Change, Shortage, binding_constraints, explain_shortage, plain, shown_columns
from surrogate.search.space import SearchSpace, SpaceRequest

if TYPE_CHECKING:
    import optuna

    from surrogate.search.study import StudyOptions

ENUMERABLE_CANDIDATES: Final = 250_000
"""Spaces up to here are enumerated even when nobody asks: about two seconds."""
KNOWN_LAYOUTS: Final = 100
"""Best candidates of an enumeration that a study is told."""
_SITE_COLUMNS: Final = ("source", "publisher_family")

PREDICTED_COLUMNS: Final = (
    "step_time_s",
    "step_time_lower_s",
    "step_time_upper_s",
    "tokens_per_s_per_gpu",
    "mfu",
    "analytic_step_time_s",
    "peak_memory_bytes",
    "oom_probability",
    "feasible",
    "in_domain",
    "out_of_domain_reasons",
)

Progress = Callable[[int, str], None]
"""Called with finished candidates or trials, and which of the two they are."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SearchOptions:
    """How to search.

    Parameters
    ----------
    goal : Goal
        Objectives.
    top : int
        Candidates wanted.
    misses : int
        Candidates wanted that do not fit.
    oom_risk : float
        Largest probability of running out of memory.
    is_exhaustive : bool
        Enumerate whatever the size.
    is_enumerated_when_small : bool
        Enumerate spaces of at most `ENUMERABLE_CANDIDATES`.
    study : StudyOptions, optional
        How Optuna searches; needed unless the space is enumerated.
    keeps_study : bool
        Make a study even where the space is enumerated and no storage asks for one: for its figures.
    """

    goal: Goal = Goal()
    top: int = 5
    misses: int = 3
    oom_risk: float = DEFAULT_OOM_RISK
    is_exhaustive: bool = False
    is_enumerated_when_small: bool = True
    study: StudyOptions | None = None
    keeps_study: bool = False

    def settings(self) -> dict[str, object]:
        """Return what was asked by name, as a tracking store shows it."""
        study = self.study
        how = (
            {} if study is None else {name: getattr(study, name) for name in ("algorithm", "trials", "seconds", "seed")}
        )
        return {
            "objectives": ", ".join(self.goal.objectives),
            "is_robust": self.goal.is_robust,
            "tokens": self.goal.tokens,
            "price_per_gpu_hour": self.goal.policy.price_per_gpu_hour,
            "oom_risk": self.oom_risk,
            **how,
        }


@dataclass(frozen=True, kw_only=True, slots=True)
class SearchResult:
    """What a search found.

    Parameters
    ----------
    space : SearchSpace
        What was searched.
    best : DataFrame of at most `top` rows (a whole front with several objectives)
        Open columns of each candidate, predictions, `bottleneck`, `why` it beats the next and `probability_faster`.
    near_misses : DataFrame
        Candidates that would be among the best but for memory, with `binding_constraint`.
    plans : DataFrame
        The best candidates as complete rows of the runs table.
    comparisons : tuple of Comparison
        Each of the best against the next.
    shortage : Shortage or None
        Why nothing fits, when nothing does.
    evaluated : int
        Candidates considered.
    exhaustive : bool
        Whether the best is proved to be the best of the space.
    enumerated : bool
        Whether candidates were enumerated, or tried by a study.
    interrupted : bool
        Whether the search was stopped from the keyboard.
    is_ranking : bool
        Whether `best` is a ranking, or the front of several objectives.
    study : optuna.Study or None
        The study, where one was made.
    """

    space: SearchSpace
    best: pd.DataFrame
    near_misses: pd.DataFrame
    plans: pd.DataFrame
    comparisons: tuple[Comparison, ...]
    shortage: Shortage | None
    evaluated: int
    exhaustive: bool
    enumerated: bool = True
    interrupted: bool = False
    is_ranking: bool = True
    study: optuna.Study | None = field(default=None, repr=False)

    def table(self) -> pd.DataFrame:
        """Return the best as a table that CSV and parquet can hold: lists and missing values become text and NA."""
        texts = [name for name in ("why", "out_of_domain_reasons") if name in self.best]
        columns = {name: pd.Series(map(_text, self.best[name]), index=self.best.index, dtype="str") for name in texts}
        return self.best.assign(**columns)

    def figures(self) -> dict[str, str]:
        """Return pages about the study by file name: history, importance and front; none without a study."""
        from surrogate.search.figures import study_figures

        return {} if self.study is None else study_figures(self.study)

    def history(self) -> dict[str, list[tuple[int, float]]]:
        """Return the best value of each objective by number of trials, where it changed; nothing without a study."""
        from surrogate.search.figures import study_history

        return {} if self.study is None else study_history(self.study)

    def to_dict(self) -> dict[str, object]:
        """Return what `search --json` prints: plain values, None for what is not known."""
        answer: dict[str, object] = {
            "best": _records(self.best),
            "near_misses": _records(self.near_misses),
            "evaluated": self.evaluated,
            "exhaustive": self.exhaustive,
        }
        if self.shortage is not None:
            answer["shortage"] = {
                "binding_constraint": self.shortage.constraint,
                "oom_probability": self.shortage.oom_probability,
                "least_risky": dict(self.shortage.layout),
                "nearest_feasible_changes": [
                    {"changes": dict(change.values), **_plain_values(change)} for change in self.shortage.changes
                ],
            }
        return answer


def search(
    request: SpaceRequest,
    predictor: SearchPredictor,
    options: SearchOptions | None = None,
    progress: Progress | None = None,
) -> SearchResult:
    """Find the best layouts that a plan leaves open.

    Parameters
    ----------
    request : SpaceRequest
        The plan, columns to vary on request, and the user's own conditions.
    predictor : SearchPredictor
        From `surrogate.api.load_predictor`.
    options : SearchOptions, optional
        How to search.
    progress : callable, optional
        Called as the search goes on.

    Returns
    -------
    SearchResult

    Raises
    ------
    InputError
        If the plan contradicts itself, leaves no layout that exists, or the storage cannot be used.

    Notes
    -----
    Small spaces are enumerated, so that the answer is the optimum and proved to be; larger ones are left to a study
    unless asked otherwise. Memory is a hard constraint. An interrupt ends the search with the best so far.
    """
    options = options or SearchOptions()
    request = replace(request, plan=_with_site(request.plan, predictor))
    space = request.build()
    require_candidates(space)
    evaluator = Evaluator.of_predictor(space, options.goal, predictor, oom_risk=options.oom_risk)
    outcome, study = _searched(evaluator, options, progress)
    shortage = None
    if outcome.best is None and outcome.least_risky is not None and not outcome.interrupted:
        shortage = explain_shortage(evaluator, outcome.least_risky, predictor, request)
    plans, best, comparisons = _described(evaluator, outcome.best, predictor)
    return SearchResult(
        space=space,
        best=best,
        near_misses=_described_misses(
            evaluator, near_misses(evaluator, outcome.misses, outcome.best, options.misses), predictor
        ),
        plans=plans,
        comparisons=comparisons,
        shortage=shortage,
        evaluated=outcome.evaluated,
        exhaustive=outcome.exhaustive,
        enumerated=outcome.enumerated,
        interrupted=outcome.interrupted,
        is_ranking=options.goal.is_single,
        study=study,
    )


def _searched(
    evaluator: Evaluator, options: SearchOptions, progress: Progress | None
) -> tuple[Outcome, optuna.Study | None]:
    """Enumerate or study; a study in a storage is told what an enumeration found."""
    from surrogate.search.study import LayoutStudy, StudyOptions

    small = count_candidates(evaluator.space, at_most=ENUMERABLE_CANDIDATES) <= ENUMERABLE_CANDIDATES
    study_options = options.study or StudyOptions(name=evaluator.space.plan.name)
    misses = LOOKED_AT * options.misses
    if not (options.is_exhaustive or (options.is_enumerated_when_small and small)):
        searching = LayoutStudy(evaluator, study_options)
        searching.run(None if progress is None else lambda count: progress(count, "trials"))
        return searching.outcome(top=options.top, misses=misses), searching.study
    study = LayoutStudy(evaluator, study_options) if study_options.storage or options.keeps_study else None
    wanted = max(options.top, KNOWN_LAYOUTS) if study is not None else options.top
    seen = None if progress is None else lambda count: progress(count, "candidates")
    outcome = enumerate_best(evaluator, top=wanted, misses=misses, progress=seen)
    if study is not None and outcome.best is not None:
        study.add_known(outcome.best)
    return _first(outcome, options), None if study is None else study.study


def _first(outcome: Outcome, options: SearchOptions) -> Outcome:
    """Return an outcome with the candidates that were wanted; a front stays whole."""
    if outcome.best is None or not options.goal.is_single:
        return outcome
    rows = slice(0, options.top)
    codes = {name: column[rows] for name, column in outcome.best.codes.items()}
    return replace(outcome, best=Ranked(codes=codes, losses=outcome.best.losses[rows]))


def _with_site(plan: PartialPlan, predictor: SearchPredictor) -> PartialPlan:
    """Return the plan with the site that the predictor takes it to be from."""
    given = {name: [plan.values.get(name)] for name in _SITE_COLUMNS if name in plan.values}
    sited = predictor.sited(pd.DataFrame(given, index=[0], dtype=object))
    known = {name: plain(sited[name].iloc[0]) for name in _SITE_COLUMNS if name in sited}
    return plan.with_values({name: value for name, value in known.items() if value})


def _described(
    evaluator: Evaluator, ranked: Ranked | None, predictor: SearchPredictor
) -> tuple[pd.DataFrame, pd.DataFrame, tuple[Comparison, ...]]:
    """Return the best candidates as plans and as a result table, and why each beats the next."""
    if ranked is None:
        return pd.DataFrame(), pd.DataFrame(), ()
    plans, table, predicted = _predicted(evaluator, ranked.codes, predictor)
    goal = evaluator.goal
    objectives = {COLUMN_OF[name]: shown(name, ranked.losses[:, place]) for place, name in enumerate(goal.objectives)}
    extra = {name: column for name, column in objectives.items() if name not in table}
    comparisons = tuple(compare_neighbours(plans, predicted, hybrid_of(predictor)))
    none: list[Any] = [None]
    table = table.assign(
        **extra,
        bottleneck=bottlenecks(predicted),
        why=[*(comparison.sentence() for comparison in comparisons), *none],
        probability_faster=[*(comparison.probability_faster for comparison in comparisons), *none],
    )
    return plans, table, comparisons


def _described_misses(evaluator: Evaluator, codes: CodeBlock | None, predictor: SearchPredictor) -> pd.DataFrame:
    if codes is None:
        return pd.DataFrame()
    _, table, _ = _predicted(evaluator, codes, predictor)
    return table.assign(binding_constraint=binding_constraints(evaluator, codes))


def _predicted(
    evaluator: Evaluator, codes: CodeBlock, predictor: SearchPredictor
) -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame]:
    """Return candidates as plans, as open columns beside predictions, and the predictions in full."""
    plans = candidate_frame(evaluator.space, codes)
    predicted = predictor.predict_frame(plans)
    usable = evaluator.prepare(codes).workload.hbm_bytes
    headroom = 1.0 - predicted["peak_memory_bytes"].to_numpy(dtype=np.float64) / usable
    columns = [name for name in PREDICTED_COLUMNS if name in predicted]
    table = pd.concat([plans[list(shown_columns(evaluator.space))], predicted[columns]], axis=1)
    fits = predicted["oom_probability"].to_numpy(dtype=np.float64) <= evaluator.oom_risk
    return plans, table.assign(feasible=fits, memory_headroom_fraction=headroom), predicted


def _text(value: object) -> str | None:
    if isinstance(value, list):
        return "; ".join(map(str, value)) or None
    return None if value is None else str(value)


def _records(table: pd.DataFrame) -> list[dict[str, object]]:
    return [
        {str(name): value if isinstance(value, list) else plain(value) for name, value in row.items()}
        for row in table.to_dict("records")
    ]


def _plain_values(change: Change) -> Mapping[str, object]:
    return {
        "layout": dict(change.layout),
        "step_time_s": change.step_time_s,
        "oom_probability": change.oom_probability,
    }
