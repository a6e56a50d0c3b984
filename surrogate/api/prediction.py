"""Predictions of plans, one item each, in the terms of the command line's contract."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Final

import numpy as np
import pandas as pd

from surrogate.api.predictor import PARTS, Predictor
from surrogate.plan import Plan, plans_to_frame

_COPIED: Final = (
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
    "expected_failures_per_day",
    "nearest_runs",
    "imputed",
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Prediction:
    """What is predicted for one plan."""

    run_id: str
    step_time_s: float
    step_time_lower_s: float
    step_time_upper_s: float
    """90 % interval, unless another coverage was asked for."""
    tokens_per_s_per_gpu: float
    mfu: float
    """Model FLOPs utilisation of the dense peak, attention not halved."""
    analytic_step_time_s: float
    peak_memory_bytes: float
    """Allocated peak of the worst pipeline stage."""
    oom_probability: float
    feasible: bool
    """The risk of running out of memory is below 5 % and the rules of placement hold."""
    breakdown: Mapping[str, float]
    """Seconds by cause; they sum to `step_time_s`."""
    expected_failures_per_day: float
    in_domain: bool
    out_of_domain_reasons: Sequence[str]
    nearest_runs: Sequence[Mapping[str, object]]
    """The evidence: run_id, source, distance, measured_step_time_s, predicted_step_time_s."""
    model: str
    imputed: Sequence[str]
    """Fields the plan does not say, filled by rule."""

    def to_dict(self) -> dict[str, object]:
        """Return the item of `predict --json`; figures that are not known are None."""
        return {field.name: _plain(getattr(self, field.name)) for field in fields(self)}


def predict(plans: Sequence[Plan] | pd.DataFrame, predictor: Predictor, *, coverage: float = 0.9) -> list[Prediction]:
    """Predict plans.

    Parameters
    ----------
    plans : sequence of Plan, or DataFrame of n rows
        Plans, or canonical columns of the runs table.
    predictor : Predictor
        From `load_predictor`.
    coverage : float
        Probability that the interval holds the measured step time.

    Returns
    -------
    list of Prediction
        In the order of the plans.

    Raises
    ------
    InputError
        If an accelerator or its rate is not in the catalogue.
    """
    frame = plans if isinstance(plans, pd.DataFrame) else plans_to_frame(plans)
    predicted = predictor.predict_frame(frame, coverage=coverage, with_evidence=True)
    return collect_predictions(frame, predicted, predictor)


def collect_predictions(plans: pd.DataFrame, predicted: pd.DataFrame, predictor: Predictor) -> list[Prediction]:
    """Return rows of `Predictor.predict_frame` as items.

    Parameters
    ----------
    plans, predicted : DataFrame of n rows
        What was asked and what `predictor` answered, evidence included.
    predictor : Predictor
        Its name is given with each.
    """
    names = plans["run_id"].astype(str) if "run_id" in plans else [f"row-{row + 1}" for row in range(len(plans))]
    columns = {name: predicted[name].tolist() for name in _COPIED}
    model = predictor.name
    seconds = predicted[list(PARTS)].to_numpy(dtype=np.float64).tolist()
    return [
        Prediction(
            run_id=name,
            breakdown=dict(zip(PARTS, seconds[row], strict=True)),
            model=model,
            **{column: values[row] for column, values in columns.items()},
        )
        for row, name in enumerate(names)
    ]


def _plain(value: object) -> object:
    """Return a value as JSON can hold it: no NaN, no infinity."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {key: _plain(entry) for key, entry in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_plain(entry) for entry in value]
    return value
