"""Numbers inside event arguments: FLOPs from shapes, bytes of collectives, what a synchronisation waits for."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, Final

from surrogate.traces.columns import ABSENT, Collective, SyncRecord

Arguments = dict[str, Any]
Dims = Sequence[Any]

_BYTES_OF_DTYPE: Final = {
    "float": 4, "float32": 4, "int": 4, "int32": 4, "uint32": 4,
    "double": 8, "float64": 8, "long": 8, "int64": 8, "uint64": 8,
    "half": 2, "float16": 2, "bfloat16": 2, "short": 2, "int16": 2,
    "byte": 1, "char": 1, "bool": 1, "int8": 1, "uint8": 1,
}  # fmt: skip
_BYTES_OF_FLOAT8: Final = 1


def _product_flops(left: Sequence[int], right: Sequence[int]) -> float:
    """Multiply-adds counted twice: 2 b m k n of (b, m, k) times (b, k, n)."""
    batch = left[0] if len(left) == 3 else 1
    return 2.0 * batch * left[-2] * left[-1] * right[-1]


def _first_two(dims: Dims) -> float:
    return _product_flops(dims[0], dims[1])


def _second_two(dims: Dims) -> float:
    return _product_flops(dims[1], dims[2])


FLOPS_OF_OPERATOR: Final[dict[str, Callable[[Dims], float]]] = {
    "aten::mm": _first_two,
    "aten::bmm": _first_two,
    "aten::_scaled_mm": _first_two,
    "aten::_int_mm": _first_two,
    "aten::addmm": _second_two,
    "aten::_addmm_activation": _second_two,
    "aten::baddbmm": _second_two,
}
"""Leaf matrix products of ATen; ``linear`` and ``matmul`` only contain these."""


def operator_flops(name: str, arguments: Arguments) -> float:
    """Return the FLOPs of a matrix-product operator by its recorded input shapes, 0 where they are not usable.

    Examples
    --------
    >>> operator_flops("aten::mm", {"Input Dims": [[512, 1000], [1000, 256]]})
    262144000.0
    """
    rule = FLOPS_OF_OPERATOR.get(name)
    dims = arguments.get("Input Dims") or arguments.get("Input dims")
    if rule is None or not dims:
        return 0.0
    try:
        return rule(dims)
    except (TypeError, IndexError, KeyError):
        return 0.0


def read_collective(arguments: Arguments) -> Collective | None:
    """Return the metadata of a collective kernel or host record; None when it carries none."""
    operation = arguments.get("Collective name")
    if not isinstance(operation, str):
        return None
    size = _dtype_bytes(str(arguments.get("dtype", "")))
    return Collective(
        operation=re.sub(r"[^a-z0-9]", "", operation.lower()),
        group=str(arguments.get("Process Group Name", "")),
        group_size=read_integer(arguments.get("Group size")),
        input_bytes=size * max(read_integer(arguments.get("In msg nelems")), 0),
        output_bytes=size * max(read_integer(arguments.get("Out msg nelems")), 0),
        sequence=read_integer(arguments.get("Seq", arguments.get("Collective seq", ABSENT))),
    )


def read_sync(arguments: Arguments) -> SyncRecord:
    """Return what a ``cuda_sync`` record says about the event that is waited for."""
    return SyncRecord(
        record_correlation=read_integer(arguments.get("wait_on_cuda_event_record_corr_id")),
        record_stream=read_integer(arguments.get("wait_on_stream")),
        kind=str(arguments.get("cuda_sync_kind", "")),
    )


def _dtype_bytes(dtype: str) -> int:
    key = dtype.lower().removeprefix("c10::").removeprefix("torch.")
    return _BYTES_OF_FLOAT8 if key.startswith("float8") else _BYTES_OF_DTYPE.get(key, 0)


def read_integer(value: object) -> int:
    """Return `value` as an integer, `ABSENT` when it is none."""
    try:
        return int(value)  # type: ignore[call-overload, no-any-return]
    except (TypeError, ValueError, OverflowError):
        return ABSENT
