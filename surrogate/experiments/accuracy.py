"""The experiment "how accurate is it?": some protocols, some sources, every method, one MLflow run per method."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, ValidationError

from surrogate.derive import load_runs
from surrogate.errors import InputError
from surrogate.evaluation import HYBRID, METHODS, Evaluation, summarise
from surrogate.evaluation.evaluation import protocol_folds
from surrogate.evaluation.execute import run_folds
from surrogate.evaluation.folds import Fold, timed_runs
from surrogate.evaluation.methods import MethodFactory
from surrogate.experiments.markdown import evaluation_markdown
from surrogate.experiments.tracked import track_methods
from surrogate.schema import table_digest


class AccuracyConfig(BaseModel):
    """Settings of `config.yaml`."""

    model_config = ConfigDict(extra="forbid")

    experiment: str
    runs: str
    """Path of the runs table, relative to the experiment's folder."""
    protocols: list[str]
    sources: list[str] | None = None
    """Only predictions of these sources are scored; training sees all."""
    seed: int = 0
    jobs: int = 2
    track: bool = True


def measure_accuracy(config: Mapping[str, Any], folder: Path) -> str:
    """Evaluate every method under the protocols of the config.

    Parameters
    ----------
    config : mapping
        Fields of `AccuracyConfig`.
    folder : Path
        The experiment's folder; its name is that of the MLflow experiment.

    Raises
    ------
    InputError
        If a setting is unknown, missing or wrong.
    """
    settings = checked_config(config)
    runs = load_runs(folder / settings.runs)
    evaluation = evaluate_sources(runs, settings, METHODS)
    if settings.track:
        track_methods(evaluation, runs, experiment=folder.resolve().name)
    head = f"{len(runs):,} runs, sha256 {table_digest(runs)[:12]}, seed {settings.seed}."
    return f"{head}\n\n{evaluation_markdown(evaluation, HYBRID)}"


def checked_config(config: Mapping[str, Any]) -> AccuracyConfig:
    """Return validated settings.

    Raises
    ------
    InputError
        Naming the first wrong one.
    """
    try:
        return AccuracyConfig.model_validate(dict(config))
    except ValidationError as error:
        first = error.errors()[0]
        name = ".".join(map(str, first["loc"]))
        raise InputError(name, f"must be right in config.yaml ({first['msg']})", first.get("input")) from error


def evaluate_sources(runs: pd.DataFrame, settings: AccuracyConfig, methods: Mapping[str, MethodFactory]) -> Evaluation:
    """Evaluate methods, scoring only the sources of the settings."""
    timed = timed_runs(runs)
    folds = protocol_folds(timed, settings.protocols, settings.seed)
    scored = _scored_rows(timed, settings.sources)
    folds = [asked for fold in folds if (asked := _asking_for(fold, scored)).queries]
    raw = run_folds(timed, folds, methods, random_state=settings.seed, n_jobs=settings.jobs, on_progress=None)
    return summarise(timed, raw[scored[np.asarray(raw["row"])]], random_state=settings.seed)


def _scored_rows(timed: pd.DataFrame, sources: list[str] | None) -> NDArray[np.bool_]:
    if sources is None:
        return np.ones(len(timed), dtype=np.bool_)
    unknown = sorted(set(sources) - set(timed["source"]))
    if unknown:
        raise InputError("sources", "must be sources of the runs", ", ".join(unknown))
    return np.asarray(timed["source"].isin(sources), dtype=np.bool_)


def _asking_for(fold: Fold, scored: NDArray[np.bool_]) -> Fold:
    """Return the fold with the queries that ask for a scored row."""
    return replace(fold, queries=tuple(query for query in fold.queries if scored[query.test].any()))
