"""What-if edits: their text form, and those that change task lengths.

An edit is ``name=value`` or ``name=from:to``. Kernel classes and `collective_bandwidth` take a factor ("k times
faster"); dp, layers and hidden take two sizes and scale the lengths of the tasks they concern.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Final, NamedTuple

import numpy as np

from surrogate.errors import InputError, UnknownNameError
from surrogate.traces.collectives import collective_rows
from surrogate.traces.columns import FloatArray, IntArray, Trace
from surrogate.traces.graph import Dependency, TaskGraph
from surrogate.traces.kinds import CLASSES, KernelClass
from surrogate.traces.layers import in_layers
from surrogate.traces.phases import Phase, device_phases
from surrogate.traces.rates import matrix_products
from surrogate.units import GIGA

BANDWIDTH: Final = "collective_bandwidth"
SIZES: Final = ("dp", "layers", "hidden")
LAYOUT: Final = ("pp", "vp", "microbatches", "send_s")
EDIT_NAMES: Final = (*(each.value for each in CLASSES), BANDWIDTH, *SIZES, *LAYOUT)
FIXED_KERNEL_NS: Final = 2000.0
"""Part of a kernel that does not scale with its work, where the trace's own matrix products do not tell it."""
_RING: Final = re.compile(r"all_?reduce|reduce_?scatter|all_?gather", re.IGNORECASE)
_HIDDEN_SQUARED: Final = frozenset({KernelClass.MATMUL, KernelClass.OPTIMIZER})
_HIDDEN_FREE: Final = frozenset({KernelClass.CONVOLUTION, KernelClass.COPY, KernelClass.OTHER})


class Edit(NamedTuple):
    """One change: `source` is the traced value where the edit names it, else None."""

    name: str
    source: float | None
    value: float

    def __str__(self) -> str:
        return f"{self.name}={self.value:g}" if self.source is None else f"{self.name}={self.source:g}:{self.value:g}"

    def ratio(self) -> float:
        """Return new over traced value.

        Raises
        ------
        InputError
            When the traced value is not named.
        """
        if self.source is None:
            raise InputError(
                f"--what-if {self.name}",
                "needs the traced value",
                self.value,
                f"write {self.name}=TRACED:{self.value:g}",
            )
        return self.value / self.source


def parse_edit(text: str) -> Edit:
    """Read ``name=value`` or ``name=from:to``; every number must be positive.

    Raises
    ------
    InputError
        When the name is unknown or a value is not a positive number.

    Examples
    --------
    >>> parse_edit("layers=24:48").ratio()
    2.0
    """
    name, equals, values = text.partition("=")
    name = name.strip().replace("-", "_").lower()
    if name not in EDIT_NAMES:
        raise UnknownNameError("--what-if", name, [], f"one of {', '.join(EDIT_NAMES)}")
    source, colon, value = values.rpartition(":")
    edit = Edit(name, _positive(text, source) if colon else None, _positive(text, value if equals else ""))
    if name in {"pp", "vp", "microbatches", "layers"} and not all(
        each is None or float(each).is_integer() for each in (edit.source, edit.value)
    ):
        raise InputError(f"--what-if {name}", "must be a whole number", values)
    return edit


def scale_durations(traces: Sequence[Trace], graph: TaskGraph, edits: Sequence[Edit]) -> TaskGraph:
    """Apply the edits that change task lengths, in order; those of the layout are left to `predict_layout`.

    Raises
    ------
    InputError
        When an edit concerns no task of the trace.
    """
    for edit in edits:
        if edit.name in LAYOUT:
            continue
        factors = np.ones(len(graph))
        for position, trace in enumerate(traces):
            _rank_factors(trace, graph, position, edit, factors)
        if (factors == 1.0).all() and edit.value != edit.source and edit.value != 1.0:
            raise InputError(
                f"--what-if {edit.name}", "must concern some task of the trace", str(edit), "there is none"
            )
        graph = _scaled(graph, factors)
    return graph


def _positive(text: str, number: str) -> float:
    try:
        value = float(number)
    except ValueError:
        value = 0.0
    if not 0.0 < value < GIGA:
        raise InputError("--what-if", "must read NAME=VALUE or NAME=FROM:TO with positive numbers", text)
    return value


def _scaled(graph: TaskGraph, factors: FloatArray) -> TaskGraph:
    """Scale lengths, and the host gaps that lead to scaled host tasks."""
    edges = graph.edges
    lag = edges.lag_ns.astype(np.float64)
    gaps = edges.kind == Dependency.THREAD_ORDER
    lag[gaps] *= factors[edges.target[gaps]]
    scaled = graph.with_durations(graph.duration_ns * factors)
    return replace(scaled, edges=edges._replace(lag_ns=np.rint(lag).astype(np.int64)))


def _rank_factors(trace: Trace, graph: TaskGraph, position: int, edit: Edit, factors: FloatArray) -> None:
    """Set the length factors that one edit gives the tasks of one rank."""
    tasks = np.flatnonzero((graph.rank == position) & graph.is_device)
    rows = graph.row[tasks]
    if edit.name == "layers":
        own = np.flatnonzero(graph.rank == position)
        factors[own[in_layers(trace, graph, own, int(edit.source or 1))]] = edit.ratio()
    elif edit.name == "hidden":
        factors[tasks] = _hidden_factors(trace, rows, edit.ratio())
    elif edit.name == "dp":
        traced = _traced_dp(trace, edit)
        factors[tasks[np.isin(rows, _data_parallel_rows(trace, traced))]] = _ring_share(edit.value) / _ring_share(
            traced
        )
    else:
        name = KernelClass.COMMUNICATION if edit.name == BANDWIDTH else KernelClass(edit.name)
        factors[tasks[trace.kernel_class[rows] == CLASSES.index(name)]] = 1.0 / edit.value


def _data_parallel_rows(trace: Trace, dp: float) -> list[int]:
    """Return the ring collectives over `dp` ranks; without metadata, those of the backward and the optimizer."""
    phases = device_phases(trace)
    chosen = []
    for row in collective_rows(trace).tolist():
        known = trace.collectives.get(row)
        name = known.operation if known else trace.names[trace.name[row]]
        if _RING.search(name) and (known.group_size == dp if known else phases[row] != Phase.FORWARD):
            chosen.append(row)
    return chosen


def _ring_share(num_ranks: float) -> float:
    """Share of the message that crosses a link in a ring of n ranks: (n - 1) / n."""
    return (num_ranks - 1.0) / num_ranks


def _traced_dp(trace: Trace, edit: Edit) -> float:
    traced = edit.source or trace.info.world_size
    if traced is None or traced < 2:
        raise InputError("--what-if dp", "needs a trace with dp > 1", traced, "write dp=TRACED:NEW")
    return float(traced)


def _hidden_factors(trace: Trace, rows: IntArray, ratio: float) -> FloatArray:
    """Work of each kernel as the width changes: squared for weights, linear for activations; a fixed part stays.

    The fixed part is x_half / rate of the saturating efficiency x / (x + x_half), fitted on the trace's products.
    """
    weights = np.isin(trace.kernel_class[rows], [CLASSES.index(each) for each in _HIDDEN_SQUARED])
    communication = trace.kernel_class[rows] == CLASSES.index(KernelClass.COMMUNICATION)
    # Collectives of the backward and the optimizer carry gradients and weights, those of the forward activations.
    weights |= communication & (device_phases(trace)[rows] != Phase.FORWARD)
    unchanged = np.isin(trace.kernel_class[rows], [CLASSES.index(each) for each in _HIDDEN_FREE])
    work = np.where(weights, ratio**2, np.where(unchanged, 1.0, ratio))
    length = np.maximum(trace.duration_ns[rows].astype(np.float64), 1.0)
    fixed = np.minimum(_fixed_part_ns(trace), length)
    factors: FloatArray = (fixed + (length - fixed) * work) / length
    return factors


def _fixed_part_ns(trace: Trace) -> float:
    products = matrix_products(trace)
    flops = np.array([each.flops for each in products])
    if len(flops) < 2 or flops.max() < 4 * flops.min():
        return FIXED_KERNEL_NS
    time_ns = np.array([each.time_s * GIGA for each in products])
    design = np.stack([np.ones_like(flops), flops / flops.max()], axis=1) / time_ns[:, None]
    fixed = float(np.linalg.lstsq(design, np.ones_like(time_ns), rcond=None)[0][0])
    return min(max(fixed, 0.0), float(time_ns.min()))
