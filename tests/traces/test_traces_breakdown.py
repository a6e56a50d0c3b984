"""Breakdown of the plain trace, worked by hand."""

import pytest

from surrogate.traces.breakdown import break_down_steps, busy_per_stream, busy_share, class_times, rows_occupancy
from surrogate.traces.kinds import KernelClass, classify_kernel
from surrogate.traces.phases import device_phases, is_training, step_phases
from surrogate.traces.rates import collective_rates, matrix_products, matrix_rates
from surrogate.traces.reader import read_trace, read_traces
from surrogate.traces.replay import steady_mean_s
from surrogate.traces.steps import find_steps, launched_rows
from surrogate.traces.stragglers import find_stragglers


def test_plain_step(plain):
    steps = break_down_steps(read_trace(plain))
    assert [step.period_s for step in steps] == [pytest.approx(300e-6), pytest.approx(300e-6), None]
    for step in steps:
        assert (step.kernels_launched, step.kernels_started) == (4, 4)
        launched = step.launched
        assert launched.span_s == pytest.approx(225e-6)  # first product at 30 us, optimizer ends at 255 us
        assert launched.exposed_compute_s == pytest.approx(170e-6)
        assert launched.exposed_communication_s == pytest.approx(50e-6)
        assert launched.idle_s == pytest.approx(5e-6)
        assert step.window.busy_s == pytest.approx(220e-6)


@pytest.mark.parametrize(
    "oddity", ["plain", "cuda_graph", "overlap_on_one_stream", "host_runs_ahead", "several_devices"]
)
def test_parts_sum_to_the_span(fixtures, oddity):
    for step in break_down_steps(read_trace(fixtures / oddity / "trace.json")):
        for part in (step.window, step.launched):
            total = part.exposed_compute_s + part.exposed_communication_s + part.overlapped_s + part.idle_s
            assert total == pytest.approx(part.span_s, rel=1e-9)


def test_classes_and_streams(plain):
    trace = read_trace(plain)
    rows = trace.main_device_rows
    times = {each.kernel_class: (each.total_s, each.num_events) for each in class_times(trace, rows)}
    assert times == {
        "matmul": (pytest.approx(420e-6), 6),
        "communication": (pytest.approx(150e-6), 3),
        "optimizer": (pytest.approx(90e-6), 3),
    }
    assert busy_per_stream(trace, rows) == {7: pytest.approx(510e-6), 20: pytest.approx(150e-6)}


def test_busy_share_adds_up(fixtures):
    for oddity in ("plain", "host_runs_ahead", "cuda_graph"):
        trace = read_trace(fixtures / oddity / "trace.json")
        share = busy_share(trace, trace.main_device_rows)
        assert share.bin_s == pytest.approx(1e-3)
        busy_s = rows_occupancy(trace, trace.main_device_rows).busy_s
        assert sum(share.shares) * share.bin_s == pytest.approx(busy_s, abs=1e-4 * share.bin_s)


def test_main_device_is_the_busiest(fixtures):
    trace = read_trace(fixtures / "several_devices" / "trace.json")
    assert trace.main_device == 0
    assert len(trace.main_device_rows) == 12


def test_matrix_and_collective_rates(plain):
    trace = read_trace(plain)
    (rate,) = matrix_rates(matrix_products(trace))
    # 2 * 1024 * 2048 * 4096 FLOPs twice per step in 60 + 80 us.
    assert rate.number_format == "bits16"
    assert rate.flops_per_s == pytest.approx(2 * 2 * 1024 * 2048 * 4096 / 140e-6)
    (call,) = collective_rates(trace)
    # 2 MB, two ranks: 2 (n - 1) / n = 1, in 50 us.
    assert (call.operation, call.group_size, call.bus_bytes_per_s) == ("allreduce", 2, pytest.approx(2e6 / 50e-6))


def test_phases_sum_to_the_step(plain):
    trace = read_trace(plain)
    steps = find_steps(trace)
    own = launched_rows(trace, steps, trace.main_device_rows)[0]
    phases = step_phases(trace, own, device_phases(trace), (trace.start_ns[own], trace.end_ns[own]), 300_000)
    assert phases.forward_s == pytest.approx(61e-6)  # to the start of the backward product
    assert phases.backward_s == pytest.approx(134e-6)  # to the start of the optimizer kernel
    assert phases.optimizer_s == pytest.approx(30e-6)
    assert sum(phases[:4]) == pytest.approx(300e-6)


def test_host_that_runs_ahead_is_not_steady(fixtures):
    steps = break_down_steps(read_trace(fixtures / "host_runs_ahead" / "trace.json"))
    assert [step.period_s for step in steps[:3]] == [pytest.approx(40e-6), pytest.approx(40e-6), pytest.approx(200e-6)]
    assert steady_mean_s(steps) == pytest.approx(200e-6)


def test_steps_from_the_optimizer(fixtures):
    trace = read_trace(fixtures / "no_profiler_step" / "trace.json")
    steps = find_steps(trace)
    assert [step.end_ns - step.start_ns for step in steps] == [300_000] * 4
    assert not any(step.from_annotation for step in steps)


def test_training_is_told_from_inference(fixtures, plain):
    assert is_training(read_trace(plain))
    assert not is_training(read_trace(fixtures / "inference_only" / "trace.json"))


def test_straggler(fixtures):
    late, early = find_stragglers(read_traces([fixtures / "two_ranks"], max_workers=1))
    assert (late.rank, late.mean_lateness_s, late.last_fraction) == (1, pytest.approx(20e-6), 1.0)
    assert (early.rank, early.mean_lateness_s, early.last_fraction) == (0, 0.0, 0.0)


@pytest.mark.parametrize(
    ("name", "kernel_class"),
    [
        ("ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t(ncclWorkElem)", KernelClass.COMMUNICATION),
        ("void deep_ep::internode::combine<8>(int4*)", KernelClass.COMMUNICATION),
        ("rcclGenericKernel<1>", KernelClass.COMMUNICATION),
        ("nvjet_hsh_128x256_64x4_1x2_h_bz_coopA_TNT", KernelClass.MATMUL),
        ("Cijk_Ailk_Bljk_BBS_BH_MT128x128x32", KernelClass.MATMUL),
        ("void flash_fwd_kernel<Flash_fwd_kernel_traits<128>>", KernelClass.ATTENTION),
        ("void at::native::multi_tensor_apply_kernel<FusedAdam>", KernelClass.OPTIMIZER),
        ("void cudnn::bn_bw_1C11_kernel_new<float>", KernelClass.NORM),
        ("void at::native::elementwise_kernel<4, ...{lambda(float)#1}>", KernelClass.ELEMENTWISE),
        ("Memcpy DtoH (Device -> Pageable)", KernelClass.COPY),
        ("Memset (Device)", KernelClass.MEMSET),
        ("something_else", KernelClass.OTHER),
    ],
)
def test_kernel_classes(name, kernel_class):
    assert classify_kernel(name) is kernel_class
