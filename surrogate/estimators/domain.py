"""When a prediction leaves what was measured, and why."""

from __future__ import annotations

import numpy as np

from surrogate.analytic.workload import FloatArray
from surrogate.features.workload import PreparedRuns

FAR_SIMILARITY = 0.6
"""Kernel similarity to the nearest measured run below which a configuration counts as far: about 5 in knob space,
a factor of e in five sizes at once, or of 150 in one."""


def domain_reasons(
    prepared: PreparedRuns,
    similarity: FloatArray,
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
    for row in np.flatnonzero(far):
        reasons[row].append(f"far from every measured run (similarity {similarity[row]:.2f})")
    return reasons
