"""Pictures of a study: how the best value came about, which columns matter, and the front."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import optuna
from optuna.trial import FrozenTrial, TrialState

_MIN_TRIALS: Final = 10
"""Fewer trials say nothing about importance."""


def study_figures(study: optuna.Study) -> dict[str, str]:
    """Return pages by file name, each a complete HTML document.

    Parameters
    ----------
    study : optuna.Study
        With finished trials.
    """
    from optuna import visualization

    finished = study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))
    if not finished:
        return {}
    names = (
        ["history"] if len(study.directions) == 1 else [f"history_{place}" for place in range(len(study.directions))]
    )
    figures = {
        name: visualization.plot_optimization_history(study, target=_value_at(place), target_name=name)
        for place, name in enumerate(names)
    }
    varied = {name for trial in finished for name, space in trial.distributions.items() if not space.single()}
    if len(finished) >= _MIN_TRIALS and varied:
        figures["importance"] = visualization.plot_param_importances(
            study,
            target=_value_at(0),
            target_name=names[0],
            evaluator=optuna.importance.FanovaImportanceEvaluator(seed=0),
        )
    if len(study.directions) > 1:
        figures["pareto"] = visualization.plot_pareto_front(study)
    return {f"{name}.html": figure.to_html(include_plotlyjs=True) for name, figure in figures.items()}


def _value_at(place: int) -> Callable[[FrozenTrial], float]:
    return lambda trial: float(trial.values[place])
