"""A trace as columns: one array per attribute, one row per kept event, in the order of the start times.

Clock: `start_ns` counts integer nanoseconds from the trace's first kept event. Integers, because the tests
"ends before" and "lies inside" must be exact; everything reported is in seconds.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from surrogate.traces.kinds import CLASSES, FIRST_DEVICE_KIND, LAST_DEVICE_KIND, EventKind, KernelClass

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]

ABSENT = -1
"""Value of an integer attribute that the event does not have."""


class Collective(NamedTuple):
    """Metadata of one collective call, as its event's arguments give it."""

    operation: str
    """Lower-case name without separators: ``allreduce``, ``allgatherbase``, ``reducescatter``, ``send``..."""
    group: str
    group_size: int
    input_bytes: float
    output_bytes: float
    sequence: int
    """Number of the call within its group; `ABSENT` when not recorded."""


class SyncRecord(NamedTuple):
    """Which event a wait waits for: correlation ids and stream, `ABSENT` when not recorded."""

    record_correlation: int
    record_stream: int
    kind: str


@dataclass(frozen=True, kw_only=True, slots=True)
class TraceInfo:
    """What the document says besides its events.

    `device_name` is the product name the driver reported, "" when absent.
    """

    path: Path
    rank: int | None = None
    world_size: int | None = None
    device_name: str = ""
    device_memory_bytes: float = 0.0
    """Memory of the first device as the driver reported it; 0 when absent."""
    num_devices: int = 0
    backend: str = ""
    versions: dict[str, str] = field(default_factory=dict)
    groups: dict[str, tuple[int, ...]] = field(default_factory=dict)
    """Process groups by name: their ranks, where recorded."""
    num_events: int = 0
    """Events in the file, of every phase, kept or not."""
    accelerator_categories: tuple[str, ...] = ()
    """Categories of accelerators this reader does not know (MTIA...)."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Trace:
    """Columns of shape (n,) over the kept events of one rank, sorted by start, longer events first."""

    info: TraceInfo
    names: tuple[str, ...]
    lanes: tuple[tuple[str, str], ...]
    """(process, thread) of the host events by lane code."""
    kind: NDArray[np.int8]
    name: NDArray[np.int32]
    start_ns: IntArray
    duration_ns: IntArray
    lane: NDArray[np.int32]
    device: IntArray
    stream: IntArray
    correlation: IntArray
    external_id: IntArray
    flops: FloatArray
    """Floating-point operations of a matrix-product operator, from its shapes; 0 where unknown."""
    moved_bytes: FloatArray
    """Bytes of a copy or memset; 0 where unknown."""
    collectives: dict[int, Collective]
    """Row to metadata, for collective kernels and ``record_param_comms`` operators."""
    syncs: dict[int, SyncRecord]
    """Row to record, for ``cuda_sync`` rows."""
    kernel_class: NDArray[np.int8]
    """Position in `CLASSES` for device rows; `ABSENT` elsewhere."""

    def __len__(self) -> int:
        return len(self.kind)

    @property
    def end_ns(self) -> IntArray:
        """End of each event on the trace clock, ns, shape (n,)."""
        return self.start_ns + self.duration_ns

    @property
    def is_device(self) -> BoolArray:
        """True for kernels, copies and memsets, shape (n,)."""
        return (self.kind >= FIRST_DEVICE_KIND) & (self.kind <= LAST_DEVICE_KIND)

    @property
    def main_device(self) -> int:
        """Device with the most events; `ABSENT` without device events."""
        devices = self.device[self.is_device]
        if not len(devices):
            return ABSENT
        values, counts = np.unique(devices, return_counts=True)
        return int(values[np.argmax(counts)])

    @property
    def main_device_rows(self) -> IntArray:
        """Rows of the kernels, copies and memsets of the main device, in start order."""
        return np.flatnonzero(self.is_device & (self.device == self.main_device))

    def rows_named(self, kind: EventKind, prefix: str) -> IntArray:
        """Return the rows of `kind` whose name starts with `prefix`."""
        codes = [code for code, name in enumerate(self.names) if name.startswith(prefix)]
        return np.flatnonzero((self.kind == kind) & np.isin(self.name, codes))


COMMUNICATION_CODE = CLASSES.index(KernelClass.COMMUNICATION)


def json_object(value: Any) -> dict[str, Any]:  # noqa: ANN401 - JSON is what it is
    """Return `value` if it is a JSON object, an empty one otherwise."""
    return value if isinstance(value, dict) else {}
