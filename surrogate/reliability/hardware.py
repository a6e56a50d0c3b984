"""How many parts of each kind a job runs on: what failure rates are multiplied by.

Notation: a *unit* is what a component's rate is counted per (a GPU, a network interface, a switch or a node).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import ArrayLike

from surrogate.reliability.arrays import FloatArray, real

UNIT_OF_COMPONENT: Final[dict[str, str]] = {
    "gpu": "gpu",
    "hbm": "gpu",
    "nvlink": "gpu",
    "sdc": "gpu",
    "nic": "nic",
    "switch": "switch",
    "host": "node",
    "storage": "node",
    "power_cooling": "node",
    "software": "node",
    "unknown": "node",
}
"""Every component and the unit its rate is counted per; the order is the column order of all rate tables."""

COMPONENTS: Final = tuple(UNIT_OF_COMPONENT)
NODE_REMOVING_COMPONENTS: Final = ("gpu", "hbm", "nvlink", "nic", "host", "storage", "power_cooling", "unknown")
"""Components whose failure takes the node out for repair; software restarts in place, a switch is another matter."""

SWITCH_RADIX: Final = 64
"""Ports of a common data-centre switch (NVIDIA QM9700: 64 ports of 400 Gbit/s)."""


@dataclass(frozen=True, kw_only=True, slots=True)
class HardwareCounts:
    """Units a job occupies, every array of shape (n,)."""

    gpu: FloatArray
    node: FloatArray
    nic: FloatArray
    switch: FloatArray

    def per_component(self) -> FloatArray:
        """Return the units behind each component, shape (n, number of components)."""
        return np.stack([getattr(self, unit) for unit in UNIT_OF_COMPONENT.values()], axis=-1)


def switch_count(*, num_nics: ArrayLike, radix: int = SWITCH_RADIX) -> FloatArray:
    """Return the switches of the smallest full-bisection fat tree that joins ``num_nics`` ports.

    Parameters
    ----------
    num_nics : array_like, shape (n,)
        Network interfaces in the job.
    radix : int
        Ports per switch.

    Returns
    -------
    ndarray, shape (n,)
        Dimensionless; a fraction of a switch for small jobs that share one.

    Notes
    -----
    A tree of L levels carries 2 (radix/2)^L ports on (2 L - 1) ports / radix switches (M. Al-Fares et al.,
    SIGCOMM 2008, sec. 3, generalised from three levels).

    Examples
    --------
    >>> float(switch_count(num_nics=16384))
    1280.0
    """
    ports = real("num_nics", num_nics)
    half = radix / 2.0
    levels = np.ones_like(ports)
    for level in (1, 2, 3):
        levels = np.where(ports > 2.0 * half**level, level + 1.0, levels)
    return (2.0 * levels - 1.0) * ports / radix


def hardware_counts(
    *, num_gpus: ArrayLike, gpus_per_node: ArrayLike, nics_per_node: ArrayLike | None = None, radix: int = SWITCH_RADIX
) -> HardwareCounts:
    """Count the parts under a job.

    Parameters
    ----------
    num_gpus, gpus_per_node : array_like, shape (n,)
        Accelerators in the job and per node.
    nics_per_node : array_like, shape (n,), optional
        Inter-node network interfaces per node; one per accelerator when absent.
    radix : int
        Ports per switch.

    Returns
    -------
    HardwareCounts
        A job on one node has no switches and no network interfaces in use.

    Raises
    ------
    InputError
        For a count that is not positive.

    Examples
    --------
    >>> counts = hardware_counts(num_gpus=[8, 16384], gpus_per_node=8)
    >>> counts.node.tolist(), counts.switch.tolist()
    ([1.0, 2048.0], [0.0, 1280.0])
    """
    gpus = np.atleast_1d(real("num_gpus", num_gpus, strict=True))
    per_node = real("gpus_per_node", gpus_per_node, strict=True)
    nodes = np.ceil(gpus / per_node)
    nics_of_node = per_node if nics_per_node is None else real("nics_per_node", nics_per_node)
    nics = np.where(nodes > 1.0, nodes * nics_of_node, 0.0)
    return HardwareCounts(gpu=gpus, node=nodes, nic=nics, switch=switch_count(num_nics=nics, radix=radix))
