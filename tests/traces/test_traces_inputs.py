"""Public traces with true values: the accuracy the package promises. Needs SURROGATE_INPUTS."""

import json

import numpy as np
import pytest

from surrogate.traces.breakdown import break_down_steps, rows_occupancy
from surrogate.traces.build import build_graph
from surrogate.traces.columns import ABSENT
from surrogate.traces.kinds import EventKind
from surrogate.traces.pipeline import read_pipeline, replay_pipeline
from surrogate.traces.reader import read_trace, read_traces
from surrogate.traces.replay import replay
from surrogate.traces.simulate import simulate

STEADY = {
    "hta_ddp_a100_rank0of2_ncclmeta.json.gz": [4, 5],
    "hta_a100_rank0of16_cudagraph.json.gz": [550, 551, 552, 553],
    "hta_a100_rank3of8_dlrm.json.gz": [1009, 1010, 1011, 1012, 1013],
    "hta_v100_rank0of1_ns.json.gz": [103, 104],
}
EXACT = 1e-3


def _us(occupancy):
    return {
        "busy_us": occupancy.busy_s * 1e6,
        "compute_us": occupancy.compute_s * 1e6,
        "comm_us": occupancy.communication_s * 1e6,
        "exposed_comm_us": occupancy.exposed_communication_s * 1e6,
        "overlapped_comm_us": occupancy.overlapped_s * 1e6,
        "gpu_span_us": occupancy.span_s * 1e6,
    }


def _agrees(got, truth):
    for key, value in (truth or {}).items():
        assert got[key] == pytest.approx(value, rel=EXACT, abs=0.05), key


def test_true_values(real_traces):
    checked = 0
    for line in (real_traces / "truth.jsonl").read_text().splitlines():
        truth = json.loads(line)
        trace = read_trace(next(real_traces.rglob(truth["file"])))
        assert trace.info.num_events == truth["events"]
        assert int((trace.kind == EventKind.KERNEL).sum()) == truth["kernels"]
        assert (trace.main_device == ABSENT) == (truth["kernels"] == 0)
        if trace.main_device == ABSENT:
            continue
        whole = _us(rows_occupancy(trace, trace.main_device_rows))
        _agrees(whole, truth["whole_trace"] | {"gpu_span_us": truth["gpu_span_us"]})
        steps = {step.number: step for step in break_down_steps(trace)} if truth["steps"] else {}
        for step in truth["steps"]:
            got = steps[step["n"]]
            assert got.host_s * 1e6 == pytest.approx(step["dur_us"], rel=EXACT)
            assert (got.kernels_launched, got.kernels_started) == (step["kernels_by_launch"], step["kernels_by_time"])
            _agrees(_us(got.window), step["window"])
            _agrees(_us(got.launched), step["launched"])
            checked += 1
    assert checked > 40


@pytest.mark.parametrize("file", STEADY)
def test_replay_of_the_steady_period(real_traces, file):
    traces = [read_trace(real_traces / file)]
    truth = next(
        json.loads(line)
        for line in (real_traces / "truth.jsonl").read_text().splitlines()
        if json.loads(line)["file"] == file
    )
    period_s = np.mean([step["period_us"] for step in truth["steps"] if step["n"] in STEADY[file]]) * 1e-6
    graph = build_graph(traces)
    kept = replay(traces, graph, simulate(graph))
    assert [step.number for step in kept.steps if step.is_steady] == STEADY[file]
    assert kept.replayed_step_s == pytest.approx(period_s, rel=1e-3)
    bare = build_graph(traces, keep_unexplained=False)
    assert replay(traces, bare, simulate(bare)).replayed_step_s == pytest.approx(period_s, rel=0.015)


def test_ranks_of_one_job(real_traces):
    traces = read_traces([real_traces / "dlrm_8ranks"], max_workers=1)
    graph = build_graph(traces)
    assert len(graph.collectives) == 8
    for step in replay(traces, graph, simulate(graph)).steps:
        assert step.replayed_s == pytest.approx(step.measured_s, rel=0.005)
        assert step.replayed.busy_s == pytest.approx(step.measured.busy_s, rel=0.005)


def test_measured_pipeline(real_traces):
    result = replay_pipeline(read_pipeline(real_traces / "pipeline" / "pp8"))
    assert abs(result.relative_error) < 0.01
    assert result.textbook_s / result.measured_s - 1 == pytest.approx(-0.07, abs=0.01)
