"""Everything the trace verb prints, as one value: breakdown, stragglers, rates, replay, path, what-if."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from surrogate.errors import FileFormatError
from surrogate.traces.breakdown import (
    BusyShare,
    ClassTime,
    Occupancy,
    StepBreakdown,
    break_down_steps,
    busy_per_stream,
    busy_share,
    class_times,
    rows_occupancy,
    seconds,
)
from surrogate.traces.build import build_graph
from surrogate.traces.columns import Trace
from surrogate.traces.critical_path import PathPart, critical_path, time_by_kind
from surrogate.traces.edits import Edit
from surrogate.traces.kinds import EventKind
from surrogate.traces.phases import is_training
from surrogate.traces.rates import (
    CollectiveRate,
    MatrixRate,
    collective_rates,
    device_copy_rates,
    matrix_products,
    matrix_rates,
)
from surrogate.traces.replay import HostClock, Replay, replay, steady_mean_s
from surrogate.traces.simulate import simulate
from surrogate.traces.steps import find_steps
from surrogate.traces.stragglers import Straggler, find_stragglers
from surrogate.traces.whatif import WhatIf, predict_edits

UNEXPLAINED_NOTE: Final = 0.1
"""Shares of unexplained waiting above this are worth a note."""


class RankReport(NamedTuple):
    """One rank: what is in its trace and where the time went."""

    rank: int | None
    path: str
    device_name: str
    num_events: int
    num_kernels: int
    step_time_s: float
    whole: Occupancy
    steps: tuple[StepBreakdown, ...]
    classes: tuple[ClassTime, ...]
    stream_busy_s: dict[int, float]
    busy_share: BusyShare
    matrix_rates: tuple[MatrixRate, ...]
    collective_rates: tuple[CollectiveRate, ...]
    device_copy_bytes_per_s: float | None
    """Median memory traffic of large copies inside the device, read and write counted; None without any."""


class TraceReport(NamedTuple):
    """All ranks; `step_time_s` is the slowest rank's. The last fields are there when a replay was asked for.

    `dependencies_only_step_s` is the step replayed without the device waits that no dependency explains: what the
    graph alone gives.
    """

    step_time_s: float
    ranks: tuple[RankReport, ...]
    stragglers: tuple[Straggler, ...]
    notes: tuple[str, ...]
    replay: Replay | None = None
    dependencies_only_step_s: float | None = None
    path: tuple[PathPart, ...] = ()
    path_time_s: dict[str, float] | None = None
    what_if: WhatIf | None = None


def analyse_traces(traces: Sequence[Trace], *, with_replay: bool = False, edits: Sequence[Edit] = ()) -> TraceReport:
    """Analyse the traces of one job.

    Parameters
    ----------
    traces : sequence of Trace
        One per rank.
    with_replay : bool
        Build the graph, replay it, and find the critical path of the last steady step.
    edits : sequence of Edit
        What-if changes; they imply the replay.

    Raises
    ------
    FileFormatError
        When a trace has no device events.
    InputError
        When an edit does not fit the traces.
    """
    for trace in traces:
        _check_device_events(trace)
    ranks = tuple(_report_rank(trace) for trace in traces)
    report = TraceReport(
        step_time_s=max(rank.step_time_s for rank in ranks),
        ranks=ranks,
        stragglers=tuple(find_stragglers(traces)) if len(traces) > 1 else (),
        notes=tuple(_notes(traces)),
    )
    return _with_replay(report, traces, edits) if with_replay or edits else report


def as_plain(value: object) -> Any:  # noqa: ANN401 - JSON is what it is
    """Return a report as JSON values: tuples with names become objects, with their derived properties."""
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        derived = [name for name, item in vars(type(value)).items() if isinstance(item, property)]
        return {name: as_plain(getattr(value, name)) for name in (*value._fields, *derived)}
    if isinstance(value, Mapping):
        return {str(key): as_plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [as_plain(item) for item in value]
    return value


def _check_device_events(trace: Trace) -> None:
    if trace.is_device.any():
        return
    path, others = trace.info.path, trace.info.accelerator_categories
    if others:
        raise FileFormatError(
            f"{path}: no CUDA or HIP device events, only those of an accelerator this reader does not know"
            f" ({', '.join(others)})"
        )
    raise FileFormatError(
        f"{path}: no GPU events: this trace was recorded on the host only; profile with ProfilerActivity.CUDA"
    )


def _report_rank(trace: Trace) -> RankReport:
    rows, steps = trace.main_device_rows, break_down_steps(trace)
    whole, copies = rows_occupancy(trace, rows), device_copy_rates(trace)
    return RankReport(
        rank=trace.info.rank,
        path=str(trace.info.path),
        device_name=trace.info.device_name,
        num_events=trace.info.num_events,
        num_kernels=int((trace.kind == EventKind.KERNEL).sum()),
        step_time_s=steady_mean_s(steps) if steps else whole.span_s,
        whole=whole,
        steps=tuple(steps),
        classes=tuple(class_times(trace, rows)),
        stream_busy_s=busy_per_stream(trace, rows),
        busy_share=busy_share(trace, rows),
        matrix_rates=tuple(matrix_rates(matrix_products(trace))),
        collective_rates=tuple(collective_rates(trace)),
        device_copy_bytes_per_s=float(np.median(copies)) if len(copies) else None,
    )


def _notes(traces: Sequence[Trace]) -> list[str]:
    notes = []
    for trace in traces:
        name = trace.info.path.name
        if not is_training(trace):
            notes.append(
                f"{name}: no backward pass and no optimizer step: inference only, it cannot calibrate training"
            )
        steps = find_steps(trace)
        if not steps:
            notes.append(f"{name}: no steps (no ProfilerStep, no optimizer annotations): the whole trace counts as one")
        elif not steps[0].from_annotation:
            notes.append(f"{name}: no ProfilerStep: steps are taken from one optimizer call to the next")
        if trace.info.num_devices and len({*trace.device[trace.is_device].tolist()}) > 1:
            notes.append(f"{name}: several devices: occupancy is that of device {trace.main_device}")
    if len(traces) > 1 and len({trace.info.rank for trace in traces}) < len(traces):
        notes.append("several traces share a rank or have none: are they of one job?")
    return notes


def _with_replay(report: TraceReport, traces: Sequence[Trace], edits: Sequence[Edit]) -> TraceReport:
    graph = build_graph(traces)
    timeline = simulate(graph)
    result = replay(traces, graph, timeline)
    window = _path_window(traces, HostClock(graph, timeline, traces[0], 0), int(timeline.end_ns.max()), result)
    path = critical_path(traces, graph, timeline, window)
    notes = [*report.notes]
    if result.unexplained_wait_fraction > UNEXPLAINED_NOTE:
        notes.append(f"{result.unexplained_wait_fraction:.0%} of the device's idle time has no recorded cause")
    return report._replace(
        notes=tuple(notes),
        replay=result,
        dependencies_only_step_s=_dependencies_only_step_s(traces),
        path=tuple(path),
        path_time_s=time_by_kind(path, path[-1].end_s - max(path[0].start_s, seconds(window[0])) if path else 0.0),
        what_if=predict_edits(traces, graph, result, edits) if edits else None,
    )


def _dependencies_only_step_s(traces: Sequence[Trace]) -> float:
    graph = build_graph(traces, keep_unexplained=False)
    return replay(traces, graph, simulate(graph)).replayed_step_s


def _path_window(traces: Sequence[Trace], clock: HostClock, end_ns: int, result: Replay) -> tuple[int, int]:
    """Window of the last steady step of the first rank on the replay's clock; the whole trace without one."""
    steps = find_steps(traces[0])
    rank = 0 if traces[0].info.rank is None else traces[0].info.rank
    steady = [step.number for step in result.steps if step.is_steady and step.rank == rank]
    if not steady:
        return 0, end_ns
    place = next(index for index, step in enumerate(steps) if step.number == steady[-1])
    begin = clock.simulated_ns(steps[place].start_ns, steps[place].lane)
    following = steps[place + 1] if place + 1 < len(steps) else None
    return begin, end_ns if following is None else clock.simulated_ns(following.start_ns, following.lane)
