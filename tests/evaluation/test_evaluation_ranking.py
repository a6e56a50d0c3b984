"""Rankings within groups of layouts, by hand."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy.stats import spearmanr

from surrogate.evaluation.ranking import group_rankings, ranking_keys, ranking_scores


def predictions(measured, predicted, source="a", group=0, method="m"):
    return pd.DataFrame(
        {
            "method": method,
            "source": source,
            "ranking_group": group,
            "layout": np.arange(len(measured)),
            "measured_step_time_s": np.asarray(measured, float),
            "step_time_s": np.asarray(predicted, float),
        }
    )


def test_regret_is_the_throughput_lost_by_the_predicted_best():
    table = group_rankings(predictions([10, 8, 12, 20], [1.0, 2.0, 3.0, 4.0]), ["method"])
    assert table["regret"].iloc[0] == pytest.approx(1 - 8 / 10)
    assert table["spearman"].iloc[0] == pytest.approx(0.8)


def test_spearman_agrees_with_scipy_with_ties():
    generator = np.random.default_rng(0)
    measured, predicted = generator.uniform(1, 2, 30), generator.integers(1, 9, 30)
    table = group_rankings(predictions(measured, predicted), ["method"])
    assert table["spearman"].iloc[0] == pytest.approx(spearmanr(measured, predicted).statistic)


def test_tied_predictions_share_their_regret_and_rank_nothing():
    tied = np.array([1.0, 1.0 + 1e-13, 1.0, 1.0])
    table = group_rankings(predictions([1, 2, 2, 4], tied), ["method"])
    assert table["regret"].iloc[0] == pytest.approx((0 + 0.5 + 0.5 + 0.75) / 4)
    assert table["spearman"].iloc[0] == 0.0


def test_groups_with_fewer_than_four_layouts_do_not_count():
    few = predictions([1, 2, 3, 4], [1, 2, 3, 4]).assign(layout=[0, 0, 1, 2])
    assert group_rankings(few, ["method"]).empty


def test_regret_is_averaged_over_sources_with_equal_weight():
    table = pd.concat(
        [predictions([1, 2, 4, 4], [2, 1, 3, 4], "a", group) for group in range(3)]
        + [predictions([1, 2, 4, 4], [1, 2, 3, 4], "b", 9)]
    )
    scores = ranking_scores(table, ["method"], over=["method"]).iloc[0]
    assert scores["regret"] == pytest.approx((0.5 + 0.0) / 2)
    assert scores["group_regret"] == pytest.approx(3 * 0.5 / 4)
    assert (scores["groups"], scores["sources"]) == (4, 2)


def test_keys_take_missing_values_for_equal(runs):
    keys = ranking_keys(runs)
    assert keys["ranking_group"].nunique() == 18
    assert keys.groupby("ranking_group")["layout"].nunique().ge(4).all()
