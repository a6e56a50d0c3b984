"""Sites: the levels at which measured memory departs from the textbook, and their codes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from surrogate.analytic.workload import BoolArray, FloatArray, IntArray
from surrogate.features.columns import texts
from surrogate.features.stacks import stack_traits

LEVELS: Final[tuple[str, ...]] = ("stack", "publisher_family", "source")
"""From the widest to the narrowest; each has its own shrunk effect on every item."""

UNKNOWN: Final = -1
"""Code of a value that was not seen at fit."""

NOT_SAID: Final = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class MemoryObservations:
    """What a runs table says about memory; every array of shape (n,)."""

    log_peak: FloatArray
    """Log of the published peak in bytes; NaN where none is."""
    kind: NDArray[np.str_]
    """How the peak was measured: allocated, reserved or device."""
    out_of_memory: BoolArray
    group: NDArray[np.str_]
    """Rows that are one configuration: left out together."""
    source: NDArray[np.str_]


def text_column(runs: pd.DataFrame, name: str) -> NDArray[np.str_]:
    """Read one column as text, empty where it is absent or missing (shape (n,))."""
    return np.asarray(texts(runs, name), dtype=str)


def level_column(runs: pd.DataFrame, level: str) -> pd.Categorical:
    """Read the names of one level (n codes); a stack that is not named follows from the framework."""
    return stack_traits(runs).stack if level == "stack" else texts(runs, level)


def read_observations(runs: pd.DataFrame) -> MemoryObservations:
    """Read published peaks and out-of-memory outcomes from a runs table.

    Parameters
    ----------
    runs : DataFrame
        Canonical columns; `peak_memory_bytes`, `peak_memory_kind`, `status`, `split_group` and `source` may be absent.
        An unknown kind is read as reserved, which lies between the two others; an absent status as ok, an absent
        group as a group of its own.
    """
    peaks = pd.to_numeric(runs["peak_memory_bytes"], errors="coerce") if "peak_memory_bytes" in runs else np.nan
    peak_bytes = np.broadcast_to(np.asarray(peaks, dtype=np.float64), len(runs))
    kind = text_column(runs, "peak_memory_kind")
    group = text_column(runs, "split_group")
    alone = np.array([f"row-{row}" for row in range(len(runs))])
    return MemoryObservations(
        log_peak=np.log(np.where(peak_bytes > 0, peak_bytes, np.nan)),
        kind=np.where(kind == NOT_SAID, "reserved", kind),
        out_of_memory=text_column(runs, "status") == "oom",
        group=np.where(group == NOT_SAID, alone, group),
        source=text_column(runs, "source"),
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class SiteVocabulary:
    """The values of each level that were seen at fit."""

    names: tuple[tuple[str, ...], ...]
    own_sources: tuple[str, ...] = ()
    """Sources that were conditioned on; their codes follow those of the fitted sources."""

    @classmethod
    def of(cls, runs: pd.DataFrame) -> SiteVocabulary:
        """Collect the values of every level."""
        seen = (np.unique(np.asarray(level_column(runs, level), dtype=str)) for level in LEVELS)
        return cls(names=tuple(tuple(str(name) for name in names if name != NOT_SAID) for names in seen))

    def codes(self, runs: pd.DataFrame) -> IntArray:
        """Code every row at every level, `UNKNOWN` where unseen (shape (n, num_levels))."""
        columns = []
        for level, names in zip(LEVELS, self.names, strict=True):
            own = self.own_sources if level == "source" else ()
            code = {name: index for index, name in enumerate(names + own)}
            column = level_column(runs, level)
            table = np.array([code.get(str(text), UNKNOWN) for text in column.categories], dtype=np.int64)
            columns.append(table[column.codes] if len(table) else np.full(len(runs), UNKNOWN, dtype=np.int64))
        return np.column_stack(columns)
