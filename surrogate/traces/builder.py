"""Events to columns, chunk by chunk: of each event only numbers and name codes stay."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from surrogate.traces.columns import ABSENT, Collective, SyncRecord, Trace, TraceInfo, json_object
from surrogate.traces.kinds import (
    CLASSES,
    FIRST_DEVICE_KIND,
    KIND_OF_CATEGORY,
    LAST_DEVICE_KIND,
    EventKind,
    classify_kernel,
)
from surrogate.traces.metadata import FLOPS_OF_OPERATOR, operator_flops, read_collective, read_integer, read_sync
from surrogate.traces.stream import Event

Arrays = dict[str, NDArray[Any]]

FIRST_TICK_IN_NS: Final = 1e17
"""Microseconds since 1970 stay below 1e16 for three centuries, nanoseconds passed 1e18 in 2001."""
MAX_TICK: Final = 9e18
"""Times and durations beyond a 64-bit integer are damage."""
NS_PER_US: Final = 1000
_WITH_METADATA: Final = frozenset(FLOPS_OF_OPERATOR) | {"record_param_comms"}


class TraceBuilder:
    """Collects chunks of events; `build` returns the sorted columns."""

    def __init__(self) -> None:
        self.num_events = 0
        self._kinds: dict[str, EventKind | None] = {}
        self._names: dict[str, int] = {}
        self._lanes: dict[tuple[str, str], int] = {}
        self._collectives: dict[int, Collective] = {}
        self._syncs: dict[int, SyncRecord] = {}
        self._chunks: list[Arrays] = []
        self._num_rows = 0
        self._origin: float | None = None
        self._ns_per_tick = NS_PER_US

    @property
    def unknown_categories(self) -> tuple[str, ...]:
        """Lower-case categories of complete events that were not kept."""
        return tuple(sorted(category for category, kind in self._kinds.items() if kind is None))

    def add(self, events: list[Event]) -> None:
        """Take the complete ("X") events of known category and usable time out of one chunk."""
        self.num_events += len(events)
        kept: list[Event] = []
        kinds: list[int] = []
        kind_of = self._kinds.get
        for event in events:
            if type(event) is not dict or event.get("ph") != "X":
                continue
            category = event.get("cat")
            if not isinstance(category, str):
                continue
            kind = kind_of(category, ABSENT)
            if kind == ABSENT:
                kind = self._kinds[category] = KIND_OF_CATEGORY.get(category.lower())
            if kind is not None and _has_time(event):
                kept.append(event)
                kinds.append(kind)
        if kept:
            self._append(kept, kinds)

    def build(self, info: TraceInfo) -> Trace:
        """Return the columns of all chunks, in start order."""
        columns = {
            key: np.concatenate([chunk[key] for chunk in self._chunks]) if self._chunks else np.zeros(0, dtype)
            for key, dtype in _EMPTY_COLUMNS.items()
        }
        self._chunks.clear()
        order = np.lexsort((-columns["duration_ns"], columns["start_ns"]))
        place = np.empty_like(order)
        place[order] = np.arange(len(order))
        columns = {key: values[order] for key, values in columns.items()}
        if len(order):
            columns["start_ns"] -= columns["start_ns"][0]
        names = tuple(self._names)
        return Trace(
            info=info,
            names=names,
            lanes=tuple(self._lanes),
            collectives={int(place[row]): value for row, value in self._collectives.items()},
            syncs={int(place[row]): value for row, value in self._syncs.items()},
            kernel_class=_kernel_classes(names, columns["name"], columns["kind"]),
            **columns,
        )

    def _append(self, events: list[Event], kinds: list[int]) -> None:
        arguments = [json_object(event.get("args")) for event in events]
        names, lanes = self._names, self._lanes
        columns: Arrays = {
            "kind": np.array(kinds, np.int8),
            "name": np.array([names.setdefault(str(event.get("name")), len(names)) for event in events], np.int32),
            "lane": np.array(
                [lanes.setdefault((str(event.get("pid")), str(event.get("tid"))), len(lanes)) for event in events],
                np.int32,
            ),
            "device": _integers([args.get("device", ABSENT) for args in arguments]),
            "stream": _integers([args.get("stream", ABSENT) for args in arguments]),
            "correlation": _integers([args.get("correlation", ABSENT) for args in arguments]),
            "external_id": _integers([args.get("External id", args.get("external id", ABSENT)) for args in arguments]),
        }
        columns |= self._clock(events)
        columns |= self._metadata(events, kinds, arguments)
        _fill_device_lanes(columns, events)
        self._chunks.append(columns)
        self._num_rows += len(events)

    def _clock(self, events: list[Event]) -> Arrays:
        ticks = np.array([event["ts"] for event in events])
        if self._origin is None:
            self._origin = events[0]["ts"]
            self._ns_per_tick = 1 if self._origin >= FIRST_TICK_IN_NS else NS_PER_US
        lengths = np.array([_duration(event) for event in events], np.float64) * self._ns_per_tick
        # Subtract before scaling: a double holds microseconds since 1970 only to a quarter of one.
        starts = (ticks - self._origin).astype(np.float64) * self._ns_per_tick
        return {
            "start_ns": np.rint(np.clip(starts, -MAX_TICK, MAX_TICK)).astype(np.int64),
            "duration_ns": np.rint(np.clip(lengths, 0.0, MAX_TICK)).astype(np.int64),
        }

    def _metadata(self, events: list[Event], kinds: list[int], arguments: list[dict[str, Any]]) -> Arrays:
        flops = np.zeros(len(events))
        moved_bytes = np.zeros(len(events))
        for index, kind in enumerate(kinds):
            args = arguments[index]
            if kind == EventKind.OPERATOR:
                name = events[index].get("name")
                if isinstance(name, str) and name in _WITH_METADATA:
                    flops[index] = operator_flops(name, args)
                    self._keep_collective(self._num_rows + index, args)
            elif kind == EventKind.SYNC:
                self._syncs[self._num_rows + index] = read_sync(args)
            elif kind >= FIRST_DEVICE_KIND:
                moved_bytes[index] = max(read_integer(args.get("bytes", 0)), 0)
                self._keep_collective(self._num_rows + index, args)
        return {"flops": flops, "moved_bytes": moved_bytes}

    def _keep_collective(self, row: int, args: dict[str, Any]) -> None:
        if "Collective name" in args and (collective := read_collective(args)):
            self._collectives[row] = collective


_EMPTY_COLUMNS: Final[dict[str, Any]] = {
    "kind": np.int8,
    "name": np.int32,
    "lane": np.int32,
    "flops": np.float64,
    "moved_bytes": np.float64,
} | dict.fromkeys(("start_ns", "duration_ns", "device", "stream", "correlation", "external_id"), np.int64)


def _has_time(event: Event) -> bool:
    """Tell whether the start time is a usable number; a number written as text is put right."""
    ticks = event.get("ts")
    if type(ticks) is str:
        try:
            ticks = event["ts"] = float(ticks)
        except ValueError:
            return False
    return isinstance(ticks, int | float) and -MAX_TICK < ticks < MAX_TICK


def _duration(event: Event) -> float:
    """Length in ticks; what is absent, negative or not a number counts as zero."""
    try:
        length = float(event.get("dur", 0))
    except (TypeError, ValueError, OverflowError):
        return 0.0
    return length if 0.0 <= length < MAX_TICK else 0.0


def _integers(values: Sequence[object]) -> NDArray[np.int64]:
    if set(map(type, values)) == {int}:
        try:
            return np.array(values, np.int64)
        except OverflowError:
            pass
    return np.array([value if abs(value := read_integer(each)) < MAX_TICK else ABSENT for each in values], np.int64)


def _fill_device_lanes(columns: Arrays, events: list[Event]) -> None:
    """Device events without device or stream arguments: the process is the device, the thread the stream."""
    sources: tuple[tuple[str, Callable[[Event], object]], ...] = (
        ("device", lambda event: event.get("pid")),
        ("stream", lambda event: str(event.get("tid")).removeprefix("stream ")),
    )
    on_device = (columns["kind"] >= FIRST_DEVICE_KIND) & (columns["kind"] <= LAST_DEVICE_KIND)
    for key, source in sources:
        rows = np.flatnonzero(on_device & (columns[key] == ABSENT))
        columns[key][rows] = _integers([source(events[row]) for row in rows])


def _kernel_classes(names: tuple[str, ...], name: NDArray[np.int32], kind: NDArray[np.int8]) -> NDArray[np.int8]:
    on_device = (kind >= FIRST_DEVICE_KIND) & (kind <= LAST_DEVICE_KIND)
    class_of_name = np.full(len(names), ABSENT, np.int8)
    for code in np.unique(name[on_device]):
        class_of_name[code] = CLASSES.index(classify_kernel(names[code]))
    return np.where(on_device, class_of_name[name] if len(names) else ABSENT, ABSENT).astype(np.int8)
