"""How sure it is that one layout beats the next: the covariance between the two, and measured pairs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.special import ndtr

from surrogate.estimators.design import posterior_covariance
from surrogate.estimators.hybrid import prepare_table
from surrogate.evaluation.ranking import ranking_keys
from surrogate.search.comparison import compare_neighbours, log_difference_sds
from surrogate.search.pair_calibration import EDGES, log_loss, measured_pairs, reliability

RUNS = Path(__file__).parents[2] / "data" / "runs.parquet"
MEASURED_ROWS = 160
"""As the fitted predictor of these tests saw: the others are out of its sample."""
GROUPS_STEP = 4
"""One in four sweeps is enough."""
UNEXPLAINED = np.sqrt(2.0) * 0.02


@pytest.fixture(scope="module")
def unseen() -> pd.DataFrame:
    from surrogate.derive import load_runs

    runs = load_runs(RUNS)
    seen = np.random.default_rng(0).choice(len(runs), MEASURED_ROWS, replace=False)
    rest = runs.drop(index=runs.index[seen])
    return rest[rest["measured_step_time_s"].notna()].reset_index(drop=True)


@pytest.fixture(scope="module")
def pairs(small_predictor, unseen: pd.DataFrame) -> pd.DataFrame:  # type: ignore[no-untyped-def]
    some = ranking_keys(unseen)["ranking_group"] % GROUPS_STEP == 0
    return measured_pairs(small_predictor.step_time, unseen[some].reset_index(drop=True))


@pytest.fixture(scope="module")
def layouts(unseen: pd.DataFrame) -> pd.DataFrame:
    """Layouts of one sweep as a stranger would ask for them."""
    sweep = unseen[unseen["source"].str.contains("vtrain") & (unseen["num_gpus"] == 8)].head(6)
    nobody = pd.Series(pd.NA, index=sweep.index, dtype="str")
    return sweep.assign(source=nobody, publisher_family=nobody).reset_index(drop=True)


def test_it_is_the_spread_of_the_difference(small_predictor, unseen: pd.DataFrame) -> None:  # type: ignore[no-untyped-def]
    """Drawn from the joint posterior of rows at a known site, differences spread as said, before widening."""
    hybrid = small_predictor.step_time
    known = unseen[unseen["source"].isin(set(hybrid.evidence_.source))].head(5).reset_index(drop=True)
    covariance = posterior_covariance(hybrid.effects_, prepare_table(known))
    draws = np.random.default_rng(0).multivariate_normal(np.zeros(5), covariance, 200_000, method="eigh")
    said = log_difference_sds(known, hybrid)
    drawn = np.diff(draws, axis=1).std(axis=0)
    widening = np.sqrt(said**2 - UNEXPLAINED**2) / drawn
    assert (widening >= 0.99).all()
    np.testing.assert_allclose(widening, widening[0], rtol=0.02)


def test_what_layouts_share_cancels(small_predictor, layouts: pd.DataFrame) -> None:  # type: ignore[no-untyped-def]
    hybrid = small_predictor.step_time
    alone = hybrid.predict_log(layouts).log_sd
    assert (log_difference_sds(layouts, hybrid) < 0.9 * np.hypot(alone[1:], alone[:-1])).all()


def test_a_name_for_the_site_changes_nothing(small_predictor, layouts: pd.DataFrame) -> None:  # type: ignore[no-untyped-def]
    hybrid = small_predictor.step_time
    mine = layouts.assign(source="mine", publisher_family="mine")
    np.testing.assert_allclose(log_difference_sds(mine, hybrid), log_difference_sds(layouts, hybrid))


def test_different_devices_differ_by_more(small_predictor, layouts: pd.DataFrame) -> None:  # type: ignore[no-untyped-def]
    hybrid = small_predictor.step_time
    twins = layouts.iloc[[0, 0]].reset_index(drop=True)
    moved = twins.assign(accelerator=["A100-80GB", "H100-80GB"])
    assert log_difference_sds(twins, hybrid)[0] == pytest.approx(UNEXPLAINED)
    assert log_difference_sds(moved, hybrid)[0] > 2.0 * UNEXPLAINED


def test_measuring_both_makes_it_surer(small_predictor, layouts: pd.DataFrame) -> None:  # type: ignore[no-untyped-def]
    hybrid = small_predictor.step_time
    mine = layouts.assign(source="mine", publisher_family="mine", quality="a")
    told = hybrid.condition(mine.assign(measured_step_time_s=hybrid.predict(mine)))
    before, after = log_difference_sds(mine, hybrid), log_difference_sds(mine, told)
    assert (after <= before * 1.2).all()
    assert after.mean() < 0.8 * before.mean()


def test_turning_a_pair_around_turns_the_probability(small_predictor, layouts: pd.DataFrame) -> None:  # type: ignore[no-untyped-def]
    predicted = small_predictor.predict_frame(layouts)
    (there, *_) = compare_neighbours(layouts.head(2), predicted.head(2), small_predictor.step_time)
    back = slice(1, None, -1)
    (again,) = compare_neighbours(layouts.iloc[back], predicted.iloc[back], small_predictor.step_time)
    assert there.probability_faster + again.probability_faster == pytest.approx(1.0)


def test_it_is_right_about_measured_pairs_it_never_saw(pairs: pd.DataFrame) -> None:
    """Few runs were learned from, so little is said; what is said must hold, and more of it be more often true."""
    assert len(pairs) > 80
    table = reliability(pairs)
    assert (table["was"] > table["said"] - 0.1).all(), table
    assert table["was"].corr(table["said"], method="spearman") > 0.8
    assert log_loss(pairs) < 0.9 * np.log(2.0)
    inside = (np.abs(pairs["measured"] - pairs["predicted"]) <= 1.645 * pairs["sd"]).mean()
    assert 0.8 < inside < 0.98


def test_scores_by_hand() -> None:
    table = pd.DataFrame({"probability": [0.55, 0.95, 0.95], "measured": [0.1, 0.2, -0.1]})
    assert log_loss(table) == pytest.approx(-np.log([0.55, 0.95, 0.05]).mean())
    assert reliability(table)[["was", "pairs"]].to_numpy().tolist() == [[1.0, 1], [0.5, 2]]
    assert EDGES[0] == 0.5


def test_independent_errors_would_say_too_little(pairs: pd.DataFrame, small_predictor, unseen: pd.DataFrame) -> None:  # type: ignore[no-untyped-def]
    """What layouts share cancels in the joint posterior; separate intervals would leave pairs nearer to even odds."""
    hybrid = small_predictor.step_time
    separate = np.sqrt(2.0) * np.mean(hybrid.half_width(hybrid.predict_log(unseen), 0.9)) / 1.645
    naive = pairs.assign(probability=ndtr(pairs["predicted"] / separate))
    assert pairs["probability"].mean() > naive["probability"].mean() + 0.02
