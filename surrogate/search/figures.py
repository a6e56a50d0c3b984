"""What a study looks like: how the best value came about, which columns matter, and the front."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import optuna
from optuna.study import StudyDirection
from optuna.trial import FrozenTrial, TrialState

_MIN_TRIALS: Final = 10
"""Fewer trials say nothing about importance."""
_GREY: Final = "grey: does not fit in memory"
_FLAT: Final = 2
"""Objectives that a flat picture shows."""
_MARGIN: Final = 0.05


def study_figures(study: optuna.Study) -> dict[str, str]:
    """Return pages by file name, each a complete HTML document: history, importance, front.

    Parameters
    ----------
    study : optuna.Study
        With finished trials; those that do not fit carry a constraint above 0 and are drawn in grey.
    """
    from optuna import visualization

    finished = study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))
    if not finished:
        return {}
    names = objective_names(study)
    is_single = len(names) == 1
    figures = {}
    for place, name in enumerate(names):
        history = visualization.plot_optimization_history(
            study, target=None if is_single else _value_at(place), target_name=name
        )
        title = f"{name} by trial" + (f" ({_GREY})" if is_single else "")
        figures["history" if is_single else f"history_{name}"] = history.update_layout(title=title)
    varied = {name for trial in finished for name, space in trial.distributions.items() if not space.single()}
    if len(finished) >= _MIN_TRIALS and varied:
        evaluator = optuna.importance.FanovaImportanceEvaluator(seed=0)
        importance = visualization.plot_param_importances(
            study, target=_value_at(0), target_name=names[0], evaluator=evaluator
        )
        title = f"What decides {names[0]} (fANOVA)"
        figures["importance"] = importance.update_layout(
            title=title, xaxis_title="share of its variance over all trials", yaxis_title=""
        )
    if not is_single:
        front = visualization.plot_pareto_front(study, target_names=names)
        title = f"The front in red ({_GREY})"
        figures["pareto"] = front.update_layout(title=title, **_axes_of_fitting(finished, len(names)))
    return {f"{name}.html": figure.to_html(include_plotlyjs=True) for name, figure in figures.items()}


def _axes_of_fitting(finished: list[FrozenTrial], objectives: int) -> dict[str, tuple[float, float]]:
    """Return axes that show what fits: trials that do not may lie far away."""
    values = [trial.values for trial in finished if fits(trial)]
    if not values or objectives != _FLAT:
        return {}
    ranges = {}
    for axis, column in zip(("xaxis_range", "yaxis_range"), zip(*values, strict=True), strict=True):
        margin = _MARGIN * (max(column) - min(column)) or _MARGIN * abs(column[0])
        ranges[axis] = (min(column) - margin, max(column) + margin)
    return ranges


def study_history(study: optuna.Study) -> dict[str, list[tuple[int, float]]]:
    """Return the best value of each objective among trials that fit, by trial number, where it changed.

    Parameters
    ----------
    study : optuna.Study
        Trials that do not fit carry a constraint above 0.
    """
    finished = study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))
    fitting = [trial for trial in finished if fits(trial)]
    history: dict[str, list[tuple[int, float]]] = {}
    for place, (name, direction) in enumerate(zip(objective_names(study), study.directions, strict=True)):
        sign = -1.0 if direction is StudyDirection.MAXIMIZE else 1.0
        best, steps = float("inf"), []
        for trial in fitting:
            if sign * trial.values[place] < best:
                best = sign * trial.values[place]
                steps.append((trial.number, sign * best))
        last = finished[-1].number if finished else 0
        history[name] = [*steps, (last, sign * best)] if steps and steps[-1][0] < last else steps
    return history


def fits(trial: FrozenTrial) -> bool:
    """Tell whether a trial breaks no constraint."""
    return all(value <= 0.0 for value in trial.constraints.values())


def objective_names(study: optuna.Study) -> list[str]:
    """Return what the values of a study are called."""
    return study.metric_names or [f"objective_{place}" for place in range(len(study.directions))]


def _value_at(place: int) -> Callable[[FrozenTrial], float]:
    return lambda trial: float(trial.values[place])
