"""When a prediction leaves what was measured, and why."""

from __future__ import annotations

import numpy as np

from surrogate.analytic.workload import FloatArray
from surrogate.features.knobs import KNOBS
from surrogate.features.workload import PreparedRuns

FAR_SIMILARITY = 0.6
"""Kernel similarity to the nearest measured run below which a configuration counts as far: about 5 as knobs count
between publishers, a factor of e in 25 sizes at once, or of 150 in one."""
_BOUNDED_SIZES = (
    "num_layers",
    "hidden_size",
    "seq_len",
    "micro_batch_size",
    "tp",
    "pp",
    "cp",
    "ep",
    "num_gpus",
)
"""Knobs whose measured range is a limit of what is known."""
_ROUNDING = 1e-6


def domain_reasons(
    prepared: PreparedRuns,
    similarity: FloatArray,
    knobs: FloatArray,
    measured_knobs: FloatArray,
    categories: dict[str, list[str]],
) -> list[list[str]]:
    """Return why each row is out of domain; empty lists where it is not.

    That nobody measured at its site is the normal case of a plan and no reason.

    Parameters
    ----------
    prepared : PreparedRuns
        n rows.
    similarity : ndarray, shape (n,)
        To the nearest measured run.
    knobs : ndarray, shape (n, d)
        Of the rows, as `surrogate.features.knobs.KNOBS`.
    measured_knobs : ndarray, shape (m, d)
        Of all measured runs.
    categories : dict
        Texts seen in training, by column.
    """
    accelerator = np.asarray(prepared.hardware.accelerator, dtype=object)
    stack = np.asarray(prepared.stack.stack, dtype=object)
    new_device = ~np.isin(accelerator, categories["accelerator"])
    new_stack = ~np.isin(stack, categories["stack"])
    far = similarity < FAR_SIMILARITY
    reasons: list[list[str]] = [[] for _ in range(len(prepared))]
    for row in np.flatnonzero(new_device):
        reasons[row].append(f"no measured run on {accelerator[row]}")
    for row in np.flatnonzero(new_stack):
        reasons[row].append(f"no measured run of the stack {stack[row]}")
    _add_unmeasured_sizes(reasons, knobs, measured_knobs)
    for row in np.flatnonzero(far):
        reasons[row].append(f"far from every measured run (similarity {similarity[row]:.2f})")
    return reasons


def _add_unmeasured_sizes(reasons: list[list[str]], knobs: FloatArray, measured_knobs: FloatArray) -> None:
    """Name the sizes beyond those of all measured runs; knobs are their logarithms."""
    for name in _BOUNDED_SIZES:
        values = knobs[:, KNOBS.index(name)]
        low, high = measured_knobs[:, KNOBS.index(name)].min(), measured_knobs[:, KNOBS.index(name)].max()
        for row in np.flatnonzero((values < low - _ROUNDING) | (values > high + _ROUNDING)):
            size, least, most = np.exp([values[row], low, high])
            reasons[row].append(f"{name} {size:,.0f} is beyond the measured runs ({least:,.0f} to {most:,.0f})")
