"""The paired bootstrap over families."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from surrogate.evaluation.bootstrap import compare_predictions


def predictions(errors_by_family, repeats=4):
    rows = []
    for family, error in errors_by_family.items():
        for number in range(repeats):
            rows.append((f"{family}{number}", 0, family, family, 1.0, 1.0 + error * (-1) ** number))
    columns = ["run_id", "draw", "source", "publisher_family", "measured_step_time_s", "step_time_s"]
    return pd.DataFrame(rows, columns=columns)


FAMILIES = [f"f{n}" for n in range(12)]


def verdicts(own, other):
    return {c.figure: c.verdict for c in compare_predictions(own, other)}


def test_smaller_errors_everywhere_are_better_and_the_reverse_worse():
    small, large = (predictions(dict.fromkeys(FAMILIES, e)) for e in (0.05, 0.2))
    assert set(verdicts(small, large).values()) == {"better"}
    assert set(verdicts(large, small).values()) == {"worse"}


def test_one_family_alone_proves_nothing():
    own = predictions(dict.fromkeys(FAMILIES, 0.1) | {"f0": 0.9})
    other = predictions(dict.fromkeys(FAMILIES, 0.1))
    assert set(verdicts(own, other).values()) == {"not worse"}


def test_differences_are_those_of_the_averages():
    own, other = predictions({"a": 0.1, "b": 0.3}), predictions({"a": 0.2, "b": 0.2})
    by_figure = {c.figure: c for c in compare_predictions(own, other)}
    assert by_figure["source_mape"].difference == pytest.approx(0.0, abs=1e-12)
    assert by_figure["source_mape"].baseline_value == pytest.approx(0.2)
    assert by_figure["mape"].figure_value == pytest.approx(0.2)
    assert by_figure["source_mape"].lower == pytest.approx(-0.1)
    assert by_figure["source_mape"].upper == pytest.approx(0.1)


def test_only_rows_that_both_predict_are_compared():
    own, other = predictions({"a": 0.1, "b": 0.1}), predictions({"a": 0.2, "b": 0.9})
    other.loc[other["source"] == "b", "step_time_s"] = np.nan
    comparison = compare_predictions(own, other)[0]
    assert (comparison.rows, comparison.families) == (4, 1)
    assert comparison.baseline_value == pytest.approx(0.2)
    assert compare_predictions(own, other.assign(step_time_s=np.nan)) == []


def test_a_source_of_two_families_counts_as_one_source():
    own = predictions({"a": 0.1, "b": 0.3, "c": 0.5}).assign(source=lambda t: t["source"].replace("b", "a"))
    other = own.assign(step_time_s=1.0)
    by_figure = {c.figure: c for c in compare_predictions(own, other)}
    assert by_figure["source_mape"].figure_value == pytest.approx((0.2 + 0.5) / 2)


def test_the_same_seed_gives_the_same_interval():
    own, other = predictions(dict.fromkeys(FAMILIES, 0.1)), predictions({f: 0.02 * n for n, f in enumerate(FAMILIES)})
    assert compare_predictions(own, other, random_state=3) == compare_predictions(own, other, random_state=3)
    assert compare_predictions(own, other, random_state=3) != compare_predictions(own, other, random_state=4)
