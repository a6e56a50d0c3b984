"""The enumeration's answer is the optimum of brute force, whatever the objective."""

from __future__ import annotations

import numpy as np
import pytest

from surrogate.forecast import RunPolicy
from surrogate.search import exhaustive
from surrogate.search.enumeration import block_length, candidate_blocks
from surrogate.search.evaluation import Evaluator, join
from surrogate.search.exhaustive import enumerate_best
from surrogate.search.objectives import Goal, Objective, shown
from surrogate.search.pareto import is_dominated_by, non_dominated
from surrogate.search.preparation import candidate_frame
from surrogate.search.space import build_space

GOALS = {
    "throughput": Goal(),
    "robust": Goal(is_robust=True),
    "days": Goal(objectives=(Objective.TIME_TO_TRAIN,), tokens=1e12),
    "cost": Goal(objectives=(Objective.COST,), tokens=1e12, policy=RunPolicy(price_per_gpu_hour=2.0)),
    "front": Goal(objectives=(Objective.TOKENS_PER_S_PER_GPU, Objective.HEADROOM)),
    "three": Goal(
        objectives=(Objective.STEP_TIME, Objective.COST, Objective.HEADROOM),
        tokens=1e12,
        policy=RunPolicy(price_per_gpu_hour=2.0),
    ),
}


def brute_force(evaluator: Evaluator) -> tuple[np.ndarray, np.ndarray]:
    """All losses, and which candidates fit."""
    codes = join(list(candidate_blocks(evaluator.space)))
    memory = evaluator.memory(evaluator.prepare(codes))
    return evaluator.losses(codes, memory), evaluator.fits(memory)


@pytest.mark.parametrize("goal", GOALS.values(), ids=GOALS.keys())
def test_it_is_the_optimum(make_evaluator, make_plan, small_plan, goal) -> None:  # type: ignore[no-untyped-def]
    space = build_space(make_plan(small_plan), vary={"num_gpus": (8, 16)})
    evaluator = make_evaluator(space, goal)
    losses, fits = brute_force(evaluator)
    assert fits.any() and not fits.all()
    outcome = enumerate_best(evaluator, top=5, misses=3)
    assert outcome.exhaustive and outcome.evaluated == len(losses) and outcome.predicted < fits.sum()
    assert outcome.best is not None
    expected = losses[fits]
    if goal.is_single:
        np.testing.assert_allclose(outcome.best.losses[:, 0], np.sort(expected[:, 0])[:5], rtol=1e-9)
    else:
        front = expected[non_dominated(expected)]
        np.testing.assert_allclose(outcome.best.losses, front[np.lexsort(front.T[::-1])], rtol=1e-9)


@pytest.mark.parametrize("site", [None, "vtrain"])
def test_pruning_by_the_hybrids_bounds_loses_nothing(make_plan, small_plan, small_predictor, site) -> None:  # type: ignore[no-untyped-def]
    values = {**small_plan, "tp": 2} | ({} if site is None else {"publisher_family": site})
    space = build_space(make_plan(values))
    evaluator = Evaluator.of_predictor(space, Goal(), small_predictor, oom_risk=0.5)
    losses, fits = brute_force(evaluator)
    outcome = enumerate_best(evaluator, top=3)
    assert outcome.best is not None and outcome.predicted < fits.sum()
    np.testing.assert_allclose(outcome.best.losses[:, 0], np.sort(losses[fits, 0])[:3], rtol=1e-4)


def test_small_pools_change_nothing(make_evaluator, small_space, monkeypatch: pytest.MonkeyPatch) -> None:  # type: ignore[no-untyped-def]
    whole = enumerate_best(make_evaluator(small_space), top=4, misses=4)
    monkeypatch.setattr(exhaustive, "POOL_ROWS", 50)
    monkeypatch.setattr(exhaustive, "FIRST_BATCH", 3)
    pieces = enumerate_best(make_evaluator(small_space), top=4, misses=4)
    assert whole.best is not None and pieces.best is not None
    np.testing.assert_allclose(pieces.best.losses, whole.best.losses)


def test_misses_do_not_fit_and_are_near(make_evaluator, small_space) -> None:  # type: ignore[no-untyped-def]
    evaluator = make_evaluator(small_space)
    outcome = enumerate_best(evaluator, top=2, misses=3)
    assert outcome.misses is not None and outcome.best is not None
    risks = evaluator.memory(evaluator.prepare(outcome.misses.codes)).oom_probability
    assert ((risks > 0.05) & (risks <= exhaustive.NEAR_MISS_RISK)).all()


def test_nothing_fits_names_the_least_risky(make_evaluator, make_plan, small_plan) -> None:  # type: ignore[no-untyped-def]
    evaluator = make_evaluator(build_space(make_plan({**small_plan, "seq_len": 131072, "tp": 1, "recompute": "none"})))
    outcome = enumerate_best(evaluator, top=2)
    assert outcome.best is None and outcome.least_risky is not None
    assert block_length(outcome.least_risky) == 1
    codes = join(list(candidate_blocks(evaluator.space)))
    least = evaluator.memory(evaluator.prepare(codes)).oom_probability.min()
    assert evaluator.memory(evaluator.prepare(outcome.least_risky)).oom_probability[0] == pytest.approx(least)


def test_an_interrupt_keeps_the_best_so_far(make_evaluator, moe_space) -> None:  # type: ignore[no-untyped-def]
    seen = 0

    def stop(count: int) -> None:
        nonlocal seen
        seen += count
        raise KeyboardInterrupt

    outcome = enumerate_best(make_evaluator(moe_space), top=2, progress=stop)
    assert outcome.interrupted and not outcome.exhaustive
    assert outcome.evaluated == seen
    assert outcome.best is not None


def test_throughput_is_tokens_over_seconds_and_gpus(make_evaluator, small_space) -> None:  # type: ignore[no-untyped-def]
    evaluator = make_evaluator(small_space)
    outcome = enumerate_best(evaluator, top=1)
    assert outcome.best is not None
    frame = candidate_frame(small_space, outcome.best.codes)
    seconds = evaluator.step_times.predict(frame).step_time_s[0]
    rate = shown(Objective.TOKENS_PER_S_PER_GPU, outcome.best.losses[:, 0])[0]
    assert rate == pytest.approx(32 * 4096 / seconds / 16)


def test_fronts_by_hand() -> None:
    losses = np.array([[1.0, 3.0], [2.0, 2.0], [3.0, 1.0], [2.0, 3.0], [2.0, 2.0], [4.0, 0.5]])
    assert non_dominated(losses).tolist() == [True, True, True, False, False, True]
    assert is_dominated_by(np.array([[2.0, 2.0], [1.5, 2.5]]), losses[:3]).tolist() == [True, False]


@pytest.mark.parametrize("objectives", [2, 3])
def test_no_member_of_a_front_is_beaten(objectives: int) -> None:
    losses = np.round(np.random.default_rng(3).normal(size=(500, objectives)), 1)
    kept = non_dominated(losses)
    beats = (losses[:, None, :] <= losses[None, :, :]).all(axis=2) & (losses[:, None, :] < losses[None, :, :]).any(
        axis=2
    )
    unbeaten = ~beats.any(axis=0)
    assert {tuple(row) for row in losses[kept]} == {tuple(row) for row in losses[unbeaten]}
    assert kept.sum() == len({tuple(row) for row in losses[kept]})
