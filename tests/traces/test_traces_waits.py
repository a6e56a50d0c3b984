"""What the host waits for: synchronisations with and without records, pageable copies, a full launch queue."""

import json
import math

import numpy as np
import pytest

from surrogate.traces.build import build_graph
from surrogate.traces.calibration import coefficient_priors
from surrogate.traces.reader import read_trace
from surrogate.traces.report import analyse_traces
from surrogate.traces.simulate import simulate

KERNEL = "ampere_bf16_s16816gemm_bf16_128x64_tn"
PRODUCT = "aten::mm"


def _event(category, name, start, length, **arguments):
    tid = arguments.pop("tid", 1)
    return {
        "ph": "X",
        "cat": category,
        "name": name,
        "pid": 1,
        "tid": tid,
        "ts": start,
        "dur": length,
        "args": arguments,
    }


def _call(name, start, length, correlation):
    return _event("cuda_runtime", name, start, length, correlation=correlation)


def _kernel(start, length, correlation, *, name=KERNEL, stream=7, category="kernel"):
    return _event(category, name, start, length, correlation=correlation, stream=stream, device=0)


def _read(tmp_path, events, **document):
    path = tmp_path / "trace.json"
    path.write_text(json.dumps({"traceEvents": events} | document))
    return read_trace(path)


def _ends(tmp_path, events, speed):
    """End of the last host call, us, with kernels `speed` times faster."""
    graph = build_graph([_read(tmp_path, events)])
    lengths = np.where(graph.is_device, 1 / speed, 1.0) * graph.duration_ns
    host = np.flatnonzero(~graph.is_device)
    return simulate(graph.with_durations(lengths)).end_ns[host].max() / 1000


LAUNCHED = [_event("cpu_op", PRODUCT, 0, 12), _call("cudaLaunchKernel", 5, 5, 1), _kernel(10, 100, 1)]
OTHER_STREAM = [_call("cudaLaunchKernel", 11, 1, 2), _kernel(15, 30, 2, stream=8)]


@pytest.mark.parametrize(
    "name", ["cudaStreamSynchronize", "cudaEventSynchronize", "hipStreamSynchronize", "cudaDeviceSynchronize"]
)
def test_synchronisation_returns_with_its_stream(tmp_path, name):
    events = [*LAUNCHED, *OTHER_STREAM, _call(name, 20, 95, 3)]
    assert _ends(tmp_path, events, 1) == 115
    # The kernel of 100 us ends at 60 instead of 110; the 5 us between its end and the return stay.
    assert _ends(tmp_path, events, 2) == 65


def test_recorded_stream_wins(tmp_path):
    """The record names stream 8: its kernel ends at 45, and what is left of the call is host time."""
    record = _event("cuda_sync", "Stream Sync", 20, 40, stream=8, correlation=3, cuda_sync_kind="Stream Synchronize")
    events = [*LAUNCHED, *OTHER_STREAM, _call("cudaStreamSynchronize", 20, 28, 3), record]
    graph = build_graph([_read(tmp_path, events)])
    (sync,) = graph.synchronisations
    (processor,) = sync.processors
    (task,) = np.flatnonzero(graph.processor == processor)
    assert (graph.start_ns[task], sync.residual_ns) == (15_000, 3_000)


def test_short_synchronisation_waits_for_nothing(tmp_path):
    graph = build_graph([_read(tmp_path, [*LAUNCHED, _call("cudaStreamSynchronize", 20, 2, 3)])])
    assert graph.synchronisations == ()


@pytest.mark.parametrize(
    ("call", "copy"),
    [
        ("cudaMemcpyAsync", "Memcpy DtoH (Device -> Pageable)"),
        ("cudaMemcpy", "Memcpy HtoD (Pinned -> Device)"),
        ("hipMemcpyWithStream", "Memcpy DtoD (Device -> Device)"),
    ],
)
def test_blocking_copies(tmp_path, call, copy):
    events = [*LAUNCHED, _call(call, 120, 50, 4), _kernel(130, 35, 4, name=copy, category="gpu_memcpy")]
    assert _ends(tmp_path, events, 1) == 170
    assert _ends(tmp_path, events, 35) == pytest.approx(170 - 34, abs=0.01)


def test_asynchronous_copy_does_not_block(tmp_path):
    copy = _kernel(130, 35, 4, name="Memcpy HtoD (Pinned -> Device)", category="gpu_memcpy")
    graph = build_graph([_read(tmp_path, [*LAUNCHED, _call("cudaMemcpyAsync", 120, 50, 4), copy])])
    assert graph.synchronisations == ()


@pytest.mark.parametrize(("num_kernels", "is_full"), [(1100, True), (300, False)])
def test_full_launch_queue(tmp_path, num_kernels, is_full):
    """Kernels of 10 us launched every us; the last call takes 150 us and, behind a full queue, waits for a kernel."""
    events = [_event("cpu_op", PRODUCT, 0, 1)]
    for number in range(num_kernels):
        events += [_call("cudaLaunchKernel", 2 + number, 1, number + 1), _kernel(10 + 10 * number, 10, number + 1)]
    last = num_kernels + 2
    events += [_call("cudaLaunchKernel", last, 150, 5000), _kernel(10 + 10 * num_kernels, 10, 5000)]
    graph = build_graph([_read(tmp_path, events)])
    assert len(graph.synchronisations) == is_full
    for sync in graph.synchronisations:
        (awaited,) = sync.tasks
        assert graph.end_ns[awaited] == 1_250_000  # the call returns at 1,252 us
        assert sync.residual_ns == 2_000


def test_copies_inside_the_device(tmp_path):
    """4 MiB read and written in 8 us; smaller copies and those over the bus do not count."""
    copy = _kernel(10, 8, 1, name="Memcpy DtoD (Device -> Device)", category="gpu_memcpy")
    small = _kernel(20, 8, 2, name="Memcpy DtoD (Device -> Device)", category="gpu_memcpy")
    bus = _kernel(30, 8, 3, name="Memcpy HtoD (Pinned -> Device)", category="gpu_memcpy")
    for event, size in ((copy, 2**22), (small, 2**10), (bus, 2**22)):
        event["args"]["bytes"] = size
    rank = analyse_traces([_read(tmp_path, [copy, small, bus])]).ranks[0]
    assert rank.device_copy_bytes_per_s == pytest.approx(2 * 2**22 / 8e-6)


def _products(sizes):
    """Square products whose time follows (x + x_half) / rate with rate 600 TFLOP/s and x_half 6 GFLOP."""
    events, now = [_event("user_annotation", "ProfilerStep#1", 0, 100_000)], 10
    for number, size in enumerate(sizes):
        flops = 2.0 * size**3
        length = (flops + 6e9) / 600e12 * 1e6
        dims = [[size, size], [size, size]]
        events += [
            _event("cpu_op", PRODUCT, now, 8, **{"Input Dims": dims}),
            _call("cudaLaunchKernel", now + 2, 2, number + 1),
            _kernel(now + 5, length, number + 1),
        ]
        now += 10 + length
    return [*events, _event("cpu_op", "autograd::engine::evaluate_function: X", now, 1)]


def test_priors_of_matrix_products(tmp_path):
    trace = _read(
        tmp_path,
        _products([1024, 1024, 2048, 2048, 4096, 4096, 8192, 8192]),
        deviceProperties=[{"name": "NVIDIA H100 80GB HBM3", "totalGlobalMem": 84942979072}],
    )
    priors = coefficient_priors([trace])
    assert math.exp(priors["small_matmul"].log_mean) == pytest.approx(6.0, rel=0.02)
    # Large products: 4096 and 8192, at 600 TFLOP/s but for the fixed part; peak 989 TFLOP/s.
    expected = np.mean([math.log(989e12 / 600e12 * (1 + 6e9 / (2.0 * n**3))) for n in (4096, 8192)])
    assert priors["matmul"].log_mean == pytest.approx(expected, abs=0.01)
    assert priors["matmul"].num_samples == 4


def test_products_of_one_size_do_not_tell_the_half_size(tmp_path):
    trace = _read(tmp_path, _products([4096] * 5), deviceProperties=[{"name": "NVIDIA H100 80GB HBM3"}])
    assert set(coefficient_priors([trace])) == {"matmul"}
