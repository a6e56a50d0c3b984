"""What-if: parsing, propagation through the graph, scaling rules."""

import numpy as np
import pytest

from surrogate.errors import InputError, UnknownNameError
from surrogate.traces.build import build_graph
from surrogate.traces.edits import parse_edit, scale_durations
from surrogate.traces.reader import read_trace, read_traces
from surrogate.traces.replay import replay
from surrogate.traces.simulate import simulate
from surrogate.traces.whatif import predict_edits, typical_phases


@pytest.fixture
def traced(plain):
    traces = [read_trace(plain)]
    graph = build_graph(traces)
    return traces, graph, replay(traces, graph, simulate(graph))


def _kernel_ns(traces, graph, edit):
    edited = scale_durations(traces, graph, [parse_edit(edit)])
    return {
        traces[0].names[traces[0].name[graph.row[task]]][:20]: int(edited.duration_ns[task])
        for task in np.flatnonzero(graph.is_device)
    }


@pytest.mark.parametrize(
    ("text", "message"),
    [("matmul", "NAME=VALUE"), ("matmul=x", "NAME=VALUE"), ("matmul=-1", "NAME=VALUE"), ("dp=2:0", "NAME=VALUE"),
     ("pp=1.5", "whole number"), ("matmul=inf", "NAME=VALUE"), ("matmul=nan", "NAME=VALUE")],
)  # fmt: skip
def test_bad_edits(text, message):
    with pytest.raises(InputError, match=message):
        parse_edit(text)


def test_unknown_edit_lists_the_names():
    with pytest.raises(UnknownNameError, match="collective_bandwidth"):
        parse_edit("tp=2")


def test_faster_class_and_bandwidth(traced):
    traces, graph, _ = traced
    lengths = _kernel_ns(traces, graph, "matmul=2")
    assert lengths["ampere_bf16_s16816ge"] == 40_000  # the last of 60 and 80 us
    assert lengths["ncclDevKernel_AllRed"] == 50_000
    assert _kernel_ns(traces, graph, "collective_bandwidth=2")["ncclDevKernel_AllRed"] == 25_000


def test_ring_share_with_dp(traced):
    traces, graph, _ = traced
    # (n - 1) / n: one half on two ranks, seven eighths on eight.
    assert _kernel_ns(traces, graph, "dp=2:8")["ncclDevKernel_AllRed"] == 87_500


def test_hidden_size(traced):
    traces, graph, _ = traced
    lengths = _kernel_ns(traces, graph, "hidden=1:2")
    # Both products have the same FLOPs, so the fixed 2 us stand: 2 + 78 * 4.
    assert lengths["ampere_bf16_s16816ge"] == 314_000
    assert lengths["ncclDevKernel_AllRed"] == 194_000


def test_layers(traced):
    traces, graph, baseline = traced
    edited = scale_durations(traces, graph, [parse_edit("layers=1:2")])
    device = graph.is_device
    collective = np.isin(graph.row, list(traces[0].collectives))
    np.testing.assert_array_equal(edited.duration_ns[device & ~collective], 2 * graph.duration_ns[device & ~collective])
    np.testing.assert_array_equal(edited.duration_ns[device & collective], graph.duration_ns[device & collective])
    predicted = predict_edits(traces, graph, baseline, [parse_edit("layers=1:2")])
    assert predicted.predicted_step_s > baseline.replayed_step_s


def test_layers_need_a_count_that_fits(traced):
    traces, graph, baseline = traced
    with pytest.raises(InputError, match="there is none"):
        predict_edits(traces, graph, baseline, [parse_edit("layers=7:14")])
    with pytest.raises(InputError, match="traced value"):
        predict_edits(traces, graph, baseline, [parse_edit("layers=14")])


def test_edits_that_concern_nothing(traced):
    traces, graph, baseline = traced
    with pytest.raises(InputError, match="there is none"):
        predict_edits(traces, graph, baseline, [parse_edit("attention=2")])


@pytest.mark.parametrize("factor", [1.5, 2.0, 10.0])
def test_faster_is_never_slower(traced, factor):
    traces, graph, baseline = traced
    for name in ("matmul", "collective_bandwidth", "optimizer"):
        result = predict_edits(traces, graph, baseline, [parse_edit(f"{name}={factor}")])
        assert result.predicted_step_s <= baseline.replayed_step_s + 1e-12
        slower = predict_edits(traces, graph, baseline, [parse_edit(f"{name}={1 / factor}")])
        assert slower.predicted_step_s >= baseline.replayed_step_s - 1e-12


def test_slower_kernels_push_the_step(traced):
    """The host waits for the device in each step: 140 us more on the chain are 140 us more in the step."""
    traces, graph, baseline = traced
    result = predict_edits(traces, graph, baseline, [parse_edit("matmul=0.5")])
    assert result.predicted_step_s - baseline.replayed_step_s == pytest.approx(140e-6, abs=2e-6)


def test_micro_batches(traced):
    """Two micro-batches: one more forward and backward, the rest of the step stays."""
    traces, graph, baseline = traced
    phases = typical_phases(traces[0], graph, simulate(graph), baseline.replayed_step_s)
    result = predict_edits(traces, graph, baseline, [parse_edit("microbatches=1:2")])
    more = phases.forward_s + phases.backward_s
    assert result.predicted_step_s == pytest.approx(baseline.replayed_step_s + more, rel=1e-9)


def test_pipeline_stages(traced):
    """p = 2, m = 4: (m + p - 1) (F + B) / p, optimizer halved."""
    traces, graph, baseline = traced
    phases = typical_phases(traces[0], graph, simulate(graph), baseline.replayed_step_s)
    edits = [parse_edit("pp=1:2"), parse_edit("microbatches=1:4")]
    expected = 5 * (phases.forward_s + phases.backward_s) / 2 + phases.optimizer_s / 2 + phases.other_s
    assert predict_edits(traces, graph, baseline, edits).predicted_step_s == pytest.approx(expected, rel=1e-9)


def test_layout_needs_training(fixtures):
    traces = [read_trace(fixtures / "inference_only" / "trace.json")]
    graph = build_graph(traces)
    with pytest.raises(InputError, match="backward"):
        predict_edits(traces, graph, replay(traces, graph, simulate(graph)), [parse_edit("pp=1:2")])


def test_bandwidth_across_ranks_scales_the_transfer(fixtures):
    traces = read_traces([fixtures / "two_ranks"], max_workers=1)
    edited = scale_durations(traces, build_graph(traces), [parse_edit("collective_bandwidth=2")])
    assert {call.transfer_ns for call in edited.collectives} == {15_000}
