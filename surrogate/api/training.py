"""`train`: measured runs in, a predictor in a model directory out."""

from __future__ import annotations

import platform
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np
import pandas as pd

import surrogate
from surrogate import __version__
from surrogate.api.assessment import SPLIT, assess, named_figures
from surrogate.api.judgement import false_alarm_rates
from surrogate.api.manifest import CARD_FILE, MANIFEST_FILE, Manifest, checksums
from surrogate.api.model_card import model_card
from surrogate.api.model_directory import (
    MEMORY_FOLDER,
    STEP_TIME_FOLDER,
    Origin,
    check_replaceable,
    directory_replaced_atomically,
)
from surrogate.api.predictor import Predictor
from surrogate.derive import derive_columns, load_runs
from surrogate.errors import RowProblem, TableError
from surrogate.features.workload import prepare_runs
from surrogate.schema import table_digest

if TYPE_CHECKING:
    from surrogate.estimators import HybridPredictor
    from surrogate.estimators.memory_model import MemoryModel
    from surrogate.evaluation import Evaluation

_LIBRARIES: Final = ("numpy", "pandas", "scikit-learn", "scipy", "xgboost")
_TARGET: Final = "measured_step_time_s"
NOT_EVALUATED: Final = "not evaluated"

Progress = Callable[[str], None]
"""Called with what is being done now."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TrainResult:
    """A trained predictor and how good it is."""

    predictor: Predictor
    runs: pd.DataFrame
    """The derived runs it was trained on."""
    evaluation: Evaluation | None
    """Out-of-sample accuracy by the random protocol; None when it was not asked for or the table is too small."""
    seconds: float
    """Wall-clock time of everything."""

    @property
    def manifest(self) -> Manifest:
        """Versions, data, metrics."""
        return self.predictor.manifest


def train(
    run_paths: Sequence[str | Path],
    model_dir: str | Path = "model",
    *,
    evaluate: bool = True,
    random_state: int = 0,
    n_jobs: int = 2,
    progress: Progress | None = None,
) -> TrainResult:
    """Train on one or several tables of runs and write a model directory.

    Parameters
    ----------
    run_paths : sequence of str or Path
        CSV or parquet; the shipped runs plus the user's own.
    model_dir : str or Path
        Written whole at the end; until then an existing model there is untouched.
    evaluate : bool
        Whether to cross-validate, with baselines; without it the model carries no metrics.
    random_state : int
        Seed of everything random.
    n_jobs : int
        Processes that cross-validate.
    progress : callable, optional
        Called with the step that begins.

    Raises
    ------
    FileFormatError, TableError
        If a table cannot be read or has bad rows (all are listed).
    InputError
        If no row has a step time.
    ModelDirectoryError
        If `model_dir` holds something else than a model.
    """
    start = time.perf_counter()
    tell = progress or (lambda _step: None)
    target = Path(model_dir)
    check_replaceable(target)
    tell("reading runs")
    runs = load_run_files(run_paths)
    tell(f"fitting {int(runs[_TARGET].notna().sum())} measured runs")
    step_time, memory = fit_models(runs, random_state=random_state)
    evaluation = assess(runs, random_state=random_state, n_jobs=n_jobs, progress=tell) if evaluate else None
    tell(f"writing {target}")
    manifest = describe_training(runs, run_paths, evaluation, random_state)
    alarms = {f"judge/false_alarms/{level}": rate for level, rate in false_alarm_rates(step_time).items()}
    manifest = replace(manifest, metrics={**manifest.metrics, **alarms})
    written = write_model(target, step_time, memory, manifest)
    predictor = Predictor(
        step_time=step_time, memory=memory, manifest=written, directory=target, origin=Origin.ARGUMENT
    )
    return TrainResult(predictor=predictor, runs=runs, evaluation=evaluation, seconds=time.perf_counter() - start)


def load_run_files(paths: Sequence[str | Path]) -> pd.DataFrame:
    """Read several tables of runs as one, with derived columns.

    Raises
    ------
    TableError
        With every bad row of every file, or the run_ids that two files share.
    """
    frames: list[pd.DataFrame] = []
    broken: list[TableError] = []
    for path in paths:
        try:
            frames.append(load_runs(path))
        except TableError as error:
            broken.append(error)
    if len(broken) > 1:
        problems = [problem for error in broken for problem in error.problems]
        raise TableError(", ".join(error.where for error in broken), problems)
    if broken:
        raise broken[0]
    if len(frames) == 1:
        return frames[0]
    joined = pd.concat(frames, ignore_index=True)
    _refuse_repeated_ids(joined, ", ".join(map(str, paths)))
    return derive_columns(joined).assign(time_rel_rounding=joined["time_rel_rounding"])


def fit_models(runs: pd.DataFrame, *, random_state: int = 0) -> tuple[HybridPredictor, MemoryModel]:
    """Fit step time and memory on derived runs."""
    from surrogate.estimators import HybridPredictor
    from surrogate.estimators.memory_model import MemoryModel

    step_time = HybridPredictor(random_state=random_state).fit(runs)
    memory = MemoryModel(random_state=random_state).fit(runs, prepare_runs(runs).workload)
    return step_time, memory


def describe_training(
    runs: pd.DataFrame, paths: Sequence[str | Path], evaluation: Evaluation | None, random_state: int
) -> Manifest:
    """Return the manifest of a training, without files yet."""
    return Manifest(
        surrogate_version=__version__,
        libraries={"python": platform.python_version(), **{name: version(name) for name in _LIBRARIES}},
        commit=working_tree_commit(),
        data={
            "digest": table_digest(runs),
            "files": [Path(path).name for path in paths],
            "rows": len(runs),
            "measured": int(runs[_TARGET].notna().sum()),
            "out_of_memory": int((runs["status"] == "oom").sum()),
            "sources": int(runs["source"].nunique()),
        },
        sites=site_families(runs),
        split=SPLIT if evaluation is not None else NOT_EVALUATED,
        metrics=named_figures(evaluation) if evaluation is not None else {},
        random_state=random_state,
    )


def write_model(directory: Path, step_time: HybridPredictor, memory: MemoryModel, manifest: Manifest) -> Manifest:
    """Write a model directory, whole or not at all, and return its manifest with the checksums of its files."""
    with directory_replaced_atomically(directory) as fresh:
        for folder, model in ((STEP_TIME_FOLDER, step_time), (MEMORY_FOLDER, memory)):
            (fresh / folder).mkdir()
            model.save(fresh / folder)
        complete = replace(manifest, files=checksums(fresh))
        (fresh / CARD_FILE).write_text(model_card(complete), encoding="utf-8")
        (fresh / MANIFEST_FILE).write_text(complete.to_json(), encoding="utf-8")
    return complete


def site_families(runs: pd.DataFrame) -> dict[str, tuple[str, ...]]:
    """Return the publisher families of each source, the most frequent first."""
    named = runs.loc[runs["source"].notna() & runs["publisher_family"].notna(), ["source", "publisher_family"]]
    counts = named.value_counts(sort=True)
    families: dict[str, tuple[str, ...]] = {}
    for source, family in counts.index:
        families[str(source)] = (*families.get(str(source), ()), str(family))
    return dict(sorted(families.items()))


def working_tree_commit() -> str | None:
    """Return the commit of the git tree this package runs from, ``+changes`` added when files differ; else None."""
    package = Path(surrogate.__file__)
    try:
        _git(package.parent, "ls-files", "--error-unmatch", package.name)
        changes = _git(package.parent, "status", "--porcelain", "--untracked-files=no")
        return _git(package.parent, "rev-parse", "HEAD") + ("+changes" if changes else "")
    except (OSError, subprocess.SubprocessError):
        return None


def _git(folder: Path, *arguments: str) -> str:
    command = ["git", "-C", str(folder), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=10).stdout.strip()


def _refuse_repeated_ids(runs: pd.DataFrame, where: str) -> None:
    repeated = runs["run_id"].duplicated(keep="first")
    problems = [
        RowProblem(row=int(row) + 1, run_id=name, column="run_id", rule="must be unique in all files", value=name)
        for row, name in zip(np.flatnonzero(repeated), runs.loc[repeated, "run_id"], strict=True)
    ]
    if problems:
        raise TableError(where, problems)
