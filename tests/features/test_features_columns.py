"""Columns as plain arrays: what is missing stays visible."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from surrogate.features.columns import lookup, numbers, texts, years


def test_numbers_keep_missing_cells_as_nan():
    runs = pd.DataFrame({"tp": pd.array([1, None, 4], dtype="Int64"), "flag": pd.array([True, None, False], "boolean")})
    np.testing.assert_array_equal(numbers(runs, "tp"), [1.0, np.nan, 4.0])
    np.testing.assert_array_equal(numbers(runs, "flag"), [1.0, np.nan, 0.0])
    np.testing.assert_array_equal(numbers(runs, "absent"), [np.nan] * 3)


@pytest.mark.parametrize("dtype", ["object", "string", "str", "category"])
def test_texts_of_any_dtype(dtype):
    runs = pd.DataFrame({"stack": pd.Series(["b", None, "a", "b"], dtype=dtype)}).set_axis([5, 5, 2, 0])
    assert list(texts(runs, "stack")) == ["b", "", "a", "b"]
    assert list(texts(runs, "absent")) == [""] * 4


def test_texts_of_a_column_without_any_text():
    assert list(texts(pd.DataFrame({"stack": [np.nan, np.nan]}), "stack")) == ["", ""]
    assert list(texts(pd.DataFrame({"stack": pd.Series([], dtype="str")}), "stack")) == []


def test_texts_that_are_numbers():
    assert list(texts(pd.DataFrame({"source": [7, 8]}), "source").map(str)) == ["7", "8"]


def test_lookup_asks_once_per_distinct_text():
    asked = []

    def length(text: str) -> float:
        asked.append(text)
        return float(len(text))

    runs = pd.DataFrame({"stack": ["aa", "b", "aa", None]})
    np.testing.assert_array_equal(lookup(texts(runs, "stack"), length), [2.0, 1.0, 2.0, 0.0])
    assert sorted(asked) == ["", "aa", "b"]


def test_years_count_months():
    runs = pd.DataFrame({"date": ["2024-01", "2024-07", None, "2024"]})
    assert years(runs, 2030.0) == pytest.approx([2024.0, 2024.5, 2030.0, 2030.0])
    assert years(pd.DataFrame(index=range(2)), 2026.0) == pytest.approx([2026.0, 2026.0])
