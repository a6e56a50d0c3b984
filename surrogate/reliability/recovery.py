"""How long recovery takes where the user does not say: published times, and the named defaults built on them."""

from __future__ import annotations

import csv
from functools import lru_cache
from importlib.resources import files
from typing import Final

import numpy as np
from numpy.typing import ArrayLike

from surrogate.reliability.arrays import FloatArray, real
from surrogate.units import GIGA, HOURS_PER_DAY, SECONDS_PER_HOUR

DETECTION_S: Final = 60.0
"""Explicit faults on an instrumented cluster (arXiv:2509.16293 sec. 2.2); a collective timeout takes 600 s or more."""
STORAGE_WRITE_BYTES_PER_S: Final = 40.0 * GIGA
"""Reached by save bursts of 504 accelerators, 16 % of the storage's maximum (arXiv:2605.09370 abstract)."""
STORAGE_READ_BYTES_PER_S: Final = 150.0 * GIGA
"""Reached by restart loads of 504 accelerators, 21.5 % of the maximum (arXiv:2605.09370 abstract)."""
HOST_LINK_BYTES_PER_S: Final = 30.0 * GIGA
"""PCIe from device to host memory (arXiv:2509.16293 Table 8)."""
NODE_NETWORK_BYTES_PER_S: Final = 50.0 * GIGA
"""One 400 Gbit/s interface of a node, where a plan does not say what its network carries."""
BARRIER_S: Final = 0.5
"""Stall of a 1.5e9-parameter snapshot to shared memory (DLRover docs/blogs/megatron_flash_checkpoint.md)."""
NODE_REPAIR_S: Final = HOURS_PER_DAY * SECONDS_PER_HOUR
"""One day until a broken node is replaced: the window behind ByteRobust's spare counts (inferred), and close to the
20 h median repair of the InfiniteHBD trace, whose mean is 133 h."""


@lru_cache(maxsize=1)
def published_recovery_times() -> tuple[dict[str, str], ...]:
    """Return the rows of the table of published recovery times with their citations."""
    text = files("surrogate.reliability").joinpath("data/recovery_times.csv").read_text(encoding="utf-8")
    return tuple(csv.DictReader(text.splitlines()))


def published_restart_s(*, num_gpus: ArrayLike, phase: str = "requeue") -> FloatArray:
    """Return the published time to restart a job of some size.

    Parameters
    ----------
    num_gpus : array_like, shape (n,)
        Accelerators in the job.
    phase : {"requeue", "hot_update", "group_init"}
        Schedule the job again, restart processes in place, or only build the communication groups.

    Returns
    -------
    ndarray, shape (n,)
        Seconds, interpolated over the logarithm of the size and held constant outside 2,048 to 16,384.

    Examples
    --------
    >>> published_restart_s(num_gpus=[512, 4096]).tolist()
    [454.0, 545.0]
    """
    rows = [row for row in published_recovery_times() if row["phase"] == phase]
    sizes = np.log([float(row["num_gpus"]) for row in rows])
    seconds = np.array([float(row["seconds"]) for row in rows])
    restart: FloatArray = np.interp(np.log(real("num_gpus", num_gpus, strict=True)), sizes, seconds)
    return restart
