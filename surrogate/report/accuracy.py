"""A training's accuracy as files to keep with it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from surrogate.report.accuracy_data import accuracy_data
from surrogate.report.accuracy_images import accuracy_images
from surrogate.report.accuracy_page import accuracy_page

if TYPE_CHECKING:
    from surrogate.api import TrainResult


def accuracy_artifacts(result: TrainResult) -> dict[str, str | bytes]:
    """Return pictures and one interactive page by path; nothing when the training was not evaluated."""
    data = accuracy_data(result)
    if data is None:
        return {}
    page = accuracy_page(data, f"Accuracy of {result.manifest.name}, out of sample")
    return {**accuracy_images(data), "plots/accuracy.html": page}
