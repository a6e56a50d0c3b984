"""Pipeline schedules: closed forms, bounds and the exact event recursion against each other."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from surrogate.analytic.pipeline import (
    bubble_fraction,
    bubble_time_s,
    gpipe_time_s,
    microbatches_in_flight,
    one_f_one_b_bound_s,
    pipeline_time_bound_s,
)
from surrogate.analytic.pipeline_events import Operation, peak_chunks_in_flight, simulate_pipeline, stage_order
from surrogate.analytic.workload import Schedule
from surrogate.errors import InputError

UNIT = {"forward_s": 1.0, "input_grad_s": 1.0, "weight_grad_s": 1.0}
stage_times = st.lists(st.floats(0.8, 1.2), min_size=2, max_size=8)


def simulate(schedule, microbatches, forward, backward, send_s=0.0):
    return simulate_pipeline(
        schedule=schedule, num_microbatches=microbatches, forward_s=forward, backward_s=backward, send_s=send_s
    )


def test_bubble_of_every_schedule_with_unit_times():
    expected = {
        Schedule.ONE_F_ONE_B: 21.0, Schedule.INTERLEAVED: 10.5, Schedule.GPIPE: 21.0, Schedule.ZB_H1: 7.0,
        Schedule.ZB_H2: 0.0, Schedule.ZB_V: 0.0, Schedule.DUALPIPE: 6.0, Schedule.V_HALF: 10.5, Schedule.V_MIN: 14.0,
    }  # fmt: skip
    assert expected.keys() == set(Schedule)
    codes = np.array(list(expected), dtype=np.int64)
    np.testing.assert_allclose(bubble_time_s(schedule=codes, pp=8, vp=2, **UNIT), list(expected.values()))


def test_bubble_with_unequal_parts():
    times = {"forward_s": 2.0, "input_grad_s": 3.0, "weight_grad_s": 1.0, "pp": 4, "vp": 1}
    assert bubble_time_s(schedule=Schedule.ZB_H1, **times) == 3 * (2 + 3 - 1)
    assert bubble_time_s(schedule=Schedule.ZB_H2, **times) == 3 * (2 + 3 - 2)
    assert bubble_time_s(schedule=Schedule.DUALPIPE, **times) == 1 * (6 + 4 - 3)
    heavy = times | {"weight_grad_s": 9.0}
    assert bubble_time_s(schedule=Schedule.ZB_H2, **heavy) == 0


@pytest.mark.parametrize("schedule", Schedule)
def test_one_stage_has_no_bubble(schedule):
    assert bubble_time_s(schedule=schedule, pp=1, vp=1, **UNIT) == 0
    assert bubble_fraction(num_microbatches=4, pp=1, vp=1) == 0


def test_bubble_is_its_fraction_of_ideal_time():
    ideal = 32 * 3.0
    for vp, schedule in ((1, Schedule.ONE_F_ONE_B), (2, Schedule.INTERLEAVED)):
        fraction = bubble_fraction(num_microbatches=32, pp=8, vp=vp)
        assert bubble_time_s(schedule=schedule, pp=8, vp=vp, **UNIT) == fraction * ideal


def test_1f1b_with_a_slow_last_stage():
    forward = np.array([[1.0], [1.0], [1.0], [1.3]])
    assert simulate(Schedule.ONE_F_ONE_B, 8, forward, 2 * forward).total_s == pytest.approx(40.2)
    assert one_f_one_b_bound_s(num_microbatches=8, sum_stages_s=12.9, slowest_stage_s=3.9) == pytest.approx(40.2)


@pytest.mark.parametrize(("pp", "microbatches"), [(1, 3), (2, 2), (4, 8), (4, 3), (8, 32)])
@pytest.mark.parametrize("schedule", [Schedule.ONE_F_ONE_B, Schedule.GPIPE])
def test_equal_stages_are_exact(schedule, pp, microbatches):
    forward = np.ones((pp, 1))
    exact = simulate(schedule, microbatches, forward, 2 * forward).total_s
    bubble = bubble_time_s(schedule=schedule, pp=pp, vp=1, **UNIT)
    assert exact == (microbatches + pp - 1) * 3
    bound = pipeline_time_bound_s(num_microbatches=microbatches, slowest_stage_s=3.0, mean_stage_s=3.0, bubble_s=bubble)
    assert bound == exact


@pytest.mark.parametrize(("pp", "vp", "microbatches"), [(2, 2, 4), (4, 2, 8), (4, 3, 16), (8, 2, 32), (4, 1, 8)])
def test_interleaving_is_exact_for_equal_chunks(pp, vp, microbatches):
    forward = np.full((pp, vp), 1.0 / vp)
    exact = simulate(Schedule.INTERLEAVED, microbatches, forward, 2 * forward).total_s
    assert exact == pytest.approx(microbatches * 3 + (pp - 1) * 3 / vp)


@settings(max_examples=60, deadline=None)
@given(forward=stage_times, backward=st.floats(1.0, 3.0), extra=st.integers(0, 12))
def test_gpipe_closed_form_is_exact_for_unequal_stages(forward, backward, extra):
    times = np.array(forward)[:, None]
    others = backward * times[::-1]
    exact = simulate(Schedule.GPIPE, len(forward) + extra, times, others).total_s
    closed = gpipe_time_s(
        num_microbatches=len(forward) + extra, sum_stages_s=(times + others).sum(),
        slowest_forward_s=times.max(), slowest_backward_s=others.max(),
    )  # fmt: skip
    assert exact == pytest.approx(float(closed))


@settings(max_examples=60, deadline=None)
@given(forward=stage_times, backward=st.floats(1.0, 3.0), extra=st.integers(0, 12))
def test_1f1b_bound_is_above_and_within_15_percent(forward, backward, extra):
    times = np.array(forward)[:, None]
    others = backward * times[::-1]
    microbatches = len(forward) + extra
    exact = simulate(Schedule.ONE_F_ONE_B, microbatches, times, others).total_s
    stages = (times + others).sum(axis=1)
    bound = one_f_one_b_bound_s(num_microbatches=microbatches, sum_stages_s=stages.sum(), slowest_stage_s=stages.max())
    assert exact <= bound * (1 + 1e-12)
    assert bound <= 1.15 * exact
    assert exact >= microbatches * stages.max() * (1 - 1e-12)
    general = pipeline_time_bound_s(
        num_microbatches=microbatches, slowest_stage_s=stages.max(), mean_stage_s=stages.mean(),
        bubble_s=(len(stages) - 1) * stages.mean(),
    )  # fmt: skip
    assert general == pytest.approx(float(bound))


def test_sends_lengthen_fill_and_drain():
    forward = np.ones((4, 1))
    free = simulate(Schedule.GPIPE, 8, forward, 2 * forward).total_s
    assert simulate(Schedule.GPIPE, 8, forward, 2 * forward, 0.25).total_s == free + 2 * 3 * 0.25


def test_configurations_on_leading_axes_are_recursed_together():
    forward = np.random.default_rng(0).uniform(0.5, 1.5, (5, 4, 2))
    together = simulate(Schedule.INTERLEAVED, 8, forward, 2 * forward, np.full(5, 0.1)).total_s
    apart = [float(simulate(Schedule.INTERLEAVED, 8, one, 2 * one, 0.1).total_s) for one in forward]
    np.testing.assert_array_equal(together, apart)


def test_timeline_respects_devices_and_dependencies():
    forward = np.random.default_rng(1).uniform(0.5, 1.5, (4, 2))
    timeline = simulate(Schedule.INTERLEAVED, 8, forward, 2 * forward, 0.1)
    assert len(set(timeline.operations)) == 2 * 8 * 4 * 2
    end = dict(zip(timeline.operations, timeline.end_s, strict=True))
    start = dict(zip(timeline.operations, timeline.start_s, strict=True))
    for j in range(8):
        assert start[Operation(1, 0, j, False)] >= end[Operation(0, 0, j, False)] + 0.1
        assert start[Operation(0, 1, j, False)] >= end[Operation(3, 0, j, False)] + 0.1
        assert start[Operation(2, 1, j, True)] >= end[Operation(3, 1, j, True)] + 0.1
        assert start[Operation(3, 1, j, True)] >= end[Operation(3, 1, j, False)]
    for stage in range(4):
        on_device = [op for op in timeline.operations if op.stage == stage]
        assert all(end[a] <= start[b] for a, b in zip(on_device, on_device[1:], strict=False))
        assert timeline.busy_s(stage) == pytest.approx(8 * 3 * forward[stage].sum())


@pytest.mark.parametrize(("pp", "vp", "microbatches"), [(8, 2, 32), (4, 3, 8), (2, 1, 2)])
def test_chunks_in_flight_follow_the_formula(pp, vp, microbatches):
    counted = peak_chunks_in_flight(schedule=Schedule.INTERLEAVED, num_microbatches=microbatches, pp=pp, vp=vp)
    formula = microbatches_in_flight(
        schedule=Schedule.INTERLEAVED, stage=np.arange(pp), num_microbatches=microbatches, pp=pp, vp=vp
    )
    np.testing.assert_allclose(formula * vp, counted)


@pytest.mark.parametrize("schedule", [Schedule.ONE_F_ONE_B, Schedule.GPIPE])
@pytest.mark.parametrize("microbatches", [2, 4, 9])
def test_micro_batches_in_flight_follow_the_formula(schedule, microbatches):
    counted = peak_chunks_in_flight(schedule=schedule, num_microbatches=microbatches, pp=4, vp=1)
    formula = microbatches_in_flight(schedule=schedule, stage=np.arange(4), num_microbatches=microbatches, pp=4, vp=1)
    np.testing.assert_array_equal(formula, counted)


def test_published_interleaving_counts():
    counted = peak_chunks_in_flight(schedule=Schedule.INTERLEAVED, num_microbatches=32, pp=8, vp=2)
    assert counted.tolist() == [23, 21, 19, 17, 15, 13, 11, 9]


@pytest.mark.parametrize("schedule", Schedule)
def test_in_flight_is_one_for_one_stage_and_at_most_m(schedule):
    held = microbatches_in_flight(schedule=schedule, stage=0, num_microbatches=3, pp=np.array([1, 4, 16]), vp=1)
    assert np.all(held <= 3)
    assert held[0] == {Schedule.GPIPE: 3.0, Schedule.DUALPIPE: 2.0}.get(schedule, 1.0)


def test_what_cannot_be_simulated_says_why():
    forward = np.ones((4, 1))
    with pytest.raises(InputError, match=r"`pipeline_schedule` must be gpipe, 1f1b or interleaved-1f1b"):
        simulate(Schedule.ZB_H1, 8, forward, forward)
    with pytest.raises(InputError, match=r"`num_microbatches` must be a multiple of pp = 4"):
        simulate(Schedule.INTERLEAVED, 6, forward, forward)
    with pytest.raises(InputError, match=r"`vp` must be 1"):
        stage_order(schedule=Schedule.GPIPE, stage=0, num_microbatches=2, pp=2, vp=2)
    with pytest.raises(InputError, match=r"`backward_s` must have the shape"):
        simulate(Schedule.GPIPE, 8, forward, np.ones((3, 1)))
