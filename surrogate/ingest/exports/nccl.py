"""Output of nccl-tests (`all_reduce_perf` and its sisters, also rccl-tests) to measurements."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from surrogate.errors import FileFormatError
from surrogate.ingest.exports.history import read_text
from surrogate.ingest.numbers import is_known, parse_number
from surrogate.units import GIGA, MICRO

_MAX_BYTES: Final = 200_000_000
_TYPES: Final = "u?int(?:8|32|64)|half|float|double|b?float16|bfloat16|fp8\\w*|f8\\w*"
_ROW: Final = re.compile(rf"(?:^|\s|>)(\d+)\s+(\d+)\s+({_TYPES})\s+(\S.*)$")
_RANK: Final = re.compile(r"#\s+Rank\s+(\d+)\b.*?\son\s+(\S+)\s+device\s+(\d+)")
_TESTS: Final = (
    *("all_reduce", "all_gather", "reduce_scatter", "alltoall", "sendrecv"),
    *("broadcast", "reduce", "gather", "scatter"),
)
_TEST_NAME: Final = re.compile(rf"\b({'|'.join(_TESTS)})(?:_perf|_mpi)|# Collective test starting: (\w+?)(?:_perf)?\b")
_SINGLE: Final = re.compile(r"nThreads?:? (\d+) nGpus:? (\d+)")
_COLUMN_WORDS: Final = frozenset({"time", "algbw", "busbw"})
_ANSI: Final = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
_RATIO_FROM: Final = 1.0 * GIGA  # below this rate the printed ratio is rounding


@dataclass(frozen=True, kw_only=True, slots=True)
class CollectiveMeasurement:
    """One size of one collective, in one of its two forms.

    Parameters
    ----------
    collective : str
        ``all_reduce``, ``all_gather``, ``reduce_scatter``, ``alltoall``, ``sendrecv``, ...
    message_bytes : int
        Size as nccl-tests prints it.
    time_s : float
        Seconds of one operation.
    algbw_bytes_per_s, busbw_bytes_per_s : float
        Size over time, and the same times the collective's traffic factor.
    in_place : bool
        Which half of the line.
    num_ranks, num_nodes : int or None
        From the device list, else from the ratio of the two rates; None when neither tells.
    num_wrong : int
        Wrong values found; not 0 means the figure cannot be trusted.
    """

    collective: str
    message_bytes: int
    time_s: float
    algbw_bytes_per_s: float
    busbw_bytes_per_s: float
    in_place: bool
    num_ranks: int | None
    num_nodes: int | None
    devices: tuple[str, ...] = ()
    num_wrong: int = 0


@dataclass(slots=True)
class _Section:
    """One test of a file while it is read."""

    collective: str = ""
    ranks: dict[int, tuple[str, str]] = field(default_factory=dict)
    single_process_gpus: int = 0
    columns: list[str] = field(default_factory=list)
    rows: list[tuple[int, str, list[str]]] = field(default_factory=list)


def read_nccl_tests(path: str | Path) -> list[CollectiveMeasurement]:
    """Read the output of nccl-tests; one file may hold several tests.

    Raises
    ------
    FileFormatError
        The file cannot be read or holds no result line.
    """
    measurements = parse_nccl_tests(read_text(Path(path), _MAX_BYTES), name=Path(path).name)
    if not measurements:
        raise FileFormatError(f"{path}: no result line of nccl-tests (size, count, type, ..., time, algbw, busbw)")
    return measurements


def parse_nccl_tests(text: str, *, name: str = "") -> list[CollectiveMeasurement]:
    """Return the measurements in a text; a file name such as ``all_gather_n4.txt`` may name the collective."""
    found: list[CollectiveMeasurement] = []
    for section in _sections(text):
        section.collective = section.collective or _named_in(name)
        found += _measured(section)
    return found


def _sections(text: str) -> Iterator[_Section]:
    section, announced = _Section(), ""
    for raw in text.splitlines():
        line = _ANSI.sub("", raw[:2000]).rstrip()
        test = _TEST_NAME.search(line)
        if test:
            announced = test.group(1) or test.group(2)
        starts = _SINGLE.search(line) or (test is not None and section.rows)
        if starts and section.rows:
            yield section
            section = _Section()
        if announced:
            section.collective = announced
        _take_line(section, line)
    if section.rows:
        yield section


def _take_line(section: _Section, line: str) -> None:
    single, rank = _SINGLE.search(line), _RANK.search(line)
    if single:
        section.single_process_gpus = int(single.group(1)[:4]) * int(single.group(2)[:4])
    if rank:
        section.ranks[int(rank.group(1)[:7])] = (rank.group(2), line[rank.end() :].strip())
    words = line.lstrip("# ").split()
    if set(words) >= _COLUMN_WORDS and "size" in words:
        section.columns = words[words.index("size") :]
        return
    row = _ROW.search(line)
    if row and "algbw" not in line:
        section.rows.append((int(row.group(1)[:19]), row.group(3), row.group(4).split()))


def _measured(section: _Section) -> Iterator[CollectiveMeasurement]:
    nodes = len({host for host, _device in section.ranks.values()}) or None
    devices = tuple(sorted({device.split("] ")[-1] for _host, device in section.ranks.values()}))
    halves = [
        (size, half, in_place) for size, _type, cells in section.rows for in_place, half in _halves(cells, section)
    ]
    ratio = _traffic_ratio([half for _size, half, _in_place in halves])
    collective = section.collective or _by_ratio(section, ratio)
    ranks = len(section.ranks) or _ranks_by_ratio(collective, ratio) or section.single_process_gpus or None
    for size, (time_s, algbw, busbw, wrong), in_place in halves:
        yield CollectiveMeasurement(
            collective=collective,
            message_bytes=size,
            time_s=time_s,
            algbw_bytes_per_s=algbw,
            busbw_bytes_per_s=busbw,
            in_place=in_place,
            num_ranks=ranks,
            num_nodes=nodes,
            devices=devices,
            num_wrong=wrong,
        )


Half = tuple[float, float, float, int]


def _halves(cells: Sequence[str], section: _Section) -> Iterator[tuple[bool, Half]]:
    """Yield (in place, figures) for the out-of-place and the in-place half of a result line."""
    after_type = section.columns[3:] if len(section.columns) > 3 else []
    lead = after_type.index("time") if "time" in after_type else _leading_words(cells)
    width = 4 if any("wrong" in word or word == "error" for word in after_type) or not after_type else 3
    figures = list(cells[lead:])
    for index in range(2):
        half = figures[index * width : (index + 1) * width]
        numbers = [parse_number(cell) for cell in half[:3]]
        if len(numbers) == 3 and is_known(numbers[0]) and numbers[1] >= 0 and numbers[2] >= 0:
            wrong = parse_number(half[3]) if len(half) > 3 else 0.0
            yield index == 1, (numbers[0] * MICRO, numbers[1] * GIGA, numbers[2] * GIGA, int(wrong >= 1))


def _leading_words(cells: Sequence[str]) -> int:
    """Return how many cells stand before the first time: the reduction and the root."""
    words = 0
    if cells and not cells[0].replace(".", "").isdecimal():
        words = 1
    if len(cells) > words and re.fullmatch(r"-?\d+", cells[words]) and len(cells) - words in (5, 9, 4, 7):
        words += 1
    return words


def _traffic_ratio(halves: Sequence[Half]) -> float | None:
    """Return busbw / algbw, from the largest rates: 2 (n - 1) / n for all-reduce, (n - 1) / n for the one-way ones."""
    ratios = sorted((algbw, busbw / algbw) for _time, algbw, busbw, _wrong in halves if algbw >= _RATIO_FROM)
    best = [ratio for _rate, ratio in ratios[-5:]]
    return sorted(best)[len(best) // 2] if best else None


def _ranks_by_ratio(collective: str, ratio: float | None) -> int | None:
    if ratio is None or collective in ("sendrecv", "broadcast", "reduce"):
        return None
    share = ratio / 2 if collective == "all_reduce" else ratio
    return round(1 / (1 - share)) if 0.4 < share < 0.995 else None


def _by_ratio(section: _Section, ratio: float | None) -> str:
    reduces = any(cells and cells[0] in ("sum", "prod", "max", "min", "avg") for _size, _type, cells in section.rows)
    if ratio is None:
        return "all_reduce" if reduces else "all_gather"
    if ratio > 1.02:
        return "all_reduce"
    if abs(ratio - 1) <= 0.005:
        return "sendrecv" if len(section.ranks) != 2 or not reduces else "all_reduce"
    return "reduce_scatter" if reduces else "all_gather"


def _named_in(name: str) -> str:
    folded = re.sub(r"[^a-z]+", "_", name.lower())
    return next((test for test in _TESTS[:5] if test in folded or test.replace("_", "") in folded), "")
