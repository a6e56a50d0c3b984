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
from surrogate.features.levels import SiteLevels
from surrogate.features.workload import PreparedRuns

_OTHER_DEVICE = 2.0
"""Distance added between accelerator families: as much as a factor of 7 in one size."""


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
    Euclidean distance of the knobs, plus 2 where the accelerator differs.
    """
    accelerator = np.asarray(prepared.hardware.accelerator, dtype=object)
    found = []
    for start in range(0, len(knobs), 2048):
        rows = slice(start, start + 2048)
        distance = np.sqrt(squared_distances(knobs[rows], evidence.knobs))
        distance += _OTHER_DEVICE * (accelerator[rows][:, None] != evidence.accelerator[None, :])
        nearest = np.argsort(distance, axis=1, kind="stable")[:, :k]
        found += [
            [_as_dict(evidence, int(i), float(d[i])) for i in row] for row, d in zip(nearest, distance, strict=True)
        ]
    return found


def _as_dict(evidence: Evidence, row: int, distance: float) -> dict[str, Any]:
    return {
        "run_id": str(evidence.run_id[row]),
        "source": str(evidence.source[row]),
        "distance": distance,
        "measured_step_time_s": float(evidence.measured_step_time_s[row]),
        "predicted_step_time_s": float(evidence.predicted_step_time_s[row]),
    }
