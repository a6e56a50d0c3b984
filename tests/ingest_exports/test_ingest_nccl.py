"""Hand-worked and property: nccl-tests output of several ages, and the fit that gives back what was put in."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from surrogate.errors import FileFormatError, InputError, SurrogateError
from surrogate.ingest.exports import calibrate_network, parse_nccl_tests, read_nccl_tests, traffic_factor

HEADER = """# nThread 1 nGpus 1 minBytes 8 maxBytes 8589934592 step: 2(factor) warmup iters: 5 iters: 20 agg iters: 1
#
# Using devices
"""
COLUMNS = """#
#                                                              out-of-place                       in-place
#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)
"""


def output(latency_s: float, bandwidth: float, *, ranks: int = 16, hosts: int = 2, name: str = "all_reduce") -> str:
    """Print what a network of this latency and bus bandwidth would give."""
    lines = [f"# Collective test starting: {name}_perf\n", HEADER]
    for rank in range(ranks):
        host = f"node{rank * hosts // ranks}"
        lines.append(
            f"#  Rank {rank:2} Group  0 Pid {100 + rank} on {host} device {rank % 8:2} [0x07] NVIDIA H100 80GB HBM3\n"
        )
    lines.append(COLUMNS)
    factor = traffic_factor(name, ranks)
    for power in range(10, 34):
        size = 2**power
        seconds = latency_s + factor * size / bandwidth
        rate = size / seconds / 1e9
        half = f"{seconds * 1e6:8.2f} {rate:7.2f} {rate * factor:7.2f}"
        lines.append(f"{size:12} {size // 4:13} {'float':>9} {'sum':>7} {-1:7} {half}      0 {half}    N/A\n")
    return "".join([*lines, "# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 99.9\n"])


def test_a_line_is_two_measurements_in_si_units() -> None:
    text = (
        HEADER
        + "#  Rank  0 Group  0 Pid 1 on a device 0 [0x0] H100\n#  Rank  1 Group  0 Pid 2 on b device 0 [0x0] H100\n"
        + COLUMNS
        + "  1073741824     268435456     float     sum      -1"
        + "  6669.78  160.99  301.85       0  6678.26  160.78  301.47  N/A\n"
    )
    out, in_place = parse_nccl_tests("mpirun ./all_reduce_perf -b 1G -e 1G\n" + text)
    assert (out.collective, out.message_bytes, out.num_ranks, out.num_nodes) == ("all_reduce", 2**30, 2, 2)
    assert out.time_s == pytest.approx(6669.78e-6)
    assert out.busbw_bytes_per_s == pytest.approx(301.85e9)
    assert (out.in_place, in_place.in_place) == (False, True)
    assert in_place.algbw_bytes_per_s == pytest.approx(160.78e9)


def test_older_columns_without_root_and_launcher_prefixes() -> None:
    text = (
        "[1,0]<stdout>:# nThread 1 nGpus 8 minBytes 8 maxBytes 8 step: 2(factor) warmup iters: 5 iters: 20\n"
        "[1,0]<stdout>:#       size         count    type   redop"
        "     time   algbw   busbw  error     time   algbw   busbw  error\n"
        "[1,0]<stdout>:    33554432       8388608   float     sum"
        "    425.1   78.93  138.13  1e-07    424.0   79.14  138.49  0e+00\n"
    )
    one = parse_nccl_tests(text)
    assert [round(m.time_s * 1e6, 1) for m in one] == [425.1, 424.0]
    assert {m.collective for m in one} == {"all_reduce"}
    assert {m.num_ranks for m in one} == {8}, "138.13 / 78.93 = 1.75 = 2 x 7 / 8"


def test_out_of_place_only_and_wrong_values() -> None:
    text = (
        "#  size  count  type  redop  root  time  algbw  busbw  #wrong\n"
        "  17179869184  2147483648  float  none  -1  375880  45.71  22.85  0\n"
        "  8589934592  1073741824  float  none  -1  187940  45.71  22.85  7\n"
    )
    good, bad = parse_nccl_tests(text, name="all_gather_2n.txt")
    assert (good.collective, good.num_ranks, good.num_wrong) == ("all_gather", 2, 0)
    assert bad.num_wrong == 1


def test_several_tests_in_one_file_are_told_apart() -> None:
    text = output(1e-5, 4e11) + output(2e-5, 2e11, name="reduce_scatter") + output(1e-5, 4e11, hosts=1, ranks=8)
    fits = calibrate_network(parse_nccl_tests(text))
    assert [(fit.collective, fit.num_ranks, fit.scope) for fit in fits] == [
        ("all_reduce", 16, "inter-node"),
        ("reduce_scatter", 16, "inter-node"),
        ("all_reduce", 8, "intra-node"),
    ]


@settings(max_examples=25, deadline=None)
@given(
    st.floats(2e-6, 1e-4), st.floats(1e9, 9e11), st.sampled_from(["all_reduce", "all_gather", "alltoall", "sendrecv"])
)
def test_the_fit_returns_what_was_put_in(latency_s: float, bandwidth: float, name: str) -> None:
    (fit,) = calibrate_network(parse_nccl_tests(output(latency_s, bandwidth, name=name)))
    assert fit.latency_s == pytest.approx(latency_s, rel=0.02)
    assert fit.bandwidth_bytes_per_s == pytest.approx(bandwidth, rel=0.02)
    assert fit.latency_log_mean == pytest.approx(math.log(fit.latency_s))
    assert 0.02 <= fit.latency_log_sd < 0.2 and 0.02 <= fit.bandwidth_log_sd < 0.2
    assert fit.scope == "inter-node"


def test_outliers_do_not_move_the_fit() -> None:
    lines = output(1e-5, 4e11).splitlines()
    rows = [index for index, line in enumerate(lines) if " float " in line]
    for index in rows[3::9]:
        cells = lines[index].split()
        cells[5] = cells[9] = str(float(cells[5]) * 20)
        lines[index] = " ".join(cells)
    (fit,) = calibrate_network(parse_nccl_tests("\n".join(lines)))
    assert fit.bandwidth_bytes_per_s == pytest.approx(4e11, rel=0.1)


def test_large_sizes_only_leave_the_latency_open() -> None:
    lines = output(1e-6, 1e11).splitlines()
    rows = [line for line in lines if " float " in line]
    kept = [line for line in lines if " float " not in line or line in rows[-4:]]
    (fit,) = calibrate_network(parse_nccl_tests("\n".join(kept)))
    assert fit.latency_log_sd == 3.0
    assert fit.bandwidth_log_sd < 0.1


def test_too_few_sizes_and_no_result_line(tmp_path) -> None:  # type: ignore[no-untyped-def]
    text = COLUMNS + "  1024  256  float  sum  -1  10.0  0.1  0.2  0  10.0  0.1  0.2  0\n"
    with pytest.raises(InputError, match="at least 3 message sizes"):
        calibrate_network(parse_nccl_tests(text))
    empty = tmp_path / "out.txt"
    empty.write_text("NCCL version 2.20\n")
    with pytest.raises(FileFormatError, match="nccl-tests"):
        read_nccl_tests(empty)


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 3000), st.integers(0, 3000), st.text(max_size=20), st.integers(0, 2**32))
def test_broken_output_never_gives_a_traceback_or_a_bad_time(a: int, b: int, inserted: str, seed: int) -> None:
    text = output(1e-5, 4e11)
    broken = text[:a] + inserted + text[min(a, b) :]
    words = broken.split(" ")
    random.Random(seed).shuffle(words)
    for candidate in (broken, " ".join(words)):
        measurements = parse_nccl_tests(candidate)
        assert all(one.time_s > 0 and np.isfinite(one.time_s) for one in measurements)
        try:
            for fit in calibrate_network(measurements):
                assert np.isfinite([fit.latency_log_mean, fit.bandwidth_log_mean]).all()
        except SurrogateError:
            pass
