"""The memory model on disk: JSON for what has names, npz for arrays, UBJSON for trees. No pickle."""

from __future__ import annotations

import io
import json
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from surrogate.errors import ModelDirectoryError
from surrogate.estimators.memory_model_items import ITEM_NAMES
from surrogate.estimators.memory_model_posterior import Posterior
from surrogate.estimators.memory_model_sites import LEVELS, SiteVocabulary
from surrogate.estimators.oom_trees import OomTrees
from surrogate.files import write_bytes_atomically, write_text_atomically

FORMAT: Final = 1
NAMES_FILE: Final = "memory_model.json"
ARRAYS_FILE: Final = "memory_model.npz"
TREES_FILE: Final = "memory_model_oom.ubj"


@dataclass(frozen=True, kw_only=True, slots=True)
class MemoryModelState:
    """Everything a fitted memory model needs to predict."""

    item_scale: float
    vocabulary: SiteVocabulary
    posterior: Posterior
    stranger_shift: float
    """Added to the log peak where the source is unknown."""
    interval_factors: tuple[float, float]
    """Half width of the 90 % interval in predictive standard deviations: at known sources, and elsewhere."""
    recalibration: tuple[float, float]
    trees: OomTrees | None


def write_memory_model(state: MemoryModelState, directory: Path) -> None:
    """Write the files of one model into `directory`, each whole or not at all."""
    posterior = state.posterior
    names = {
        "format": FORMAT,
        "items": ITEM_NAMES,
        "levels": dict(zip(LEVELS, state.vocabulary.names, strict=True)),
        "own_sources": state.vocabulary.own_sources,
        "item_scale": state.item_scale,
        "peak_scale": posterior.peak_scale,
        "stranger_shift": state.stranger_shift,
        "interval_factors": state.interval_factors,
        "recalibration": state.recalibration,
        "has_trees": state.trees is not None,
    }
    arrays = io.BytesIO()
    np.savez_compressed(
        arrays,
        mean=posterior.mean,
        covariance=posterior.covariance.astype(np.float32),
        variances=posterior.variances,
        limit_scales=posterior.limit_scales,
        own_means=posterior.own_means,
        own_covariances=posterior.own_covariances,
    )
    write_bytes_atomically(directory / ARRAYS_FILE, arrays.getvalue())
    if state.trees is not None:
        write_bytes_atomically(directory / TREES_FILE, state.trees.to_bytes())
    write_text_atomically(directory / NAMES_FILE, json.dumps(names, indent=1))


def read_memory_model(directory: Path) -> MemoryModelState:
    """Read what `write_memory_model` wrote.

    Raises
    ------
    ModelDirectoryError
        If a file is missing, damaged, or of another version.
    """
    try:
        names = json.loads((directory / NAMES_FILE).read_text())
        _check_version(names, directory)
        content = io.BytesIO((directory / ARRAYS_FILE).read_bytes())
        with np.load(content, allow_pickle=False) as stored:
            arrays = {name: stored[name].astype(np.float64) for name in stored.files}
        trees = OomTrees.from_bytes((directory / TREES_FILE).read_bytes()) if names["has_trees"] else None
        vocabulary = SiteVocabulary(
            names=tuple(tuple(names["levels"][level]) for level in LEVELS), own_sources=tuple(names["own_sources"])
        )
        posterior = Posterior(
            num_sites=tuple(len(values) for values in vocabulary.names), peak_scale=names["peak_scale"], **arrays
        )
        return MemoryModelState(
            item_scale=names["item_scale"],
            vocabulary=vocabulary,
            posterior=posterior,
            stranger_shift=names["stranger_shift"],
            interval_factors=tuple(names["interval_factors"]),
            recalibration=tuple(names["recalibration"]),
            trees=trees,
        )
    except (OSError, ValueError, KeyError, TypeError, EOFError, zipfile.BadZipFile) as error:
        raise ModelDirectoryError(f"{directory}: the memory model cannot be read ({error}); train it again") from error


def _check_version(names: dict[str, object], directory: Path) -> None:
    if names.get("format") != FORMAT or names.get("items") != list(ITEM_NAMES):
        raise ModelDirectoryError(f"{directory}: the memory model is of another version; train it again")
