"""Which tasks belong to the repeated layers of a model, told by how often their kernels run."""

from __future__ import annotations

import numpy as np

from surrogate.traces.collectives import collective_rows
from surrogate.traces.columns import ABSENT, BoolArray, IntArray, Trace
from surrogate.traces.graph import TaskGraph
from surrogate.traces.kinds import EventKind
from surrogate.traces.links import host_parents, launch_rows
from surrogate.traces.phases import Phase, device_phases
from surrogate.traces.steps import find_steps, launched_rows


def in_layers(trace: Trace, graph: TaskGraph, tasks: IntArray, num_layers: int) -> BoolArray:
    """Tell which of one rank's tasks belong to the model's layers.

    Parameters
    ----------
    trace : Trace
    graph : TaskGraph
    tasks : array of int, shape (k,)
        Tasks of this trace.
    num_layers : int
        Layers of the traced model on this rank.

    Notes
    -----
    A kernel (name and phase) that runs a multiple of `num_layers` times in a step is of the layers, with the
    operators that launched it. Collectives are left out: gradient buckets do not follow the layers.
    """
    layered = _layer_rows(trace, num_layers)
    calls = launch_rows(trace)[layered]
    parents = _operator_parents(trace)
    owners = np.unique(_outermost(parents, calls[calls != ABSENT]))
    rows, device = graph.row[tasks], graph.is_device[tasks]
    return np.where(device, np.isin(rows, layered), np.isin(_outermost(parents, rows), owners))


def _layer_rows(trace: Trace, num_layers: int) -> IntArray:
    rows = trace.main_device_rows
    kernels = rows[(trace.kind[rows] == EventKind.KERNEL) & ~np.isin(rows, collective_rows(trace))]
    key = trace.name.astype(np.int64) * len(Phase) + device_phases(trace)
    steps = launched_rows(trace, find_steps(trace), kernels)
    sample = max(steps, key=len) if steps else kernels
    values, counts = np.unique(key[sample], return_counts=True)
    layered: IntArray = kernels[np.isin(key[kernels], values[counts % num_layers == 0])]
    return layered


def _operator_parents(trace: Trace) -> IntArray:
    """Parents without annotations: a step or a profiling range is not part of a layer."""
    parents = host_parents(trace)
    under_annotation = (parents != ABSENT) & (trace.kind[parents] == EventKind.ANNOTATION)
    return np.where(under_annotation, ABSENT, parents)


def _outermost(parents: IntArray, rows: IntArray) -> IntArray:
    """Return the outermost operator around each row: the row itself where there is none."""
    current = rows.copy()
    while (inner := parents[current] != ABSENT).any():
        current[inner] = parents[current[inner]]
    return current
