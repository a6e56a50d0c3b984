"""Studies: layouts that exist, constraints, seeds, journals, and a name that belongs to one space."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from optuna.trial import TrialState

from surrogate.errors import InputError
from surrogate.search.enumeration import count_candidates
from surrogate.search.exhaustive import enumerate_best
from surrogate.search.figures import study_figures
from surrogate.search.layouts import LayoutTable
from surrogate.search.near_misses import near_misses
from surrogate.search.neighbourhood import hopeful_neighbours
from surrogate.search.objectives import Goal, Objective
from surrogate.search.sampler import Algorithm
from surrogate.search.space import build_space
from surrogate.search.storage import open_storage
from surrogate.search.study import LayoutStudy, StudyOptions


@pytest.mark.parametrize("algorithm", Algorithm)
def test_it_finds_the_optimum_of_a_small_space_once(make_evaluator, small_space, algorithm) -> None:  # type: ignore[no-untyped-def]
    """Every proposal exists and is new, so that as many trials as layouts are an enumeration."""
    evaluator = make_evaluator(small_space)
    study = LayoutStudy(evaluator, StudyOptions(algorithm=algorithm, trials=10_000, batch=50))
    study.run()
    outcome = study.outcome(top=3, misses=2)
    reference = enumerate_best(evaluator, top=1)
    assert study.tried == len(study.layouts) == len({tuple(t.params.items()) for t in study.study.trials})
    assert outcome.evaluated == count_candidates(small_space)
    assert outcome.best is not None and reference.best is not None
    assert outcome.best.losses[0, 0] == pytest.approx(reference.best.losses[0, 0])
    assert not outcome.exhaustive


def test_memory_is_a_hard_constraint(make_evaluator, make_plan, small_plan) -> None:  # type: ignore[no-untyped-def]
    evaluator = make_evaluator(build_space(make_plan({**small_plan, "recompute": "none", "seq_len": 16384})))
    study = LayoutStudy(evaluator, StudyOptions(trials=60, batch=20))
    study.run()
    trials = study.study.get_trials(states=(TrialState.COMPLETE,))
    excess = np.array([trial.constraints["memory"] for trial in trials])
    assert (excess > 0).any() and (excess <= 0).any()
    outcome = study.outcome(top=60)
    assert outcome.best is not None
    assert evaluator.fits(evaluator.memory(evaluator.prepare(outcome.best.codes))).all()
    assert len(outcome.best) == (excess <= 0).sum()


def test_equal_seeds_give_equal_studies(make_evaluator, small_space) -> None:  # type: ignore[no-untyped-def]
    def params(seed: int) -> list[dict[str, object]]:
        study = LayoutStudy(make_evaluator(small_space), StudyOptions(trials=60, seed=seed, batch=20))
        study.run()
        return [trial.params for trial in study.study.trials]

    assert params(1) == params(1)
    assert params(1) != params(2)


def test_several_objectives_give_a_front(make_evaluator, small_space) -> None:  # type: ignore[no-untyped-def]
    goal = Goal(objectives=(Objective.TOKENS_PER_S_PER_GPU, Objective.HEADROOM))
    evaluator = make_evaluator(small_space, goal)
    study = LayoutStudy(evaluator, StudyOptions(algorithm=Algorithm.NSGA2, trials=10_000, batch=50))
    study.run()
    outcome, reference = study.outcome(top=3), enumerate_best(evaluator, top=3)
    assert outcome.best is not None and reference.best is not None
    np.testing.assert_allclose(outcome.best.losses[0], reference.best.losses[0])
    assert set(study_figures(study.study)) >= {"pareto.html", "importance.html"}


def test_a_journal_is_resumed(make_evaluator, small_space, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    options = StudyOptions(trials=20, storage=str(tmp_path / "study.journal"))
    LayoutStudy(make_evaluator(small_space), options).run()
    again = LayoutStudy(make_evaluator(small_space), options)
    again.run()
    trials = again.study.trials
    assert len(trials) == 40 == len({tuple(trial.params.items()) for trial in trials})


def test_a_name_belongs_to_one_space(make_evaluator, make_plan, small_plan, small_space, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    options = StudyOptions(trials=5, storage=str(tmp_path / "study.journal"))
    LayoutStudy(make_evaluator(small_space), options)
    other = build_space(make_plan({**small_plan, "seq_len": 2048}))
    with pytest.raises(InputError, match="another plan, space or objective"):
        LayoutStudy(make_evaluator(other), options)
    with pytest.raises(InputError, match="another plan, space or objective"):
        LayoutStudy(make_evaluator(small_space, Goal(objectives=(Objective.STEP_TIME,))), options)


def test_an_enumeration_is_told(make_evaluator, small_space) -> None:  # type: ignore[no-untyped-def]
    evaluator = make_evaluator(small_space)
    best = enumerate_best(evaluator, top=30).best
    assert best is not None
    study = LayoutStudy(evaluator, StudyOptions(trials=5))
    study.add_known(best)
    study.add_known(best)
    known = len(study.study.trials)
    assert 1 < known <= 30
    outcome = study.outcome(top=1)
    assert outcome.best is not None
    assert outcome.best.losses[0, 0] == pytest.approx(best.losses[0, 0])
    study.run()
    assert len(study.study.trials) == known + 5


def test_time_is_a_budget(make_evaluator, small_space) -> None:  # type: ignore[no-untyped-def]
    study = LayoutStudy(make_evaluator(small_space), StudyOptions(trials=1000, seconds=0.0))
    study.run()
    assert study.tried <= 10


def test_an_interrupt_keeps_what_was_told(make_evaluator, small_space) -> None:  # type: ignore[no-untyped-def]
    study = LayoutStudy(make_evaluator(small_space), StudyOptions(trials=1000, batch=15))

    def stop(_count: int) -> None:
        raise KeyboardInterrupt

    study.run(stop)
    outcome = study.outcome(top=1)
    assert outcome.interrupted and outcome.best is not None
    assert len(study.study.trials) == 15


@pytest.mark.parametrize(
    ("where", "words"),
    [
        ("postgresql://user:secret@127.0.0.1:1/none", "reachable"),
        ("oracle9://x/y", "driver"),
        ("://", "URL"),
        ("/no/such/folder/study.journal", "folder"),
    ],
)
def test_a_storage_that_cannot_be_used_is_named_without_its_password(where: str, words: str) -> None:
    with pytest.raises(InputError, match=words) as caught:
        open_storage(where)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("text", ["{not json\n{neither\n", "{not json\n", "no line", "3\n"])
def test_a_file_that_is_no_journal_is_named_and_left_alone(tmp_path: Path, text: str) -> None:
    broken = tmp_path / "study.journal"
    broken.write_text(text)
    with pytest.raises(InputError, match="journal"):
        open_storage(str(broken))
    assert broken.read_text() == text


def test_an_unfinished_line_costs_no_study(make_evaluator, small_space, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    journal = tmp_path / "study.journal"
    options = StudyOptions(trials=10, storage=str(journal), name="killed")
    LayoutStudy(make_evaluator(small_space), options).run()
    written = journal.read_bytes()
    journal.write_bytes(written[:-20])
    LayoutStudy(make_evaluator(small_space), options).run()
    assert len(journal.read_bytes()) > len(written)
    open_storage(str(journal))


def test_budgets_are_positive() -> None:
    with pytest.raises(InputError, match="--trials"):
        StudyOptions(trials=0)


def test_a_plan_without_open_layouts_is_one_trial(make_evaluator, make_plan, small_plan) -> None:  # type: ignore[no-untyped-def]
    closed = {**small_plan, "tp": 2, "pp": 2, "vp": 1, "ep": 1, "micro_batch_size": 1}
    evaluator = make_evaluator(build_space(make_plan(closed)))
    study = LayoutStudy(evaluator, StudyOptions(trials=50))
    study.run()
    outcome, reference = study.outcome(top=1), enumerate_best(evaluator, top=1)
    assert study.tried == 1 and outcome.best is not None and reference.best is not None
    assert outcome.best.losses[0, 0] == pytest.approx(reference.best.losses[0, 0])


def test_hopeful_neighbours_are_free_near_and_could_be_better(make_evaluator, moe_space) -> None:  # type: ignore[no-untyped-def]
    evaluator = make_evaluator(moe_space)
    layouts = LayoutTable(moe_space)
    rng = np.random.default_rng(0)
    centre = np.array([int(rng.integers(len(layouts)))])
    layouts.is_taken[::2] = True
    rows = hopeful_neighbours(evaluator, layouts, centre, np.inf, 20, rng)
    assert 0 < len(rows) <= 20 and not layouts.is_taken[rows].any()
    counted = [name for name in layouts.columns if name != "vp"]
    for row in rows:
        one, other = layouts.values(row), layouts.values(int(centre[0]))
        assert sum(one[name] != other[name] for name in counted) <= 2
    assert hopeful_neighbours(evaluator, layouts, centre, 0.0, 20, rng) == []
    layouts.is_taken[:] = True
    assert hopeful_neighbours(evaluator, layouts, centre, np.inf, 20, rng) == []


def test_tpe_reaches_the_optimum_of_a_large_space(make_evaluator, moe_space) -> None:  # type: ignore[no-untyped-def]
    evaluator = make_evaluator(moe_space)
    reference = enumerate_best(evaluator, top=1).best
    assert reference is not None
    regret = {}
    for algorithm in (Algorithm.TPE, Algorithm.RANDOM):
        study = LayoutStudy(evaluator, StudyOptions(algorithm=algorithm, trials=120, batch=20))
        study.run()
        outcome = study.outcome(top=1)
        assert outcome.best is not None
        regret[algorithm] = outcome.best.losses[0, 0] / reference.losses[0, 0] - 1.0
    assert regret[Algorithm.TPE] < 0.01 <= regret[Algorithm.RANDOM]


def test_near_misses_of_a_study_are_among_the_best_but_for_memory(make_evaluator, make_plan, small_plan) -> None:  # type: ignore[no-untyped-def]
    evaluator = make_evaluator(build_space(make_plan({**small_plan, "seq_len": 16384})), oom_risk=0.001)
    study = LayoutStudy(evaluator, StudyOptions(trials=60))
    study.run()
    outcome = study.outcome(top=3, misses=40)
    codes = near_misses(evaluator, outcome.misses, outcome.best, 3)
    assert codes is not None and outcome.best is not None
    memory = evaluator.memory(evaluator.prepare(codes))
    assert ((memory.oom_probability > 0.001) & (memory.oom_probability <= 0.5)).all()
    losses = evaluator.losses(codes, memory)[:, 0]
    assert (losses < outcome.best.losses[-1, 0]).all()
    assert (np.diff(losses) >= 0.0).all()
    assert near_misses(evaluator, outcome.misses, outcome.best, 0) is None
