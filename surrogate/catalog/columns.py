"""The accelerators as arrays, for joins with whole columns of a runs table."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import numpy as np
from numpy.typing import NDArray

from surrogate.catalog.accelerators import accelerator_index, load_accelerators

NUMERIC_FIELDS: Final = (
    "hbm_bytes",
    "hbm_bytes_per_s",
    "fast_link_bytes_per_s",
    "fast_domain_gpus",
    "gpus_per_node",
    "nic_bytes_per_s",
    "host_link_bytes_per_s",
    "sm_count",
    "boost_hz",
    "tdp_w",
)
"""Fields of `Accelerator` that every precision shares; peaks are in `dense_peaks_flops_per_s`."""


def canonical_accelerators(names: Iterable[object]) -> NDArray[np.object_]:
    """Return the canonical name per row, None where the name is missing; each distinct name is resolved once.

    Parameters
    ----------
    names : iterable, shape (n,)
        Names or aliases; what is no text (None, NaN, NA) counts as missing.

    Raises
    ------
    UnknownNameError
        For the first unknown name.
    """
    column = list(names)
    index = accelerator_index()
    canonical = {name: index.resolve(name) if isinstance(name, str) else None for name in set(column)}
    return np.array([canonical[name] for name in column], dtype=object)


def accelerator_columns(names: Iterable[object], fields: Iterable[str]) -> dict[str, NDArray[np.float64]]:
    """Return numeric fields of `Accelerator` per row.

    Parameters
    ----------
    names : iterable, shape (n,)
        Names or aliases; what is no text counts as missing.
    fields : iterable of str
        Numeric fields of `Accelerator`, for example ``["hbm_bytes", "fast_link_bytes_per_s"]``.

    Returns
    -------
    dict of NDArray, shape (n,)
        One array per field, NaN where the name is missing or the catalogue has no value.

    Raises
    ------
    UnknownNameError
        For the first unknown name.
    """
    column = list(names)
    distinct = list(dict.fromkeys(column))
    position = {name: place for place, name in enumerate(distinct)}
    rows = np.fromiter((position[name] for name in column), dtype=np.int64, count=len(column))
    entries = [load_accelerators().get(name) for name in canonical_accelerators(distinct)]
    return {
        field: np.array([getattr(entry, field, None) for entry in entries], dtype=np.float64)[rows] for field in fields
    }


def accelerator_table() -> dict[str, NDArray[np.object_] | NDArray[np.float64]]:
    """Return every accelerator as one row: `name` and `NUMERIC_FIELDS`.

    Examples
    --------
    >>> table = accelerator_table()
    >>> table["hbm_bytes_per_s"][list(table["name"]).index("H100-80GB")].item()
    3350000000000.0
    """
    names = list(load_accelerators())
    return {"name": np.array(names, dtype=object), **accelerator_columns(names, NUMERIC_FIELDS)}
