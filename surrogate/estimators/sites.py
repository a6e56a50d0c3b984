"""Which rows share a site: stack, accelerator family, shape of the experts, publisher family and release."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from surrogate.features.levels import UNKNOWN, SiteLevels

LEVELS: Final = ("stack", "accelerator_family", "expert_shape", "publisher_family", "release")
PUBLISHER_LEVELS: Final = ("publisher_family", "release")
"""The levels of which `publisher_width` widens the variance."""


def same_names(names: NDArray[np.object_], others: NDArray[np.object_]) -> NDArray[np.bool_]:
    """Return which pairs of names are equal and not empty, shape (n, m)."""
    if len(names) == 1:
        known = names[0] != UNKNOWN
        return np.asarray((others == names[0]) & known, dtype=np.bool_)[None, :]
    codes = pd.factorize(np.concatenate([[UNKNOWN], names, others]))[0]
    first, second = codes[1 : len(names) + 1, None], codes[None, len(names) + 1 :]
    same: NDArray[np.bool_] = (first == second) & (first != codes[0])
    return same


def blocks_of_equal_names(
    names: NDArray[np.object_], others: NDArray[np.object_]
) -> Iterator[tuple[NDArray[np.int64], ...]]:
    """Yield for each name that both have the rows and columns of an (n, m) matrix that share it, as an index."""
    codes, distinct = pd.factorize(np.concatenate([names, others]))
    rows, columns = codes[: len(names)], codes[len(names) :]
    for code in np.intersect1d(rows, columns):
        if distinct[code] != UNKNOWN:
            yield np.flatnonzero(rows == code)[:, None], np.flatnonzero(columns == code)[None, :]


def is_among(names: NDArray[np.object_], known: NDArray[np.object_]) -> NDArray[np.bool_]:
    """Return which names occur among the known ones and are not empty, shape (m,)."""
    codes, distinct = pd.factorize(names)
    occurs = set(known) - {UNKNOWN}
    return np.array([name in occurs for name in distinct], dtype=np.bool_)[codes]


def distinct_sites(levels: SiteLevels) -> list[tuple[NDArray[np.int64], SiteLevels]]:
    """Return the rows of each distinct site, and the site as one row."""
    codes = np.zeros(len(levels), dtype=np.int64)
    for name in (*LEVELS, "year"):
        of_level, distinct = pd.factorize(getattr(levels, name))
        codes = pd.factorize(codes * len(distinct) + of_level)[0]
    order = np.argsort(codes, kind="stable")
    groups = np.split(order, np.flatnonzero(np.diff(codes[order])) + 1)
    return [(rows, levels.take(rows[:1])) for rows in groups]
