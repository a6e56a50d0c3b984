"""Achieved rates: FLOP/s of matrix products, bandwidth of collectives and of device copies."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

import numpy as np

from surrogate.traces.breakdown import seconds
from surrogate.traces.columns import ABSENT, BoolArray, Collective, FloatArray, IntArray, Trace
from surrogate.traces.kinds import CLASSES, EventKind, KernelClass
from surrogate.traces.links import enclosing, host_parents, launch_rows
from surrogate.units import GIGA

MIN_COPY_BYTES: Final = 2**20
"""Smaller copies measure latency, not bandwidth."""
_DEVICE_COPY: Final = re.compile(r"DtoD|Device -> Device")
_FP8: Final = re.compile(r"fp8|e4m3|e5m2|f8f8|_qq", re.IGNORECASE)
_BITS_16: Final = re.compile(r"bf16|fp16|f16|half|hmma|16816|h884|nvjet_[ht]s[ht]|_bbs|_hhs|b16", re.IGNORECASE)
_TF32: Final = re.compile(r"tf32|s1688|s16816tf32", re.IGNORECASE)


class MatrixProduct(NamedTuple):
    """One matrix-product operator: FLOPs by its shapes, time of the kernels it launched, arithmetic format."""

    flops: float
    time_s: float
    number_format: str


class MatrixRate(NamedTuple):
    """Achieved rate of all matrix products in one number format."""

    number_format: str
    num_products: int
    flops: float
    time_s: float

    @property
    def flops_per_s(self) -> float:
        """FLOPs of all products over the time of their kernels."""
        return self.flops / self.time_s if self.time_s else 0.0


class CollectiveRate(NamedTuple):
    """Achieved bandwidth of one kind of collective in one group size.

    ``bus_bytes_per_s`` is what each rank's link carried: message x factor / time, with the factor of the ring
    algorithm. Time includes waiting for other ranks, so `best` (upper decile) is nearer to the wire.
    """

    operation: str
    group_size: int
    num_calls: int
    bus_bytes: float
    time_s: float
    bus_bytes_per_s: float
    best_bus_bytes_per_s: float


def number_format(kernel_name: str) -> str:
    """Return fp8, bits16, tf32 or fp32, as the name of a matrix-product kernel tells."""
    if _FP8.search(kernel_name):
        return "fp8"
    if _TF32.search(kernel_name):
        return "tf32"
    return "bits16" if _BITS_16.search(kernel_name) else "fp32"


def matrix_products(trace: Trace) -> list[MatrixProduct]:
    """Return the matrix-product operators whose shapes and kernels are recorded."""
    operators = np.flatnonzero(trace.flops > 0)
    if not len(operators):
        return []
    launches = launch_rows(trace)
    rows = np.flatnonzero((launches != ABSENT) & _counts_as_product(trace))
    owner = enclosing(trace, host_parents(trace), launches[rows], operators)
    rows, owner = rows[owner != ABSENT], owner[owner != ABSENT]
    time_ns = np.bincount(owner, weights=trace.duration_ns[rows], minlength=len(trace))
    longest = np.full(len(trace), ABSENT, np.int64)
    for row in rows[np.argsort(trace.duration_ns[rows])].tolist():
        longest[owner[np.searchsorted(rows, row)]] = row
    return [
        MatrixProduct(
            float(trace.flops[each]), seconds(time_ns[each]), number_format(trace.names[trace.name[longest[each]]])
        )
        for each in operators.tolist()
        if time_ns[each] > 0
    ]


def matrix_rates(products: list[MatrixProduct]) -> list[MatrixRate]:
    """Sum matrix products by number format, most time first."""
    rates = []
    for name in {product.number_format for product in products}:
        own = [product for product in products if product.number_format == name]
        rates.append(MatrixRate(name, len(own), sum(p.flops for p in own), sum(p.time_s for p in own)))
    return sorted(rates, key=lambda rate: -rate.time_s)


def bus_bytes(call: Collective) -> float:
    """Return the bytes that cross each rank's link in one call, by the ring algorithm; 0 where unknown.

    Examples
    --------
    >>> bus_bytes(Collective("allreduce", "0", 4, 100.0, 100.0, 1))
    150.0
    """
    n = call.group_size
    if n < 2:
        return call.input_bytes if call.operation in {"send", "recv"} else 0.0
    share = (n - 1) / n
    if call.operation.startswith("allreduce"):
        return 2 * share * call.input_bytes
    if "gather" in call.operation:
        return share * max(call.output_bytes, call.input_bytes)
    if call.operation in {"send", "recv", "broadcast", "reduce"}:
        return max(call.input_bytes, call.output_bytes)
    return share * max(call.input_bytes, call.output_bytes)


def collective_rates(trace: Trace) -> list[CollectiveRate]:
    """Return achieved bandwidths by operation and group size, from kernels that carry metadata."""
    groups: dict[tuple[str, int], list[tuple[float, float]]] = {}
    for row, call in trace.collectives.items():
        time_s = seconds(int(trace.duration_ns[row]))
        if trace.kind[row] == EventKind.KERNEL and time_s > 0 and (carried := bus_bytes(call)):
            groups.setdefault((call.operation, call.group_size), []).append((carried, time_s))
    rates = []
    for (operation, size), calls in groups.items():
        moved_bytes, times = (np.array(column) for column in zip(*calls, strict=True))
        best = float(np.quantile(moved_bytes / times, 0.9))
        total, time_s = float(moved_bytes.sum()), float(times.sum())
        rates.append(CollectiveRate(operation, size, len(calls), total, time_s, total / time_s, best))
    return sorted(rates, key=lambda rate: -rate.time_s)


def device_copy_rates(trace: Trace) -> FloatArray:
    """Return the memory traffic of large copies inside the device, bytes/s (read and write counted), shape (k,)."""
    codes = [code for code, name in enumerate(trace.names) if _DEVICE_COPY.search(name)]
    rows = np.flatnonzero(
        (trace.kind == EventKind.COPY)
        & np.isin(trace.name, codes)
        & (trace.moved_bytes >= MIN_COPY_BYTES)
        & (trace.duration_ns > 0)
    )
    rates: FloatArray = 2.0 * trace.moved_bytes[rows] / (trace.duration_ns[rows] / GIGA)
    return rates


def _counts_as_product(trace: Trace) -> BoolArray:
    """Device events whose time is a matrix product's: kernels of any class but communication, no memsets."""
    codes: IntArray = trace.kernel_class.astype(np.int64)
    communication = CLASSES.index(KernelClass.COMMUNICATION)
    counts: BoolArray = (trace.kind == EventKind.KERNEL) & (codes != communication)
    return counts
