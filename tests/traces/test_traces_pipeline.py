"""Pipeline schedules from measured times."""

import json
import shutil

import numpy as np
import pytest

from surrogate.analytic.pipeline_events import simulate_pipeline
from surrogate.analytic.workload import Schedule
from surrogate.errors import FileFormatError, InputError
from surrogate.traces.edits import parse_edit
from surrogate.traces.layout import predict_pipeline
from surrogate.traces.pipeline import is_pipeline_folder, read_pipeline, replay_pipeline
from surrogate.traces.schedule import PipelineTimes, simulate_step


def _uniform(p, v, m, forward=1.0, backward=2.0, **more):
    return PipelineTimes(np.full((p, v, m), forward), np.full((p, v, m), backward), **more)


@pytest.mark.parametrize(("p", "m"), [(1, 1), (2, 4), (4, 8), (4, 2), (8, 16)])
def test_textbook_1f1b(p, m):
    step = simulate_step(_uniform(p, 1, m), Schedule.ONE_F_ONE_B)
    assert step.step_s == pytest.approx((m + p - 1) * 3.0)
    assert step.bubble_fraction == pytest.approx((p - 1) / (m + p - 1))


@pytest.mark.parametrize(("p", "v", "m"), [(2, 2, 4), (4, 2, 8), (4, 4, 8)])
def test_textbook_interleaved(p, v, m):
    step = simulate_step(_uniform(p, v, m), Schedule.INTERLEAVED)
    assert step.step_s == pytest.approx((m * v + p - 1) * 3.0)


@pytest.mark.parametrize("schedule", [Schedule.ONE_F_ONE_B, Schedule.GPIPE])
def test_agrees_with_the_event_recursion(schedule):
    rng = np.random.default_rng(0)
    forward, backward = rng.uniform(1, 2, (2, 4, 1))
    times = PipelineTimes(*(np.repeat(each[:, :, None], 6, axis=2) for each in (forward, backward)))
    reference = simulate_pipeline(
        schedule=schedule, num_microbatches=6, forward_s=forward, backward_s=backward, send_s=0.0
    )
    assert simulate_step(times, schedule).step_s == pytest.approx(float(reference.total_s))


def test_send_occupies_the_sender():
    """p = 2, m = 2: F0 s | F1 s | on rank 1 F B s F B s; by hand 1 + 0.5 + (1 + 2 + 0.5) + (1 + 2) + 0.5 + 2 = 10.5."""
    step = simulate_step(_uniform(2, 1, 2, send_s=0.5), Schedule.ONE_F_ONE_B)
    assert step.step_s == pytest.approx(10.5)


def test_one_slow_micro_batch_delays_the_step():
    times = _uniform(4, 1, 8)
    times.forward_s[2, 0, 3] += 5.0
    assert simulate_step(times, Schedule.ONE_F_ONE_B).step_s >= 11 * 3.0 + 4.0


def test_shapes_are_checked():
    with pytest.raises(InputError, match="shape"):
        simulate_step(PipelineTimes(np.ones((2, 1, 4)), np.ones((2, 1, 3))), Schedule.ONE_F_ONE_B)


def test_fixture_is_replayed_exactly(fixtures):
    """The files hold a simulation of 1F1B with a send of 0.5 ms, written independently."""
    measured = read_pipeline(fixtures / "pipeline")
    assert measured.times.send_s == pytest.approx(0.5e-3)
    result = replay_pipeline(measured)
    assert result.measured_s == pytest.approx(0.4085)
    assert result.relative_error == pytest.approx(0.0, abs=1e-9)
    assert result.textbook_s < 0.9 * result.measured_s


def test_pipeline_what_if(fixtures):
    measured = read_pipeline(fixtures / "pipeline")
    _, longer = predict_pipeline(measured, [parse_edit("microbatches=16")])
    _, same = predict_pipeline(measured, [])
    _, interleaved = predict_pipeline(measured, [parse_edit("vp=2")])
    _, without_send = predict_pipeline(measured, [parse_edit("send_s=1e-9")])
    assert same == pytest.approx(measured.step_s)
    # Eight more micro-batches at the pace of the last stage: forward 13, backward 26, one send.
    assert longer - same == pytest.approx(8 * 39.5e-3)
    assert interleaved < same
    assert without_send < same
    with pytest.raises(InputError, match="pp, vp, microbatches"):
        predict_pipeline(measured, [parse_edit("matmul=2")])


@pytest.mark.parametrize(
    "damage",
    [
        lambda folder: (folder / "pp_rank_1.json").unlink(),
        lambda folder: (folder / "pp_rank_1.json").write_text("{"),
        lambda folder: (folder / "pp_rank_1.json").write_text("{}"),
        lambda folder: (folder / "pp_rank_1.json").write_text('{"1": {"total": 1}}'),
        lambda folder: (folder / "config.json").write_text('{"vp_size": 3}'),
        lambda folder: (folder / "config.json").write_text('{"vp_size": "x"}'),
    ],
)
def test_damaged_pipelines(fixtures, tmp_path, damage):
    folder = tmp_path / "pp"
    shutil.copytree(fixtures / "pipeline", folder)
    damage(folder)
    assert is_pipeline_folder(folder)
    with pytest.raises(FileFormatError):
        read_pipeline(folder)


def test_ranks_with_unequal_passes(fixtures, tmp_path):
    folder = tmp_path / "pp"
    shutil.copytree(fixtures / "pipeline", folder)
    file = folder / "pp_rank_2.json"
    data = json.loads(file.read_text())
    for iteration in data.values():
        for key in ("fwd_start", "fwd_end", "bwd_start", "bwd_end"):
            iteration[key] = iteration[key][:-1]
    file.write_text(json.dumps(data))
    with pytest.raises(FileFormatError, match="differ"):
        read_pipeline(folder)
