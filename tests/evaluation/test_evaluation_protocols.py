"""Splits: what each protocol leaves out, and that no split separates a `split_group`."""

from __future__ import annotations

import numpy as np
import pytest

from surrogate.errors import InputError, UnknownNameError
from surrogate.evaluation import PROTOCOLS, protocol_folds
from surrogate.evaluation.execute import levels_asked
from surrogate.evaluation.folds import merge_folds, timed_runs


@pytest.fixture(scope="module")
def timed(runs):
    return timed_runs(runs)


def asked(folds):
    return [(fold, query) for fold in folds for query in fold.queries]


@pytest.mark.parametrize("name", PROTOCOLS)
def test_no_split_separates_a_split_group(timed, name):
    group = timed["split_group"].to_numpy()
    folds = PROTOCOLS[name].build(timed, 0)
    assert folds
    for fold, query in asked(folds):
        assert not set(group[fold.train]) & set(group[query.test])
        assert not set(group[query.own.rows]) & set(group[query.test])
        assert len(np.unique(query.test)) == len(query.test)


@pytest.mark.parametrize("name", ["random", "new-layout", "new-model", "new-site", "new-accelerator"])
def test_every_row_is_asked_once(timed, name):
    tests = np.concatenate([query.test for _, query in asked(PROTOCOLS[name].build(timed, 0))])
    assert sorted(tests) == list(range(len(timed)))


def test_new_site_trains_without_the_family(timed):
    family = timed["publisher_family"].to_numpy()
    folds = PROTOCOLS["new-site"].build(timed, 0)
    assert len(folds) == 5
    for fold in folds:
        assert not set(family[fold.train]) & set(family[fold.queries[0].test])


def test_new_release_keeps_the_sisters(timed):
    folds = PROTOCOLS["new-release"].build(timed, 0)
    source, family = timed["source"].to_numpy(), timed["publisher_family"].to_numpy()
    assert len(folds) == 2
    for fold in folds:
        test = fold.queries[0].test
        assert set(family[test]) == {"mosaicml"}
        assert "mosaicml" in family[fold.train]
        assert not set(source[test]) & set(source[fold.train])


def test_time_forward_sees_the_past_only(timed):
    date = timed["date"].to_numpy()
    folds = PROTOCOLS["time-forward"].build(timed, 0)
    assert [fold.left_out for fold in folds] == ["released 2024-04", "released 2024-09", "released 2025-10"]
    for fold in folds:
        assert max(date[fold.train]) < min(date[fold.queries[0].test])


def test_scale_out_goes_up_within_known_sources(timed):
    gpus, source = timed["num_gpus"].to_numpy(), timed["source"].to_numpy()
    (fold,) = PROTOCOLS["scale-out"].build(timed, 0)
    test = fold.queries[0].test
    assert gpus[fold.train].max() <= 256 < gpus[test].min()
    assert set(source[test]) == {"mosaic-2023", "mosaic-2024", "bridge-25"}


def test_new_model_leaves_architectures_out_whatever_their_name(timed):
    layers = timed["num_layers"].to_numpy()
    for fold in PROTOCOLS["new-model"].build(timed, 0):
        assert not set(
            zip(layers[fold.train], timed["num_experts"].fillna(0).to_numpy()[fold.train], strict=True)
        ) & set(
            zip(
                layers[fold.queries[0].test],
                timed["num_experts"].fillna(0).to_numpy()[fold.queries[0].test],
                strict=True,
            )
        )


def test_few_shot_shows_rows_of_the_same_source_only(timed):
    source = timed["source"].to_numpy()
    folds = PROTOCOLS["few-shot"].build(timed, 0)
    variants = {query.variant for _, query in asked(folds)}
    assert variants == {
        "zero-shot", "random-3", "random-5", "random-10", "chosen-3", "chosen-5", "chosen-10", "small-5",
    }  # fmt: skip
    for _, query in asked(folds):
        shown = np.concatenate([query.own.rows, query.own.candidates])
        assert len(set(source[shown]) | set(source[query.test])) == 1
        if query.variant.startswith("random"):
            assert len(query.own.rows) == int(query.variant[7:])
    draws = {query.draw for _, query in asked(folds) if query.variant == "random-5"}
    assert draws == set(range(6))


def test_small_runs_use_at_most_a_quarter_of_the_accelerators(timed):
    gpus = timed["num_gpus"].to_numpy()
    small = [query for _, query in asked(PROTOCOLS["few-shot"].build(timed, 0)) if query.variant == "small-5"]
    assert small
    for query in small:
        assert gpus[query.own.candidates].max() * 4 <= gpus[query.test].min()


def test_anchors_are_one_own_run_of_another_configuration(timed):
    source = timed["source"].to_numpy()
    queries = [query for _, query in asked(PROTOCOLS["anchored"].build(timed, 0))]
    assert sum(len(query.test) for query in queries) == len(timed)
    for query in queries:
        assert len(query.own.rows) == 1
        assert set(source[query.test]) == set(source[query.own.rows])


def test_vtrain_counts_its_rows(timed):
    folds = PROTOCOLS["vtrain"].build(timed, 0)
    gpus = timed["num_gpus"].to_numpy()
    family = timed["publisher_family"].to_numpy()
    by_variant = {query.variant: (fold, query) for fold, query in asked(folds)}
    assert set(by_variant) == {"single-0", "single-20", "multi-0", "multi-0, single known"}
    fold, query = by_variant["single-20"]
    assert np.sum(family[fold.train] == "vtrain") == 20
    assert gpus[query.test].max() <= 8
    fold, query = by_variant["multi-0, single known"]
    assert gpus[fold.train][family[fold.train] == "vtrain"].max() <= 8 < gpus[query.test].min()


@pytest.mark.parametrize(
    ("name", "levels"),
    [("random", {"release"}), ("new-site", {"population"}), ("new-release", {"family"}), ("anchored", {"release"})],
)
def test_levels_of_knowledge_follow_from_who_was_seen(timed, name, levels):
    assert set().union(*(levels_asked(timed, fold) for fold in PROTOCOLS[name].build(timed, 0))) == levels


def test_a_training_set_is_fitted_once(timed):
    folds = [fold for name in ("new-site", "few-shot", "anchored") for fold in PROTOCOLS[name].build(timed, 0)]
    merged = merge_folds(folds)
    assert len(merged) == 5
    assert sum(len(fold.queries) for fold in merged) == sum(len(fold.queries) for fold in folds)


@pytest.mark.parametrize("name", PROTOCOLS)
def test_the_same_seed_gives_the_same_folds(timed, name):
    def flat(seed):
        folds = PROTOCOLS[name].build(timed, seed)
        return [
            (f.train.tolist(), [(q.variant, q.draw, q.test.tolist(), q.own.rows.tolist()) for q in f.queries])
            for f in folds
        ]

    assert flat(1) == flat(1)


def test_unknown_and_unanswerable_protocols_are_named(timed):
    with pytest.raises(UnknownNameError, match="did you mean random"):
        protocol_folds(timed, ["rnadom"], 0)
    with pytest.raises(UnknownNameError, match="random, new-layout"):
        protocol_folds(timed, ["xyz"], 0)
    elsewhere = timed[timed["publisher_family"] != "vtrain"].reset_index(drop=True)
    with pytest.raises(InputError, match="vtrain"):
        protocol_folds(elsewhere, ["vtrain"], 0)
    assert protocol_folds(elsewhere, None, 0)


def test_a_table_of_one_configuration_cannot_be_split(runs):
    with pytest.raises(InputError, match="two different configurations"):
        timed_runs(runs.iloc[:1])
