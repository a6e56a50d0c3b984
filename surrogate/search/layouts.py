"""All layouts of a space as points, so that any proposal can be moved to the nearest one that exists."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import cKDTree

from surrogate.analytic.workload import FloatArray, IntArray
from surrogate.errors import InputError
from surrogate.plan.values import Value
from surrogate.search.domains import LAYOUT_COLUMNS, Domain
from surrogate.search.enumeration import CodeBlock, block_length, candidate_blocks
from surrogate.search.evaluation import join, take
from surrogate.search.space import SearchSpace

MAX_LAYOUTS: Final = 4_000_000
"""More points than this are not held."""
_OTHER_TEXT: Final = 2.0
"""Distance between two texts: two doublings of a size."""
_NEIGHBOURS: Final = 16


class LayoutTable:
    """The layouts of a space.

    Parameters
    ----------
    space : SearchSpace
        The space; settings inside a layout are left out.

    Attributes
    ----------
    codes : dict of ndarray of shape (n,)
        Layouts, in the order of enumeration.
    is_taken : ndarray of bool, shape (n,)
        Layouts that are not to be proposed again.

    Raises
    ------
    InputError
        If there are more than `MAX_LAYOUTS`.
    """

    def __init__(self, space: SearchSpace) -> None:
        self.space = space
        self.columns = space.open_layout_columns
        blocks, count = [], 0
        for block in candidate_blocks(space, columns=LAYOUT_COLUMNS):
            blocks.append(block)
            count += block_length(block)
            if count > MAX_LAYOUTS:
                way_out = "fix a column of the plan, or --require less"
                raise InputError(space.plan.name, f"must have at most {MAX_LAYOUTS} layouts", count, way_out)
        self.codes = join(blocks)
        self.is_taken = np.zeros(count, dtype=np.bool_)
        self._scales = {name: _scale(space.domains[name]) for name in self.columns}
        self._tree = cKDTree(self._points()) if self.columns else None
        self._row_of = {key: row for row, key in enumerate(self._keys())}

    def __len__(self) -> int:
        return len(self.is_taken)

    @property
    def free(self) -> IntArray:
        """Layouts not taken yet."""
        return np.flatnonzero(~self.is_taken)

    def values(self, row: int) -> dict[str, Value]:
        """Return one layout's open columns."""
        return {name: self.space.domains[name].values[self.codes[name][row]] for name in self.columns}

    def row(self, values: Mapping[str, Any]) -> int | None:
        """Return the layout with these values, or None if there is no such layout."""
        try:
            key = tuple(self.space.domains[name].values.index(values[name]) for name in self.columns)
        except (KeyError, ValueError):
            return None
        return self._row_of.get(key)

    def at(self, rows: IntArray) -> CodeBlock:
        """Return the codes of some layouts."""
        return take(self.codes, rows)

    def nearest_free(self, values: Mapping[str, Any]) -> int | None:
        """Return the nearest layout that is not taken, or None if all are.

        Parameters
        ----------
        values : Mapping
            Values of the open columns; numbers need not be in the domain.
        """
        if self.is_taken.all():
            return None
        if self._tree is None:
            return 0
        point = np.array([self._coordinate(name, values[name]) for name in self.columns])
        count = min(_NEIGHBOURS, len(self))
        while True:
            rows = np.atleast_1d(self._tree.query(point, k=count)[1])
            free = rows[~self.is_taken[rows]]
            if len(free):
                return int(free[0])
            count = min(8 * count, len(self))

    def _points(self) -> FloatArray:
        return np.column_stack([self._scales[name][self.codes[name]] for name in self.columns])

    def _coordinate(self, name: str, value: Any) -> float:
        domain = self.space.domains[name]
        return _position(float(value)) if domain.is_ordered else float(self._scales[name][domain.values.index(value)])

    def _keys(self) -> list[tuple[int, ...]]:
        if not self.columns:
            return [()]
        stacked: NDArray[np.int16] = np.column_stack([self.codes[name] for name in self.columns])
        return list(map(tuple, stacked.tolist()))


def _scale(domain: Domain) -> FloatArray:
    """Return a coordinate per value: doublings of numbers, fixed steps between texts."""
    if domain.is_ordered:
        return np.array([_position(float(value)) for value in domain.array])
    return _OTHER_TEXT * np.arange(len(domain), dtype=np.float64)


def _position(value: float) -> float:
    return float(np.log2(1.0 + value))
