"""Matrix-multiplication benchmarks: CSV tables and printed lines with m, n, k and a time or a rate."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from surrogate.errors import FileFormatError
from surrogate.ingest.exports.history import read_text
from surrogate.ingest.numbers import NAN, is_known, parse_positive
from surrogate.units import GIGA, MICRO, MILLI, TERA

_MAX_BYTES: Final = 200_000_000
_SHAPE: Final = re.compile(r"(?<![\w.])(?:(\d{1,6})x)?(\d{1,7}) ?[x*×] ?(\d{1,7}) ?[x*×] ?(\d{1,7})(?![\w.])")
_PAIR: Final = re.compile(r"\b([A-Za-z_][\w/]*(?: ?\([\w/]+\))?) ?[=:] ?([-+.\w]+)")
_LABELLED: Final = re.compile(r"([\d.]+(?:e[-+]?\d+)?) ?\((median|mean|max)\)")
_RATE: Final = re.compile(r"([\d.]+(?:e[-+]?\d+)?) ?(T|G)(?:FLOP/?s?|FLOPs|FLOPS)\b", re.IGNORECASE)
_RATE_AFTER: Final = re.compile(r"\b(T|G)FLOP/?s?\)?(?: for [^:]*)?[ :=]+([\d.]+(?:e[-+]?\d+)?)", re.IGNORECASE)
_TIME: Final = re.compile(r"([\d.]+(?:e[-+]?\d+)?) ?(ms|us|µs|s|sec|seconds)\b")
_DTYPE: Final = re.compile(
    r"\b(?:torch\.)?(bfloat16|bf16|float16|fp16|half|float8\w*|fp8\w*|e4m3\w*|float32|fp32|tf32|int8|nvfp4|fp4)\b",
    re.IGNORECASE,
)

_TIME_FACTOR: Final = {"s": 1.0, "sec": 1.0, "seconds": 1.0, "ms": MILLI, "us": MICRO, "µs": MICRO}
_DTYPES: Final = {
    "bfloat16": "bf16",
    "float16": "fp16",
    "half": "fp16",
    "float32": "fp32",
    "fp4": "nvfp4",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class MatmulMeasurement:
    """One product of an m x k by a k x n matrix.

    Parameters
    ----------
    m, n, k, batch : int
        Sizes; `batch` products are timed together.
    dtype : str
        Precision of the runs table, or "" when not printed.
    time_s : float
        Seconds.
    """

    m: int
    n: int
    k: int
    time_s: float
    dtype: str = ""
    batch: int = 1

    @property
    def flops(self) -> float:
        """Floating-point operations: 2 m n k per product."""
        return 2.0 * self.m * self.n * self.k * self.batch

    @property
    def flops_per_s(self) -> float:
        """Achieved rate."""
        return self.flops / self.time_s


def read_matmul(path: str | Path) -> list[MatmulMeasurement]:
    """Read a matrix-multiplication benchmark.

    Parameters
    ----------
    path : path
        A CSV with columns m, n, k (and batch, dtype) and a time or a rate, or text with a shape (``4096x4096x4096``,
        ``m=4096, n=...``) and a rate or time on each line, such as mamf-finder prints.

    Raises
    ------
    FileFormatError
        The file cannot be read or holds no measurement.
    """
    measurements = parse_matmul(read_text(Path(path), _MAX_BYTES))
    if not measurements:
        raise FileFormatError(f"{path}: no line with a matrix shape (m, n, k) and a time or TFLOP/s")
    return measurements


def parse_matmul(text: str) -> list[MatmulMeasurement]:
    """Return the measurements in a text, as CSV when its header names m, n and k, else line by line."""
    table = _from_csv(text)
    return table if table else list(_from_lines(text))


def canonical_dtype(name: str) -> str:
    """Return a data type as the runs table spells precisions; "" for an unknown one."""
    folded = name.strip().lower().removeprefix("torch.")
    if folded.startswith(("float8", "fp8", "e4m3", "e5m2", "f8")):
        return "fp8"
    folded = _DTYPES.get(folded, folded)
    return folded if folded in ("bf16", "fp16", "fp32", "tf32", "fp8", "int8", "nvfp4", "mxfp8") else ""


def _from_csv(text: str) -> list[MatmulMeasurement]:
    lines = [line for line in text.replace("\0", "").splitlines() if line.strip() and not line.startswith("#")]
    header = next((i for i, line in enumerate(lines[:50]) if _is_header(line)), None)
    if header is None:
        return []
    delimiter = max(",;\t|", key=lines[header].count)
    try:
        rows = list(csv.DictReader(lines[header:], delimiter=delimiter))
    except csv.Error:
        return []
    found = (_measured({str(key): value for key, value in row.items() if isinstance(value, str)}) for row in rows)
    return [one for one in found if one is not None]


def _is_header(line: str) -> bool:
    names = {name.strip().strip('"').lower() for name in re.split(r"[,;\t|]", line)}
    return {"m", "n", "k"} <= names


def _measured(row: Mapping[str, str]) -> MatmulMeasurement | None:
    cells = {re.sub(r"[^a-z0-9/]+", "_", name.strip().lower()).strip("_"): value.strip() for name, value in row.items()}
    sizes = [
        int(parse_positive(cells.get(name, ""))) if is_known(parse_positive(cells.get(name, ""))) else 0
        for name in "mnk"
    ]
    batch = parse_positive(cells.get("batch", cells.get("b", cells.get("batch_count", "1"))))
    rate, time_s = _cell_rate(cells), _cell_time(cells)
    dtype = next((cells[name] for name in ("dtype", "type", "precision", "data_type") if name in cells), "")
    return _built(sizes, int(batch) if is_known(batch) else 1, rate, time_s, dtype)


def _whole(text: str) -> int:
    value = parse_positive(text)
    return int(value) if is_known(value) else 0


def _cell_rate(cells: Mapping[str, str]) -> float:
    for name, value in cells.items():
        if "flop" in name:
            factor = TERA if name.startswith("t") or "tflop" in name else GIGA if "gflop" in name else NAN
            if is_known(parse_positive(value) * factor):
                return parse_positive(value) * factor
    return NAN


def _cell_time(cells: Mapping[str, str]) -> float:
    for name, value in cells.items():
        words = name.replace("/", "_").split("_")
        if {"time", "latency", "runtime", "duration", "ms", "us", "seconds", "elapsed"} & set(words):
            unit = next((word for word in words if word in _TIME_FACTOR), "ms" if name == "runtime" else "s")
            return parse_positive(value) * _TIME_FACTOR[unit]
    return NAN


def _built(sizes: list[int], batch: int, rate: float, time_s: float, dtype: str) -> MatmulMeasurement | None:
    if len(sizes) != 3 or min(sizes) < 1 or max(sizes) > 10**8 or not 1 <= batch <= 10**8:
        return None
    m, n, k = sizes
    if not is_known(time_s):
        time_s = 2.0 * m * n * k * batch / rate if is_known(rate) else NAN
    if not is_known(time_s):
        return None
    return MatmulMeasurement(m=m, n=n, k=k, time_s=time_s, dtype=canonical_dtype(dtype), batch=batch)


def _from_lines(text: str) -> Iterator[MatmulMeasurement]:
    dtype = ""
    for raw in text.splitlines():
        line = re.split(r"\| *best", raw[:1000], maxsplit=1)[0]
        named = _DTYPE.search(line)
        dtype = named.group(1) if named else dtype
        batch, sizes = _shape_of(line)
        if sizes:
            one = _built(sizes, batch, _line_rate(line), _line_time(line), dtype)
            if one is not None:
                yield one


def _shape_of(line: str) -> tuple[int, list[int]]:
    found = _SHAPE.search(line)
    if found:
        return int(found.group(1) or 1), [int(found.group(index)) for index in (2, 3, 4)]
    pairs = {name.lower(): value for name, value in _PAIR.findall(line)}
    if not all(pairs.get(name, "").isdecimal() for name in "mnk"):
        return 1, []
    batch = pairs.get("batch", pairs.get("b", "1"))
    return int(batch[:9]) if batch.isdecimal() else 1, [int(pairs[name][:9]) for name in "mnk"]


def _line_rate(line: str) -> float:
    labelled = {label: parse_positive(value) for value, label in _LABELLED.findall(line)}
    for label in ("median", "mean", "max"):
        if label in labelled:
            return labelled[label] * TERA
    found = _RATE.search(line)
    if found:
        return parse_positive(found.group(1)) * (TERA if found.group(2) in "tT" else GIGA)
    after = _RATE_AFTER.search(line)
    return parse_positive(after.group(2)) * (TERA if after.group(1) in "tT" else GIGA) if after else NAN


def _line_time(line: str) -> float:
    if _LABELLED.search(line) or _RATE.search(line):
        return NAN
    found = _TIME.search(line)
    return parse_positive(found.group(1)) * _TIME_FACTOR[found.group(2)] if found else NAN
