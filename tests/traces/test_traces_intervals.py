"""Interval sets against a count of covered cells."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from surrogate.traces.intervals import clip, overlap_length, union

spans = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 20)), max_size=12)


def _covered(pairs):
    return {cell for start, length in pairs for cell in range(start, start + length)}


def _union(pairs):
    start = np.array([pair[0] for pair in pairs], np.int64)
    return union(start, start + np.array([pair[1] for pair in pairs], np.int64))


@given(spans)
def test_union_covers_the_same_cells(pairs):
    assert _union(pairs).length == len(_covered(pairs))


@given(spans, spans)
def test_overlap(one, other):
    assert overlap_length(_union(one), _union(other)) == len(_covered(one) & _covered(other))


@given(spans, st.integers(0, 80), st.integers(0, 80))
def test_clip(pairs, low, high):
    inside = {cell for cell in _covered(pairs) if low <= cell < high}
    assert clip(_union(pairs), low, high).length == len(inside)
