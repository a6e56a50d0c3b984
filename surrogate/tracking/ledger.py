"""The ledger: predictions kept with plan and model, matched with their runs when these come in."""

from __future__ import annotations

import hashlib
import json
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

import pandas as pd

from surrogate.plan import plan_to_row
from surrogate.schema import REQUIRED_COLUMNS
from surrogate.tracking.drift import Drift, detect_drift
from surrogate.tracking.store import OpenStore, locate_store, opened

if TYPE_CHECKING:
    from surrogate.api import Prediction, Predictor
    from surrogate.plan import Plan

EXPERIMENT: Final = "ledger"
_OPTIONAL_KEYS: Final = ("cp", "ep", "vp", "micro_batch_size", "precision", "num_experts", "recompute", "zero_stage")
_KEYS: Final = (*REQUIRED_COLUMNS, *_OPTIONAL_KEYS)
"""What makes a run the one that was predicted: required columns, and of these what both sides say."""
_TARGET: Final = "measured_step_time_s"
_NORMAL_90: Final = 1.6448536269514722
_MAX_RUNS: Final = 50_000
_FIGURES: Final = ("step_time_s", "step_time_lower_s", "step_time_upper_s", "peak_memory_bytes", "oom_probability")


@dataclass(frozen=True, kw_only=True, slots=True)
class MatchedPrediction:
    """A prediction and what became of it."""

    prediction_id: str
    run_id: str
    model: str
    predicted_step_time_s: float
    measured_step_time_s: float
    surprise: float
    """log(measured / predicted) in predicted standard deviations."""
    inside: bool
    """Whether the measured time lies in the 90 % interval."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TrackRecord:
    """How the recorded predictions of a site fared."""

    site: str
    recorded: int
    matched: int
    mean_abs_log_error: float
    mean_log_error: float
    """Predicted less measured: positive when predicted too slow."""
    coverage: float
    drift: Drift
    items: Sequence[MatchedPrediction]
    """In the order in which they were predicted."""

    def to_dict(self) -> dict[str, object]:
        """Return the record in plain JSON."""
        plain = asdict(self)
        return {
            name: None if isinstance(value, float) and math.isnan(value) else value for name, value in plain.items()
        }


def record_predictions(
    plans: Sequence[Plan], predictions: Sequence[Prediction], predictor: Predictor, tracking_uri: str | None = None
) -> list[str]:
    """Store predictions in the ledger and return their ids.

    Raises
    ------
    TrackingError
        If the store cannot be reached, read or written.
    """
    with opened(tracking_uri) as store:
        place = store.experiment_id(EXPERIMENT)
        return [
            _record(store, place, plan, prediction, predictor)
            for plan, prediction in zip(plans, predictions, strict=True)
        ]


def match_runs(runs: pd.DataFrame, tracking_uri: str | None = None) -> int:
    """Match measured runs of one site with open predictions; return how many were matched.

    A run is what was predicted when its `run_id` is the prediction's id, or when all required columns agree and no
    other key differs, unless the prediction was made from another site's own runs. Runs of one configuration are
    shared out among its predictions. Without a local store there is nothing to match.
    """
    timed = runs[runs[_TARGET].notna()]
    if timed.empty or not _exists(tracking_uri):
        return 0
    with opened(tracking_uri) as store:
        entries = _entries(store, "tags.state = 'open'")
        known = [(row, _key(row)) for row in timed.to_dict(orient="records")]
        matches, taken = 0, Counter[str]()
        for entry in sorted(entries, key=lambda run: run.info.start_time):
            candidates = _candidates(entry, known)
            if candidates:
                row = min(candidates, key=lambda row: taken[str(row["run_id"])])
                taken[str(row["run_id"])] += 1
                matches += 1
                _settle(store, entry, row)
        return matches


def track_record(site: str, tracking_uri: str | None = None) -> TrackRecord:
    """Return how the predictions that a site's runs were matched with fared; empty without a ledger."""
    entries: list[Any] = []
    recorded = 0
    if _exists(tracking_uri):
        with opened(tracking_uri) as store:
            matched, waiting = (_entries(store, f"tags.state = '{state}'") for state in ("matched", "open"))
            entries = [entry for entry in matched if entry.data.tags["measured_at"] == site]
            entries.sort(key=lambda run: run.info.start_time)
            recorded = len(entries) + sum(entry.data.tags["site"] == site for entry in waiting)
    items = [_matched(entry) for entry in entries]
    errors = [math.log(item.predicted_step_time_s / item.measured_step_time_s) for item in items]
    count = len(items) or math.nan
    return TrackRecord(
        site=site,
        recorded=recorded,
        matched=len(items),
        mean_abs_log_error=sum(map(abs, errors)) / count,
        mean_log_error=sum(errors) / count,
        coverage=sum(item.inside for item in items) / count,
        drift=detect_drift([item.surprise for item in items]),
        items=items,
    )


def plan_digest(plan: Plan) -> str:
    """Return the first 12 digits of the SHA-256 of a plan's values, whatever its name."""
    values = {name: value for name, value in plan_to_row(plan).items() if value is not None and name != "run_id"}
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()[:12]


def _record(store: OpenStore, place: str, plan: Plan, prediction: Prediction, predictor: Predictor) -> str:
    from mlflow.entities import Metric, Param, RunTag

    tags = {
        "state": "open",
        "plan": prediction.run_id,
        "plan_digest": plan_digest(plan),
        "model": prediction.model,
        "model_digest": predictor.manifest.digest,
        "site": predictor.site.name if predictor.site is not None else plan.source or "",
        "own_runs": str(predictor.site.own_runs if predictor.site is not None else 0),
    }
    run = store.client.create_run(place, run_name=prediction.run_id)
    values = {name: value for name, value in plan_to_row(plan).items() if value is not None}
    figures = {name: getattr(prediction, name) for name in _FIGURES}
    store.client.log_batch(
        run.info.run_id,
        metrics=[Metric(name, value, run.info.start_time, 0) for name, value in figures.items()],
        params=[Param(name, str(value)[:500]) for name, value in values.items()],
        tags=[RunTag(name, value) for name, value in tags.items()],
    )
    store.client.log_dict(run.info.run_id, prediction.to_dict(), "prediction.json")
    store.client.set_terminated(run.info.run_id)
    return str(run.info.run_id)


def _settle(store: OpenStore, entry: Any, row: Mapping[Any, Any]) -> None:
    measured, figures = float(row[_TARGET]), entry.data.metrics
    client, run_id = store.client, entry.info.run_id
    client.log_metric(run_id, _TARGET, measured)
    client.log_metric(run_id, "log_error", math.log(figures["step_time_s"] / measured))
    tags = {"state": "matched", "measured_run": str(row["run_id"]), "measured_at": str(row["source"])}
    for name, value in tags.items():
        client.set_tag(run_id, name, value)


def _matched(entry: Any) -> MatchedPrediction:
    figures, tags = entry.data.metrics, entry.data.tags
    predicted, measured = figures["step_time_s"], figures[_TARGET]
    lower, upper = figures["step_time_lower_s"], figures["step_time_upper_s"]
    sd = math.log(upper / lower) / (2.0 * _NORMAL_90)
    return MatchedPrediction(
        prediction_id=str(entry.info.run_id),
        run_id=tags["measured_run"],
        model=tags["model"],
        predicted_step_time_s=predicted,
        measured_step_time_s=measured,
        surprise=math.log(measured / predicted) / sd,
        inside=lower <= measured <= upper,
    )


def _entries(store: OpenStore, condition: str) -> list[Any]:
    found = store.client.get_experiment_by_name(EXPERIMENT)
    if found is None:
        return []
    return list(store.client.search_runs([found.experiment_id], condition, max_results=_MAX_RUNS))


def _candidates(entry: Any, known: Sequence[tuple[Mapping[Any, Any], Mapping[str, str]]]) -> list[Mapping[Any, Any]]:
    """Return the runs that may be what was predicted: the one named after the prediction, else all that agree."""
    named = [row for row, _ in known if str(row["run_id"]) == entry.info.run_id]
    return named or [row for row, key in known if _may_be_of(entry, row) and _agrees(_key(entry.data.params), key)]


def _may_be_of(entry: Any, row: Mapping[Any, Any]) -> bool:
    """Tell whether a prediction may be of a run's site: not when another site's own runs made it."""
    tags = entry.data.tags
    return bool(tags.get("own_runs", "0") == "0" or tags["site"] == str(row["source"]))


def _agrees(said: Mapping[str, str], key: Mapping[str, str]) -> bool:
    required = all(said.get(name) == key.get(name) for name in REQUIRED_COLUMNS)
    return required and all(said[name] == key[name] for name in _OPTIONAL_KEYS if name in said and name in key)


def _key(values: Mapping[Any, Any]) -> dict[str, str]:
    """Return what identifies a configuration, as text: counts without a fraction, missing ones left out."""
    given = {name: values.get(name) for name in _KEYS}
    return {name: _text(value) for name, value in given.items() if value is not None and not pd.isna(value)}


def _text(value: object) -> str:
    try:
        number = float(str(value))
    except ValueError:
        return str(value)
    return str(int(number)) if number.is_integer() else repr(number)


def _exists(tracking_uri: str | None) -> bool:
    store = locate_store(tracking_uri)
    return store.artifacts is None or (store.artifacts.parent / "mlflow.db").is_file()
