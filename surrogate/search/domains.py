"""The values each open column may take, before rules say which combinations exist."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from surrogate.catalog import Accelerator, dense_peak_flops_per_s, load_accelerators
from surrogate.errors import InputError
from surrogate.plan.values import Value

LAYOUT_COLUMNS: Final = (
    "accelerator",
    "num_gpus",
    "global_batch_size",
    "tp",
    "cp",
    "pp",
    "micro_batch_size",
    "vp",
    "ep",
    "zero_stage",
    "precision",
)
"""What makes a layout; one trial of a study is one layout."""

SETTING_COLUMNS: Final = (
    "sequence_parallel",
    "recompute",
    "recompute_share",
    "pipeline_schedule",
    "cpu_offload",
)
"""Settings inside a layout: a trial takes the best of their combinations."""

SEARCHED_COLUMNS: Final = (*LAYOUT_COLUMNS, *SETTING_COLUMNS)

ON_REQUEST: Final = ("accelerator", "num_gpus", "global_batch_size")
"""Searched only when values are given; a plan must fix them otherwise."""

RECOMPUTE_STEPS: Final = 8
"""Full recomputation covers whole eighths of a chunk's layers."""

FOLLOWS_VP: Final = "follows vp"
"""1F1B, interleaved where there are chunks."""

MAX_MICRO_BATCH_SIZE: Final = 32
MAX_CHUNKS: Final = 24
MAX_EXPERT_PARALLEL: Final = 256


@dataclass(frozen=True, kw_only=True)
class Domain:
    """The values of one column.

    Parameters
    ----------
    name : str
        Column.
    values : tuple of Value
        Distinct; numbers ascend.
    """

    name: str
    values: tuple[Value, ...]

    def __len__(self) -> int:
        return len(self.values)

    @property
    def is_fixed(self) -> bool:
        """Whether there is nothing to choose."""
        return len(self.values) == 1

    @property
    def is_ordered(self) -> bool:
        """Whether the values are numbers."""
        return not isinstance(self.values[0], str | bool)

    @cached_property
    def array(self) -> NDArray[Any]:
        """The values as an array of shape (len,): numbers as float64, flags as bool, text as text."""
        return np.array(self.values, dtype=np.float64 if self.is_ordered else None)


Sizes = Mapping[str, float]


def divisors(number: int) -> tuple[int, ...]:
    """Return the divisors of a positive number, ascending."""
    small = [divisor for divisor in range(1, int(number**0.5) + 1) if number % divisor == 0]
    return tuple(sorted({*small, *(number // divisor for divisor in small)}))


def default_values(column: str, sizes: Sizes, given: Mapping[str, Sequence[Value]], stack: str) -> tuple[Value, ...]:
    """Return the values of an open column.

    Parameters
    ----------
    column : str
        One of `SEARCHED_COLUMNS`.
    sizes : Mapping[str, float]
        The model's sizes, complete.
    given : Mapping[str, sequence of Value]
        The values of `ON_REQUEST`.
    stack : str
        The framework stack.

    Raises
    ------
    InputError
        If the column must be given.
    """
    if column in ON_REQUEST:
        raise InputError(column, "must be given to search", None, f"add it to the plan or pass --vary {column}=...")
    return _VALUES[column](sizes, given, stack)


def _largest(given: Mapping[str, Sequence[Value]], column: str) -> int:
    return max(int(value) for value in given[column])


def _tensor(sizes: Sizes, given: Mapping[str, Sequence[Value]], _: str) -> tuple[Value, ...]:
    return tuple(d for d in divisors(int(sizes["num_heads"])) if d <= _largest(given, "num_gpus"))


def _context(sizes: Sizes, given: Mapping[str, Sequence[Value]], _: str) -> tuple[Value, ...]:
    most = min(_largest(given, "num_gpus"), int(sizes["seq_len"]))
    return tuple(2**power for power in range(most.bit_length()) if 2**power <= most)


def _pipeline(sizes: Sizes, given: Mapping[str, Sequence[Value]], _: str) -> tuple[Value, ...]:
    stages = {d for gpus in given["num_gpus"] for d in divisors(int(gpus))}
    return tuple(sorted(d for d in stages if d <= sizes["num_layers"] + 2))


def _micro_batch(_: Sizes, given: Mapping[str, Sequence[Value]], __: str) -> tuple[Value, ...]:
    sequences = {d for batch in given["global_batch_size"] for d in divisors(int(batch))}
    return tuple(sorted(d for d in sequences if d <= MAX_MICRO_BATCH_SIZE))


def _chunks(sizes: Sizes, _: Mapping[str, Sequence[Value]], __: str) -> tuple[Value, ...]:
    return tuple(range(1, max(1, min(MAX_CHUNKS, (int(sizes["num_layers"]) + 2) // 2)) + 1))


def _experts(sizes: Sizes, given: Mapping[str, Sequence[Value]], _: str) -> tuple[Value, ...]:
    most = min(MAX_EXPERT_PARALLEL, _largest(given, "num_gpus"))
    return tuple(d for d in divisors(max(1, int(sizes["num_experts"]))) if d <= most)


def _zero(_: Sizes, __: Mapping[str, Sequence[Value]], stack: str) -> tuple[Value, ...]:
    return {"torchtitan": (2, 3), "nemo-automodel": (2, 3), "maxtext": (3,), "paxml": (3,)}.get(stack, (0, 1, 2, 3))


def _precision(_: Sizes, given: Mapping[str, Sequence[Value]], __: str) -> tuple[Value, ...]:
    """16 bits, and FP8 where every accelerator multiplies it; FP4 only on request."""
    index = load_accelerators()
    accelerators = [index[str(name)] for name in given["accelerator"]]
    wide = "bf16" if all(one.bf16_flops_per_s for one in accelerators) else "fp16"
    return (wide, "fp8") if all(_has_fp8(one) for one in accelerators) else (wide,)


def _has_fp8(accelerator: Accelerator) -> bool:
    try:
        wide = accelerator.bf16_flops_per_s or accelerator.fp16_flops_per_s or 0.0
        return dense_peak_flops_per_s(accelerator, "fp8") > 1.01 * wide
    except InputError:
        return False


def _sequence_parallel(_: Sizes, __: Mapping[str, Sequence[Value]], ___: str) -> tuple[Value, ...]:
    return (False, True)


def _recompute(_: Sizes, __: Mapping[str, Sequence[Value]], ___: str) -> tuple[Value, ...]:
    return ("none", "selective", "full")


def _shares(_: Sizes, __: Mapping[str, Sequence[Value]], ___: str) -> tuple[Value, ...]:
    return tuple(step / RECOMPUTE_STEPS for step in range(1, RECOMPUTE_STEPS + 1))


def _schedule(_: Sizes, __: Mapping[str, Sequence[Value]], stack: str) -> tuple[Value, ...]:
    return (FOLLOWS_VP, "zb-v") if stack == "torchtitan" else (FOLLOWS_VP,)


def _offload(_: Sizes, __: Mapping[str, Sequence[Value]], ___: str) -> tuple[Value, ...]:
    return ("none", "optimizer", "activations")


_VALUES: Final[Mapping[str, Callable[[Sizes, Mapping[str, Sequence[Value]], str], tuple[Value, ...]]]] = {
    "tp": _tensor,
    "cp": _context,
    "pp": _pipeline,
    "micro_batch_size": _micro_batch,
    "vp": _chunks,
    "ep": _experts,
    "zero_stage": _zero,
    "precision": _precision,
    "sequence_parallel": _sequence_parallel,
    "recompute": _recompute,
    "recompute_share": _shares,
    "pipeline_schedule": _schedule,
    "cpu_offload": _offload,
}
