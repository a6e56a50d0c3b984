"""Which device work a host call or another stream waits for: recorded where possible, else inferred.

Traces taken with ``cuda_sync`` records name the stream and the event. Without them the call's name and its
place in the thread tell: a stream-wait concerns the next task its thread launches, and the stream waited for is
the one whose last launched task ended latest without contradicting the measured start.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

import numpy as np

from surrogate.traces.columns import ABSENT, IntArray, SyncRecord, Trace
from surrogate.traces.kinds import EventKind

DEVICE_SYNC: Final = re.compile(r"^(cuda|hip)DeviceSynchronize|^(cu|hip)CtxSynchronize")
STREAM_SYNC: Final = re.compile(r"^(cuda|hip|cu)StreamSynchronize")
EVENT_SYNC: Final = re.compile(r"^(cuda|hip|cu)EventSynchronize")
GRAPH_LAUNCH: Final = re.compile(r"^(cuda|hip|cu)GraphLaunch")
STREAM_WAIT: Final = re.compile(r"^(cuda|hip|cu)StreamWaitEvent")
BLOCKING_COPY: Final = re.compile(r"^(cuda|hip|cu)Memcpy(?!.*Async)|^hipMemcpyWithStream")
BLOCKING_DIRECTION: Final = re.compile(r"DtoH|Device -> Pageable|Pageable -> Device")

ROUNDING_NS: Final = 2000
"""Two times closer than this are equal: traces with integer microseconds round both."""
MAX_SKEW_NS: Final = 1_000_000
"""A call that starts this much after the device event is not its launch: ids are used again, clocks differ less."""
BLOCKED_NS: Final = 5000
"""A synchronisation that is shorter did not wait."""
QUEUE_DEPTH: Final = 900
"""Device tasks in flight from which on a long launch call is waiting for room (CUDA's queue holds about 1,024)."""
LONG_LAUNCH_NS: Final = 100_000


class DeviceTasks(NamedTuple):
    """Device events ordered by stream, then time; shape (d,). `stream` is a dense code from 0."""

    row: IntArray
    stream: IntArray
    device: IntArray
    stream_id: IntArray
    start_ns: IntArray
    end_ns: IntArray
    launch_row: IntArray
    launch_ns: IntArray
    """Start of the launch call; 0, before all calls of the trace, where none is recorded."""
    first: IntArray
    """First task of each stream code, with d at the end."""

    def last_launched(self, stream: int, moment_ns: int) -> int:
        """Return the last task of a stream that was launched before a moment; `ABSENT` if none was."""
        low, high = int(self.first[stream]), int(self.first[stream + 1])
        launched = np.maximum.accumulate(self.launch_ns[low:high])
        position = int(np.searchsorted(launched, moment_ns, side="left"))
        return low + position - 1 if position else ABSENT

    @property
    def num_streams(self) -> int:
        """Number of (device, stream) pairs."""
        return len(self.first) - 1


class HostWait(NamedTuple):
    """A host call that waits: its row, the streams or the tasks waited for."""

    row: int
    streams: tuple[int, ...]
    tasks: tuple[int, ...]


def device_tasks(trace: Trace, launches: IntArray) -> DeviceTasks:
    """Order the device events of a trace by stream and attach their launch calls."""
    rows = np.flatnonzero(trace.is_device)
    pairs, code = np.unique(np.stack([trace.device[rows], trace.stream[rows]]), axis=1, return_inverse=True)
    order = np.lexsort((rows, trace.start_ns[rows], code))
    rows, code = rows[order], code[order].astype(np.int64)
    start, launch = trace.start_ns[rows], launches[rows]
    launch = np.where(trace.start_ns[launch] > start + MAX_SKEW_NS, ABSENT, launch)
    return DeviceTasks(
        row=rows,
        stream=code,
        device=trace.device[rows],
        stream_id=trace.stream[rows],
        start_ns=start,
        end_ns=trace.end_ns[rows],
        launch_row=launch,
        launch_ns=np.where(launch == ABSENT, 0, trace.start_ns[launch]),
        first=np.searchsorted(code, np.arange(pairs.shape[1] + 1)),
    )


def rows_matching(trace: Trace, pattern: re.Pattern[str]) -> IntArray:
    """Return the runtime rows whose name matches a pattern, in time order."""
    codes = [code for code, name in enumerate(trace.names) if pattern.match(name)]
    return np.flatnonzero((trace.kind == EventKind.RUNTIME) & np.isin(trace.name, codes))


def host_waits(trace: Trace, tasks: DeviceTasks) -> list[HostWait]:
    """Return the host calls that wait for device work, with what they wait for."""
    recorded = _records_by_correlation(trace)
    waits = [HostWait(row, tuple(range(tasks.num_streams)), ()) for row in rows_matching(trace, DEVICE_SYNC).tolist()]
    for pattern in (STREAM_SYNC, EVENT_SYNC):
        for row in rows_matching(trace, pattern).tolist():
            record = recorded.get(int(trace.correlation[row]))
            stream = _recorded_stream(tasks, record) if record else ABSENT
            if stream == ABSENT:
                stream = _awaited_stream(trace, tasks, row)
            if stream != ABSENT:
                waits.append(HostWait(row, (stream,), ()))
    return waits + _blocking_copies(trace, tasks) + _full_queue(trace, tasks)


def stream_waits(trace: Trace, tasks: DeviceTasks) -> list[tuple[int, int]]:
    """Return (source task, waiting task) for every stream-wait call whose two ends are known."""
    recorded = _records_by_correlation(trace)
    by_launch = np.argsort(tasks.launch_ns, kind="stable")
    launch_ns, launch_lane = tasks.launch_ns[by_launch], trace.lane[tasks.launch_row[by_launch]]
    launch_lane = np.where(tasks.launch_row[by_launch] == ABSENT, ABSENT, launch_lane)
    by_lane = {lane: np.flatnonzero(launch_lane == lane) for lane in np.unique(launch_lane).tolist()}
    pairs: list[tuple[int, int]] = []
    for row in rows_matching(trace, STREAM_WAIT).tolist():
        moment = int(trace.start_ns[row])
        mine = by_lane.get(int(trace.lane[row]), np.zeros(0, np.int64))
        position = int(np.searchsorted(launch_ns[mine], moment, side="right"))
        following = by_launch[mine[position:]]
        record = recorded.get(int(trace.correlation[row]))
        pair = _recorded_pair(trace, tasks, record, following) if record else _inferred_pair(tasks, moment, following)
        if pair:
            pairs.append(pair)
    return pairs


def _records_by_correlation(trace: Trace) -> dict[int, tuple[int, SyncRecord]]:
    return {int(trace.correlation[row]): (int(trace.stream[row]), record) for row, record in trace.syncs.items()}


def _stream_code(tasks: DeviceTasks, stream_id: int) -> int:
    found = np.flatnonzero(tasks.stream_id == stream_id)
    return int(tasks.stream[found[0]]) if len(found) else ABSENT


def _recorded_stream(tasks: DeviceTasks, recorded: tuple[int, SyncRecord]) -> int:
    stream_id, record = recorded
    return _stream_code(tasks, record.record_stream if record.record_stream >= 0 else stream_id)


def _awaited_stream(trace: Trace, tasks: DeviceTasks, row: int) -> int:
    """Stream whose outstanding task ended last before the call returned; `ABSENT` when the call did not wait."""
    start, end = int(trace.start_ns[row]), int(trace.end_ns[row])
    if end - start < BLOCKED_NS:
        return ABSENT
    last = [tasks.last_launched(stream, start) for stream in range(tasks.num_streams)]
    ends = [(int(tasks.end_ns[task]), stream) for stream, task in enumerate(last) if task != ABSENT]
    return max(((moment, stream) for moment, stream in ends if moment <= end + ROUNDING_NS), default=(0, ABSENT))[1]


def _blocking_copies(trace: Trace, tasks: DeviceTasks) -> list[HostWait]:
    """Return the copies the host waits for: synchronous calls, and pageable ones whose call outlasts the copy."""
    waits = []
    for task in np.flatnonzero((trace.kind[tasks.row] == EventKind.COPY) & (tasks.launch_row != ABSENT)).tolist():
        call = int(tasks.launch_row[task])
        by_name = BLOCKING_COPY.match(trace.names[trace.name[call]])
        by_direction = BLOCKING_DIRECTION.search(trace.names[trace.name[tasks.row[task]]])
        if (by_name or by_direction) and tasks.end_ns[task] <= trace.end_ns[call] + ROUNDING_NS:
            waits.append(HostWait(call, (), (task,)))
    return waits


def _full_queue(trace: Trace, tasks: DeviceTasks) -> list[HostWait]:
    """Return the long launch calls made while the queue was full: they return when a running task ends."""
    calls = tasks.launch_row[tasks.launch_row != ABSENT]
    calls = np.unique(calls[trace.duration_ns[calls] > LONG_LAUNCH_NS])
    if not len(calls):
        return []
    ends = np.sort(tasks.end_ns)
    by_end = np.argsort(tasks.end_ns, kind="stable")
    launched = np.searchsorted(np.sort(tasks.launch_ns), trace.start_ns[calls])
    finished = np.searchsorted(ends, trace.end_ns[calls], side="right")
    waiting = (launched - finished >= QUEUE_DEPTH) & (finished > 0)
    return [
        HostWait(call, (), (int(by_end[done - 1]),))
        for call, done in zip(calls[waiting].tolist(), finished[waiting].tolist(), strict=True)
    ]


def _recorded_pair(
    trace: Trace, tasks: DeviceTasks, recorded: tuple[int, SyncRecord], following: IntArray
) -> tuple[int, int] | None:
    waiting_stream, record = _stream_code(tasks, recorded[0]), recorded[1]
    source_stream = _stream_code(tasks, record.record_stream)
    calls = np.flatnonzero((trace.kind == EventKind.RUNTIME) & (trace.correlation == record.record_correlation))
    waiting = following[tasks.stream[following] == waiting_stream]
    if ABSENT in (waiting_stream, source_stream) or not len(calls) or not len(waiting):
        return None
    source = tasks.last_launched(source_stream, int(trace.start_ns[calls[0]]))
    return (
        None if source == ABSENT or tasks.start_ns[source] >= tasks.start_ns[waiting[0]] else (source, int(waiting[0]))
    )


def _inferred_pair(tasks: DeviceTasks, moment_ns: int, following: IntArray) -> tuple[int, int] | None:
    if not len(following):
        return None
    waiting = int(following[0])
    start = int(tasks.start_ns[waiting])
    candidates = [
        tasks.last_launched(stream, moment_ns)
        for stream in range(tasks.num_streams)
        if stream != tasks.stream[waiting] and tasks.device[tasks.first[stream]] == tasks.device[waiting]
    ]
    possible = [
        (int(tasks.end_ns[task]), task)
        for task in candidates
        if task != ABSENT and tasks.end_ns[task] <= start + ROUNDING_NS and tasks.start_ns[task] < start
    ]
    return (max(possible)[1], waiting) if possible else None
