"""Hand-worked and property: matrix-multiplication benchmarks as CSV and as printed lines, and their fit."""

from __future__ import annotations

import contextlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from surrogate.errors import FileFormatError, InputError, SurrogateError
from surrogate.ingest.exports import calibrate_matmul, fit_matmul, parse_matmul, read_matmul
from surrogate.ingest.exports.matmul import MatmulMeasurement

CUBE = 2.0 * 4096**3


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("m,n,k,dtype,time_ms\n4096,4096,4096,bfloat16,0.2\n", 0.2e-3),
        ("M;N;K;dtype;Time (us)\n4096;4096;4096;torch.bfloat16;200\n", 200e-6),
        ("m,n,k,dtype,time\n4096,4096,4096,bf16,0.0002\n", 0.0002),
        ("dtype,m,n,k,TFLOPs\nbf16,4096,4096,4096,687.19\n", CUBE / 687.19e12),
        ("# comment\nm\tn\tk\tdtype\tGFLOP/s\n4096\t4096\t4096\tbf16\t687190\n", CUBE / 687190e9),
        ("dtype bf16\n4096x4096x4096: 687.19 TFLOPS\n", CUBE / 687.19e12),
        (
            "torch.bfloat16\n   12 | 687.2(mean) 687.19(median) 700.0(max) @ 4096x4096x4096 | best: 999.9(mean)\n",
            CUBE / 687.19e12,
        ),
        ("bf16 median: 687.19 TFLOPS @ 4096x4096x4096 (MxNxK)\n", CUBE / 687.19e12),
        ("bf16 m=4096, n=4096, k=4096, time=0.2 ms\n", 0.2e-3),
    ],
)
def test_each_way_of_printing_gives_the_same_time(text: str, seconds: float) -> None:
    (one,) = parse_matmul(text)
    assert one.time_s == pytest.approx(seconds)
    assert (one.m, one.n, one.k, one.dtype) == (4096, 4096, 4096, "bf16")


def test_batched_products_count_each() -> None:
    (one,) = parse_matmul("batch,m,n,k,dtype,tflops\n8,128,128,64,fp16,10\n")
    assert one.flops == 8 * 2 * 128 * 128 * 64
    assert one.flops_per_s == pytest.approx(10e12)


def table(efficiency: float, half: float, peak: float = 989.4e12) -> list[MatmulMeasurement]:
    sizes = [128, 256, 512, 1024, 2048, 4096, 8192, 16384]
    return [
        MatmulMeasurement(m=s, n=s, k=s, dtype="bf16", time_s=(2.0 * s**3 + half) / (peak * efficiency)) for s in sizes
    ]


@settings(max_examples=25, deadline=None)
@given(st.floats(0.3, 0.95), st.floats(1e9, 1e11))
def test_the_fit_returns_what_was_put_in(efficiency: float, half: float) -> None:
    (fit,) = calibrate_matmul(table(efficiency, half), "H100-80GB")
    assert fit.max_efficiency == pytest.approx(efficiency, rel=0.02)
    assert fit.half_flops == pytest.approx(half, rel=0.03)
    assert fit.efficiency(half) == pytest.approx(efficiency / 2, rel=0.03)


def test_large_products_only_leave_the_half_point_open() -> None:
    fit = fit_matmul(table(0.7, 1e6)[-4:], peak_flops_per_s=989.4e12, precision="bf16")
    assert fit.half_flops_log_sd == 3.0
    assert fit.max_efficiency == pytest.approx(0.7, rel=0.02)


def test_efficiency_never_exceeds_the_peak_and_a_wrong_peak_is_refused() -> None:
    fit = fit_matmul(table(1.02, 1e9), peak_flops_per_s=989.4e12, precision="bf16")
    assert fit.max_efficiency <= 1.0
    with pytest.raises(InputError, match="dense peak"):
        calibrate_matmul(table(0.7, 1e9), "A100-80GB")


def test_unnamed_data_type_and_too_few_shapes(tmp_path) -> None:  # type: ignore[no-untyped-def]
    text = "m,n,k,tflops\n" + "".join(f"{s},{s},{s},500\n" for s in (1024, 2048, 4096))
    with pytest.raises(InputError, match="precision"):
        calibrate_matmul(parse_matmul(text), "H100-80GB")
    (fit,) = calibrate_matmul(parse_matmul(text), "H100-80GB", precision="bf16")
    assert fit.num_shapes == 3
    with pytest.raises(InputError, match="at least 3 shapes"):
        calibrate_matmul(parse_matmul(text)[:2], "H100-80GB", precision="bf16")
    path = tmp_path / "prose.txt"
    path.write_text("no products here\n")
    with pytest.raises(FileFormatError, match="matrix shape"):
        read_matmul(path)


@settings(max_examples=150, deadline=None)
@given(
    st.lists(
        st.sampled_from(
            [
                "m,n,k",
                "dtype",
                ",",
                "\n",
                "4096x4096x4096",
                " TFLOPS",
                "@",
                "1e9",
                "-3",
                "0",
                "nan",
                "m=1 n=2 k=3",
                "bf16",
                "ms",
                "(median)",
                '"',
            ]
        ),
        max_size=40,
    ).map("".join)
)
def test_broken_tables_never_give_a_traceback_or_a_bad_time(text: str) -> None:
    measurements = parse_matmul(text)
    assert all(np.isfinite(one.time_s) and one.time_s > 0 for one in measurements)
    with contextlib.suppress(SurrogateError):
        calibrate_matmul(measurements, "H100-80GB", precision="bf16")
