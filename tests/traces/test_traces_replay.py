"""Graph and replay: what waits for what, and that the simulation reproduces what was measured."""

import numpy as np
import pytest

from surrogate.errors import FileFormatError
from surrogate.traces.build import build_graph
from surrogate.traces.critical_path import critical_path, time_by_kind
from surrogate.traces.graph import Dependency, Edges, stack_edges
from surrogate.traces.reader import read_trace, read_traces
from surrogate.traces.replay import replay
from surrogate.traces.simulate import simulate

REPLAYED = [
    "plain",
    "hip",
    "old_categories",
    "cuda_graph",
    "overlap_on_one_stream",
    "running_at_start",
    "event_wait_recorded",
    "host_runs_ahead",
    "several_devices",
]


def _graph(path):
    traces = [read_trace(path)]
    return traces, build_graph(traces)


@pytest.mark.parametrize("oddity", REPLAYED)
def test_every_start_is_reproduced(fixtures, oddity):
    _, graph = _graph(fixtures / oddity / "trace.json")
    timeline = simulate(graph)
    np.testing.assert_array_equal(timeline.start_ns, graph.start_ns)
    np.testing.assert_array_equal(timeline.end_ns, graph.end_ns)


def test_dependency_kinds_of_the_plain_trace(plain):
    traces, graph = _graph(plain)
    names = [traces[0].names[code] for code in traces[0].name[graph.row]]
    edges = graph.edges

    def pairs(kind):
        return [
            (names[source], names[target])
            for source, target in zip(edges.source[edges.kind == kind], edges.target[edges.kind == kind], strict=True)
        ]

    nccl = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
    product = "ampere_bf16_s16816gemm_bf16_128x64_tn"
    optimizer = "void at::native::multi_tensor_apply_kernel<FusedAdam>(int)"
    assert pairs(Dependency.EVENT_WAIT).count((product, nccl)) == 3
    assert pairs(Dependency.EVENT_WAIT).count((nccl, optimizer)) == 3
    assert len(pairs(Dependency.LAUNCH)) == 12
    assert all(source == "cudaLaunchKernel" for source, _ in pairs(Dependency.LAUNCH))
    assert ("aten::mm", "autograd::engine::evaluate_function: MmBackward0") in pairs(Dependency.CROSS_THREAD)
    assert len(graph.synchronisations) == 3


def test_recorded_event_wait(fixtures):
    traces, graph = _graph(fixtures / "event_wait_recorded" / "trace.json")
    waits = graph.edges.kind == Dependency.EVENT_WAIT
    (source,), (target,) = graph.edges.source[waits], graph.edges.target[waits]
    # The record was made before the second product was launched: only the first one is waited for.
    assert traces[0].correlation[graph.row[[source, target]]].tolist() == [1, 5]


def test_order_inside_processors_is_kept(plain):
    _, graph = _graph(plain)
    doubled = graph.with_durations(graph.duration_ns * 2)
    for timeline in (simulate(graph), simulate(doubled)):
        for processor in np.unique(graph.processor):
            own = np.flatnonzero(graph.processor == processor)
            assert (timeline.start_ns[own][1:] >= timeline.end_ns[own][:-1]).all()
        assert (timeline.end_ns >= timeline.start_ns).all()


def test_without_event_waits_overlap_rises(plain):
    traces, graph = _graph(plain)
    less = graph.without(Dependency.EVENT_WAIT)
    full, loose = (replay(traces, each, simulate(each)) for each in (graph, less))
    assert loose.steps[0].replayed.overlapped_s > full.steps[0].replayed.overlapped_s
    assert loose.steps[0].replayed.span_s < full.steps[0].replayed.span_s


def test_doubled_kernels(plain):
    traces, graph = _graph(plain)
    before = simulate(graph)
    after = simulate(graph.with_durations(np.where(graph.is_device, 2, 1) * graph.duration_ns))
    path = critical_path(traces, graph, before, (0, int(before.end_ns.max())))
    on_path_ns = 1e9 * sum(part.end_s - part.start_s for part in path if part.kind != "host")
    assert before.end_ns.max() + on_path_ns - 1 <= after.end_ns.max() <= 2 * before.end_ns.max()


def test_synchronisation_is_found_at_run_time(plain):
    """Kernels twice as fast: the host returns from its synchronisation earlier by what the stream saves."""
    _, graph = _graph(plain)
    fast = simulate(graph.with_durations(np.where(graph.is_device, 0.5, 1.0) * graph.duration_ns))
    sync = graph.synchronisations[0].task
    assert graph.end_ns[sync] == 260_000
    # Products 30 + 40, all-reduce 25, optimizer 15 us: 110 us less on the chain up to the return.
    assert fast.end_ns[sync] == 150_000 + 10_000 or fast.end_ns[sync] < 260_000


def test_ranks_wait_for_the_last(fixtures):
    traces = read_traces([fixtures / "two_ranks"], max_workers=1)
    graph = build_graph(traces)
    assert [len(call.tasks) for call in graph.collectives] == [2, 2, 2]
    assert {call.transfer_ns for call in graph.collectives} == {30_000}
    result = replay(traces, graph, simulate(graph))
    assert result.relative_error == pytest.approx(0.0, abs=1e-9)
    slower = np.where((graph.rank == 1) & graph.is_device, 2, 1) * graph.duration_ns
    ends = simulate(graph.with_durations(slower)).end_ns
    first = graph.collectives[0].tasks
    assert ends[first[0]] == ends[first[1]] > graph.end_ns[first[0]]


def test_replay_of_steps(plain):
    traces, graph = _graph(plain)
    result = replay(traces, graph, simulate(graph))
    assert result.measured_step_s == pytest.approx(300e-6)
    assert result.replayed_step_s == pytest.approx(300e-6)
    assert result.stream_busy_s == {7: (pytest.approx(510e-6),) * 2, 20: (pytest.approx(150e-6),) * 2}
    assert [step.is_steady for step in result.steps] == [True, True, False]


def test_critical_path_fills_the_window(plain):
    traces, graph = _graph(plain)
    timeline = simulate(graph)
    path = critical_path(traces, graph, timeline, (300_000, 600_000))
    times = time_by_kind(path, 300e-6)
    assert sum(times.values()) == pytest.approx(300e-6, rel=1e-6)
    assert times["communication"] == pytest.approx(50e-6)
    assert all(before.end_s <= after.start_s + 1e-12 for before, after in zip(path, path[1:], strict=False))


def test_circle_is_reported(plain):
    _, graph = _graph(plain)
    last = Edges.of(np.array([5]), np.array([4]), Dependency.CROSS_THREAD, np.array([0]))
    looped = graph.without(Dependency.CONTENTION)
    from dataclasses import replace as changed

    with pytest.raises(FileFormatError, match="circle"):
        simulate(changed(looped, edges=stack_edges([looped.edges, last])))


def test_trace_without_correlation_ids(fixtures):
    with pytest.raises(FileFormatError, match="correlation"):
        _graph(fixtures / "no_correlation" / "trace.json")


def test_replay_is_deterministic(plain):
    _, graph = _graph(plain)
    one, other = simulate(graph), simulate(graph)
    for first, second in zip(one, other, strict=True):
        np.testing.assert_array_equal(first, second)
