"""Baselines on rows whose utilisation is known."""

from __future__ import annotations

import numpy as np
import pytest

from surrogate.analytic.coefficients import LOG_SD, LOG_TEXTBOOK
from surrogate.evaluation.analytic_baseline import CalibratedAnalytic, TextbookAnalytic
from surrogate.evaluation.baselines import ConstantMfu, NearestOwnMfu, roofline_step_time_s
from surrogate.evaluation.choice import choose_informative, nearest_rows
from surrogate.evaluation.tree_baselines import TreesOnKnobs


def test_roofline_times_mfu_is_the_definition_of_mfu(runs):
    mfu = roofline_step_time_s(runs) / runs["measured_step_time_s"]
    np.testing.assert_allclose(mfu, runs["mfu_computed"], rtol=1e-9)


def test_constant_mfu_takes_the_median_of_the_precision(runs):
    model = ConstantMfu().fit(runs)
    expected = runs.loc[runs["precision"] == "fp16", "mfu_computed"].median()
    fp16 = runs[runs["precision"] == "fp16"]
    np.testing.assert_allclose(model.predict_frame(fp16)["step_time_s"], roofline_step_time_s(fp16) / expected)
    unknown = fp16.assign(precision="fp8")
    np.testing.assert_allclose(
        model.predict_frame(unknown)["step_time_s"], roofline_step_time_s(fp16) / runs["mfu_computed"].median()
    )


def test_nearest_own_run_lends_its_mfu(runs):
    own = runs[runs["source"] == "tpu-24"]
    model = NearestOwnMfu().fit(own)
    np.testing.assert_allclose(model.predict_frame(own)["step_time_s"], own["measured_step_time_s"], rtol=1e-9)
    assert model.predict_frame(runs[runs["source"] == "early"])["step_time_s"].isna().all()


def test_a_sister_release_lends_only_where_there_is_no_own_run(runs):
    old, new = (runs[runs["source"] == name] for name in ("mosaic-2023", "mosaic-2024"))
    model = NearestOwnMfu().fit(old)
    assert model.predict_frame(new)["step_time_s"].notna().all()
    informed = model.condition(new.iloc[:1])
    lent = roofline_step_time_s(new) / new["mfu_computed"].iloc[0]
    np.testing.assert_allclose(informed.predict_frame(new)["step_time_s"], lent)


def test_calibration_brings_the_textbook_nearer_and_repeats_itself(runs):
    measured = runs["measured_step_time_s"]
    errors = [
        np.abs(np.log(method.fit(runs).predict_frame(runs)["step_time_s"] / measured)).mean()
        for method in (TextbookAnalytic(), CalibratedAnalytic(), CalibratedAnalytic())
    ]
    assert errors[1] == errors[2] < 0.8 * errors[0]


def test_coefficients_stay_near_the_textbook_whatever_the_runs_say(runs):
    absurd = runs.assign(measured_step_time_s=runs["measured_step_time_s"] * 1e4)
    shift = CalibratedAnalytic().fit(absurd).log_coefficients_ - LOG_TEXTBOOK
    assert np.abs(shift / LOG_SD).max() <= 3.0 + 1e-9


@pytest.mark.parametrize("over_roofline", [False, True])
def test_trees_learn_the_table_and_repeat_themselves(runs, over_roofline):
    models = [TreesOnKnobs(over_roofline=over_roofline, random_state=1).fit(runs) for _ in range(2)]
    predicted = [model.predict_frame(runs)["step_time_s"].to_numpy() for model in models]
    np.testing.assert_array_equal(*predicted)
    assert np.median(np.abs(predicted[0] / runs["measured_step_time_s"] - 1)) < 0.1


def test_trees_predict_unheard_of_names(runs):
    model = TreesOnKnobs(over_roofline=True).fit(runs[runs["accelerator"] != "TPUv5p"])
    assert model.predict_frame(runs)["step_time_s"].gt(0).all()


def test_nearest_rows_by_hand(runs):
    three = runs.iloc[[0, 0, 0]].assign(seq_len=[1024, 2048, 32768])
    assert nearest_rows(three, three, forbidden=np.eye(3, dtype=bool)).tolist() == [1, 0, 1]
    assert nearest_rows(three[:1], three, forbidden=np.ones((1, 3), dtype=bool)).tolist() == [-1]


def test_another_device_is_farther_than_a_sequence_four_times_as_long(runs):
    own, others = runs.iloc[[0]], runs.iloc[[0, 0]]
    device = "H100-80GB" if own["accelerator"].item() != "H100-80GB" else "A100-80GB"
    others = others.assign(seq_len=own["seq_len"].item() * np.array([1, 4]), accelerator=[device, *own["accelerator"]])
    assert nearest_rows(own, others).tolist() == [1]


def test_informative_choice_starts_in_the_middle_and_spreads():
    line = np.linspace(-10, 10, 21)[:, None]
    chosen = choose_informative(line, line, 3)
    assert abs(line[chosen[0], 0]) <= 4
    assert np.ptp(line[chosen, 0]) >= 8
    assert len(set(chosen.tolist())) == 3


def test_no_more_is_chosen_than_there_is():
    assert len(choose_informative(np.zeros((2, 3)), np.zeros((5, 3)), 10)) == 2
