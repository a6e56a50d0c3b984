"""The measured runs behind a prediction: which are nearest, how they differ, how well they are predicted."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from surrogate.analytic.workload import FloatArray
from surrogate.estimators.kernels import squared_distances
from surrogate.features.columns import texts
from surrogate.features.knobs import OTHER_DEVICE
from surrogate.features.levels import SiteLevels
from surrogate.features.workload import PreparedRuns

_BLOCK_ROWS = 512
"""Rows whose distances to a few thousand runs are held at once."""
_SHOWN = ("run_id", "source", "measured_step_time_s", "predicted_step_time_s")


@dataclass(frozen=True, kw_only=True, slots=True)
class Evidence:
    """n measured runs."""

    run_id: NDArray[np.object_]
    source: NDArray[np.object_]
    accelerator: NDArray[np.object_]
    publisher_family: NDArray[np.object_]
    knobs: FloatArray
    measured_step_time_s: FloatArray
    predicted_step_time_s: FloatArray
    """As predicted without the run: without its split group, or before own runs were added."""

    def __len__(self) -> int:
        return len(self.run_id)

    def joined(self, other: Evidence) -> Evidence:
        """Return the runs of both."""
        names = [field.name for field in fields(self)]
        return Evidence(**{name: np.concatenate([getattr(self, name), getattr(other, name)]) for name in names})


def measured_evidence(
    runs: pd.DataFrame, levels: SiteLevels, knobs: FloatArray, log_time: FloatArray, predicted_log_time: FloatArray
) -> Evidence:
    """Return measured rows as evidence."""
    return Evidence(
        run_id=np.asarray(texts(runs, "run_id"), dtype=object),
        source=np.asarray(texts(runs, "source"), dtype=object),
        accelerator=np.asarray(texts(runs, "accelerator"), dtype=object),
        publisher_family=levels.publisher_family,
        knobs=knobs,
        measured_step_time_s=np.exp(log_time),
        predicted_step_time_s=np.exp(predicted_log_time),
    )


def nearest_evidence(
    evidence: Evidence, knobs: FloatArray, prepared: PreparedRuns, k: int
) -> list[list[dict[str, Any]]]:
    """Return the k nearest measured runs of each row, nearest first.

    Notes
    -----
    Euclidean distance of the knobs, plus 2 where the accelerator differs. Squared distances by one matrix product in
    single precision choose twice k candidates; differences of their knobs then give distances without cancellation, so
    that a run that was measured lies at exactly 0.
    """
    names, devices = _shared_codes(prepared.hardware.accelerator, evidence.accelerator)
    columns = [getattr(evidence, name).tolist() for name in _SHOWN]
    found: list[list[dict[str, Any]]] = []
    for start in range(0, len(knobs), _BLOCK_ROWS):
        rows = slice(start, start + _BLOCK_ROWS)
        nearest, distance = _nearest(knobs[rows], names[rows], evidence.knobs, devices, k)
        found += [
            [_as_dict(columns, i, d) for i, d in zip(*of_row, strict=True)]
            for of_row in zip(nearest.tolist(), distance.tolist(), strict=True)
        ]
    return found


def _nearest(
    knobs: FloatArray, names: NDArray[np.int64], known: FloatArray, devices: NDArray[np.int64], k: int
) -> tuple[NDArray[np.int64], FloatArray]:
    """Return positions and distances of the k nearest known runs per row, the first of equal ones, shape (n, k)."""
    centre = known.mean(axis=0)
    distance = squared_distances((knobs - centre).astype(np.float32), (known - centre).astype(np.float32))
    np.sqrt(distance, out=distance)
    distance += np.float32(OTHER_DEVICE) * (names[:, None] != devices[None, :])
    few = min(2 * k, len(known))
    candidates = np.sort(np.argpartition(distance, few - 1, axis=1)[:, :few], axis=1)
    exact = np.sqrt(((knobs[:, None, :] - known[candidates]) ** 2).sum(axis=2))
    exact += OTHER_DEVICE * (names[:, None] != devices[candidates])
    order = np.argsort(exact, axis=1, kind="stable")[:, :k]
    return np.take_along_axis(candidates, order, axis=1), np.take_along_axis(exact, order, axis=1)


def _shared_codes(one: pd.Categorical, other: NDArray[np.object_]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return numbers that are equal where names are, for both."""
    codes = pd.factorize(np.concatenate([np.asarray(one, dtype=object), other]))[0]
    return codes[: len(one)], codes[len(one) :]


def _as_dict(columns: list[list[Any]], row: int, distance: float) -> dict[str, Any]:
    run_id, source, measured, predicted = (column[row] for column in columns)
    return {
        "run_id": run_id,
        "source": source,
        "distance": distance,
        "measured_step_time_s": measured,
        "predicted_step_time_s": predicted,
    }
