"""Memory for people: items of the worst stage, stages beside each other, and layouts that do fit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from math import isclose
from typing import TYPE_CHECKING, Final, NamedTuple

from surrogate.cli.output import bar, gibibytes, percent, plain_table, seconds, significant
from surrogate.units import GIB

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from surrogate.api.memory_account import MemoryAccount, StageMemory
    from surrogate.feasibility.nearest import NearbyLayout

_SMALLEST_SHARE: Final = 0.0005
_MAX_COLUMNS: Final = 6
_ALIKE: Final = 0.005
"""Neighbouring stages of as many layers whose peaks differ by less share a column."""


class _Column(NamedTuple):
    """Stages that are alike: the numbers of the first and last, from 0, and the fullest of them."""

    first: int
    last: int
    fullest: StageMemory

    def __contains__(self, stage: object) -> bool:
        return isinstance(stage, int) and self.first <= stage <= self.last


def print_memory(screen: Console, memory: MemoryAccount) -> None:
    """Print the items of the worst stage and what is left of the device."""
    largest = max(memory.groups.values())
    rows = [
        (name, gibibytes(size), percent(size / memory.device_bytes), bar(size / largest))
        for name, size in sorted(memory.groups.items(), key=lambda entry: -entry[1])
        if size / memory.device_bytes >= _SMALLEST_SHARE
    ]
    place = "per accelerator" if memory.num_stages == 1 else f"stage {memory.worst_stage + 1} of {memory.num_stages}"
    table = plain_table(("where the memory goes", place, "share", ""), rows)
    table.columns[-1].justify = "left"
    screen.print(table)
    screen.print(f"  {_head_room(memory)}")


def print_items(screen: Console, memory: MemoryAccount) -> None:
    """Print the largest items with what lowers each, and every stage's items beside each other."""
    rows = [
        (_item_name(advice.item), gibibytes(advice.bytes), percent(advice.share), advice.remedy)
        for advice in memory.items
    ]
    table = plain_table(("largest items", "size", "share", "what lowers it"), rows)
    table.columns[-1].justify = "left"
    screen.print(table)
    if memory.num_stages > 1:
        _print_stages(screen, memory)


def print_layouts(screen: Console, layouts: Sequence[NearbyLayout]) -> None:
    """Print the layouts nearest to a plan that does not fit, with the price of each in step time."""
    if not layouts:
        screen.print("  no layout one or two changes away fits: `surrogate search` tries them all")
        return
    rows = [
        (
            _settings(layout),
            seconds(layout.step_time_s),
            percent(layout.step_time_ratio - 1.0, signed=True),
            gibibytes(layout.peak_memory_bytes),
            percent(layout.oom_probability),
        )
        for layout in layouts
    ]
    screen.print(plain_table(("nearest layouts that fit", "step time", "price", "memory", "risk"), rows))


def _head_room(memory: MemoryAccount) -> str:
    share = f"{gibibytes(memory.device_bytes)} of {gibibytes(memory.usable_bytes)} usable"
    room = memory.head_room_bytes
    left = f"head-room {gibibytes(room)}" if room >= 0.0 else f"[red]{gibibytes(-room)} too much[/red]"
    host = f"; {gibibytes(memory.host_bytes)} in host memory" if memory.host_bytes else ""
    return f"{share} on the {'worst stage' if memory.num_stages > 1 else 'device'}: {left}{host}"


def _settings(layout: NearbyLayout) -> str:
    changed = ", ".join(_assignment(field, value) for field, value in layout.changes.items())
    follows = ", ".join(_assignment(field, value) for field, value in layout.consequences.items())
    return f"{changed} (then {follows})" if follows else changed


def _assignment(field: str, value: object) -> str:
    return f"no {field}" if value is None else f"{field}={value}"


def _item_name(item: str) -> str:
    return item.removesuffix("_bytes").replace("_", " ")


def _print_stages(screen: Console, memory: MemoryAccount) -> None:
    columns = _alike(memory.stages)
    shown = _chosen(columns, memory.worst_stage)
    screen.print(_stage_table(shown, memory))
    left_out = [column for column in columns if column not in shown]
    if left_out:
        peaks = [column.fullest.device_bytes for column in left_out]
        count = sum(column.last - column.first + 1 for column in left_out)
        screen.print(f"  {count} more stages take {gibibytes(min(peaks))} to {gibibytes(max(peaks))}")


def _alike(stages: Sequence[StageMemory]) -> list[_Column]:
    """Put neighbouring stages that differ by less than anyone would see into one column."""
    numbers: list[int] = []
    for position, stage in enumerate(stages):
        before = stages[position - 1]
        same = before.layers == stage.layers and isclose(before.device_bytes, stage.device_bytes, rel_tol=_ALIKE)
        numbers.append((numbers[-1] + (not same)) if numbers else 0)
    runs = [[stages[position] for position in part] for _, part in groupby(range(len(stages)), numbers.__getitem__)]
    return [_Column(run[0].stage, run[-1].stage, max(run, key=lambda stage: stage.device_bytes)) for run in runs]


def _chosen(columns: Sequence[_Column], worst: int) -> list[_Column]:
    """Keep the first, the worst and the last, and of the others as many as there is room for, evenly spread."""
    if len(columns) <= _MAX_COLUMNS:
        return list(columns)
    last = len(columns) - 1
    kept = {0, last, next(position for position, column in enumerate(columns) if worst in column)}
    for part in range(1, _MAX_COLUMNS):
        if len(kept) < _MAX_COLUMNS:
            kept.add(round(last * part / (_MAX_COLUMNS - 1)))
    return [columns[position] for position in sorted(kept)]


def _stage_table(columns: Sequence[_Column], memory: MemoryAccount) -> Table:
    header = ["memory in GiB", *(_column_name(column, memory.worst_stage) for column in columns)]
    stages = [column.fullest for column in columns]
    names = [name for name in stages[0].items if any(stage.items[name] >= _SMALLEST_SHARE * GIB for stage in stages)]
    rows = [
        ("layers", *(str(stage.layers) for stage in stages)),
        ("micro-batches in flight", *(f"{stage.microbatches_in_flight:.3g}" for stage in stages)),
        *((_item_name(name), *_in_gib(stages, name)) for name in names),
        ("[bold]whole device[/bold]", *(significant(stage.device_bytes / GIB) for stage in stages)),
    ]
    return plain_table(header, rows)


def _in_gib(stages: Sequence[StageMemory], name: str) -> list[str]:
    sizes: list[Mapping[str, float]] = [stage.items for stage in stages]
    return [significant(items[name] / GIB) if items[name] else "-" for items in sizes]


def _column_name(column: _Column, worst: int) -> str:
    first, last = column.first + 1, column.last + 1
    name = f"stage {first}" if first == last else f"stages {first}-{last}"
    return f"{name}\nworst" if worst in column else name
