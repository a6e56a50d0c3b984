"""The whole way from a table to figures, with methods whose errors are known."""

from __future__ import annotations

import json

import numpy as np
import pytest

from surrogate.errors import InputError
from surrogate.evaluation import METHODS, PROTOCOLS, evaluate


@pytest.fixture(scope="module")
def evaluation(runs, methods):
    return evaluate(runs, methods=methods)


def test_every_protocol_is_answered(evaluation):
    assert list(dict.fromkeys(evaluation.scores["protocol"])) == list(PROTOCOLS)


def test_figures_are_those_of_the_method(evaluation):
    assert evaluation.figure("mape", protocol="random") == pytest.approx(0.1)
    assert evaluation.figure("source_mean_log_error", protocol="new-site") == pytest.approx(np.log(1.1))
    assert evaluation.figure("coverage", protocol="random") == 1.0
    assert evaluation.figure("spearman", protocol="new-layout") == pytest.approx(1.0)
    assert evaluation.figure("regret", protocol="new-layout") == pytest.approx(0.0)


@pytest.mark.parametrize("variant", ["random-3", "chosen-5", "small-5"])
def test_own_runs_reach_the_method(evaluation, variant):
    """The oracle is exact once it was conditioned."""
    assert evaluation.figure("mape", protocol="few-shot", variant=variant) == pytest.approx(0.0, abs=1e-12)
    assert evaluation.figure("mape", protocol="few-shot", variant="zero-shot") == pytest.approx(0.1)


def test_a_constant_utilisation_scaled_to_one_anchor_is_the_anchors_utilisation(runs):
    alike = runs[runs["source"].isin(["early", "tpu-24"])]
    pair = {name: METHODS[name] for name in ("constant MFU", "nearest own run's MFU")}
    table = evaluate(alike, protocols=["anchored"], methods=pair).predictions
    one, other = (table[table["method"] == name].set_index("run_id")["step_time_s"] for name in pair)
    np.testing.assert_allclose(one.sort_index(), other.sort_index(), rtol=1e-9)


def test_methods_answer_the_same_rows(evaluation):
    keys = ["protocol", "variant", "draw", "run_id"]
    by_method = {name: part[keys] for name, part in evaluation.predictions.groupby("method")}
    assert by_method["hybrid"].reset_index(drop=True).equals(by_method["mean"].reset_index(drop=True)) or set(
        map(tuple, by_method["hybrid"].to_numpy())
    ) == set(map(tuple, by_method["mean"].to_numpy()))


def test_the_first_method_is_compared_with_the_others(evaluation):
    random = evaluation.comparisons[evaluation.comparisons["protocol"] == "random"]
    assert set(random["baseline"]) == {"mean"}
    assert set(random["verdict"]) == {"better"}


def test_slices_partition_where_they_should(evaluation):
    table = evaluation.scores[(evaluation.scores["protocol"] == "random") & (evaluation.scores["method"] == "hybrid")]
    rows = table.set_index("slice")["rows"]
    assert rows["all"] == rows["A100 sweeps"] + rows["without the sweeps"] == rows["MoE"] + rows["dense"] == 216
    assert rows[">= 1,024 accelerators"] == 12
    assert rows["settings unknown"] == 216


def test_largest_errors_come_worst_first_within_each_question(evaluation):
    worst = evaluation.largest_errors("mean", count=2)
    for question, part in worst.groupby(["protocol", "variant"]):
        assert len(part) <= 2
        assert part["mean_abs_log_error"].is_monotonic_decreasing
        rows = evaluation.predictions[evaluation.predictions["method"] == "mean"]
        rows = rows[(rows["protocol"] == question[0]) & (rows["variant"] == question[1])]
        by_source = rows["log_error"].abs().groupby(rows["source"]).mean()
        assert part["mean_abs_log_error"].iloc[0] == pytest.approx(by_source.max())
        assert part["source"].iloc[0] == by_source.idxmax()
        assert part["rows"].iloc[0] == rows.loc[rows["source"] == by_source.idxmax(), "run_id"].nunique()
    assert set(worst["protocol"]) == set(evaluation.predictions["protocol"])


def test_json_holds_no_nan(evaluation):
    text = json.dumps(evaluation.to_dict(), allow_nan=False)
    assert set(json.loads(text)) == {"random_state", "scores", "rankings", "comparisons", "largest_errors"}


def test_the_same_seed_gives_the_same_predictions_in_one_process_or_two(runs):
    few = runs[runs["source"].isin(["early", "tpu-24"])]
    simple = {"constant MFU": METHODS["constant MFU"]}
    tables = [evaluate(few, protocols=["random"], methods=simple, n_jobs=jobs).predictions for jobs in (1, 2)]
    assert tables[0].equals(tables[1])


def test_progress_counts_training_sets(runs, methods):
    seen = []
    evaluate(runs, protocols=["new-site"], methods=methods, on_progress=lambda done, total: seen.append((done, total)))
    assert seen == [(n, 5) for n in range(1, 6)]


def test_a_figure_that_was_not_evaluated_is_named(evaluation):
    with pytest.raises(InputError, match="new-site never"):
        evaluation.figure("mape", protocol="new-site", variant="never")
