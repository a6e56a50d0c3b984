"""Whatever the bytes: an answer without a traceback, and no time or rate that is zero or negative."""

from __future__ import annotations

import math
import random
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from surrogate.ingest import LogReport, read_log
from surrogate.ingest.readers import reader_names

FIXTURES = sorted((Path(__file__).parent / "fixtures").glob("*/job.log"))
TEXTS = [path.read_bytes() for path in FIXTURES]
LINES = [line for text in TEXTS for line in text.splitlines()]
FUZZ = settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def check(report: LogReport) -> None:
    for run in report.runs:
        for value in (
            run.step_time_s, run.step_time_p95_s, run.tokens_per_s_per_gpu, run.samples_per_s,
            run.achieved_flops_per_s, run.mfu, run.peak_memory_bytes,
        ):  # fmt: skip
            assert math.isnan(value) or (value > 0 and math.isfinite(value))
        assert math.isnan(run.step_time_cv) or run.step_time_cv >= 0
        assert run.n_steps >= 0
        assert run.status == "oom" or not math.isnan(run.step_time_s) or run.reasons["step_time_s"]


def read_bytes(folder: Path, data: bytes, format_name: str | None = None) -> None:
    path = folder / "fuzzed.log"
    path.write_bytes(data)
    check(read_log(path, format_name))


@FUZZ
@given(text=st.sampled_from(TEXTS), cut=st.integers(0, 10**6), seed=st.integers(0, 2**32))
def test_truncated_and_shuffled(tmp_path: Path, text: bytes, cut: int, seed: int) -> None:
    lines = text[: cut % (len(text) + 1)].splitlines(keepends=True)
    random.Random(seed).shuffle(lines)
    read_bytes(tmp_path, b"".join(lines))


@FUZZ
@given(
    lines=st.lists(st.sampled_from(LINES), max_size=60), separator=st.sampled_from([b"\n", b"\r", b"", b"\r\n", b"\0"])
)
def test_lines_of_all_formats_mixed(tmp_path: Path, lines: list[bytes], separator: bytes) -> None:
    read_bytes(tmp_path, separator.join(lines))


@FUZZ
@given(
    text=st.sampled_from(TEXTS),
    edits=st.lists(st.tuples(st.integers(0, 10**6), st.binary(min_size=1, max_size=4)), max_size=40),
)
def test_overwritten_bytes(tmp_path: Path, text: bytes, edits: list[tuple[int, bytes]]) -> None:
    data = bytearray(text)
    for at, new in edits:
        data[at % len(data) : at % len(data) + len(new)] = new
    read_bytes(tmp_path, bytes(data))


@FUZZ
@given(text=st.sampled_from(TEXTS), digit=st.sampled_from(list(b"0123456789-.enaK:/| ")), seed=st.integers(0, 2**32))
def test_changed_digits(tmp_path: Path, text: bytes, digit: int, seed: int) -> None:
    chooser = random.Random(seed)
    data = bytes(digit if 48 <= byte <= 57 and chooser.random() < 0.05 else byte for byte in text)
    read_bytes(tmp_path, data)


@FUZZ
@given(data=st.binary(max_size=4000), name=st.sampled_from([None, *reader_names()]))
def test_any_bytes_by_any_reader(tmp_path: Path, data: bytes, name: str | None) -> None:
    read_bytes(tmp_path, data, name)


@pytest.mark.parametrize("name", reader_names())
def test_every_reader_survives_every_fixture(tmp_path: Path, name: str) -> None:
    read_bytes(tmp_path, b"\n".join(TEXTS), name)


@pytest.mark.parametrize("prefix", [b"\x1f\x8b", b"\x1f\x8b\x08\x00garbage"])
def test_a_damaged_archive_is_one_error(tmp_path: Path, prefix: bytes) -> None:
    from surrogate.errors import FileFormatError

    path = tmp_path / "job.log.gz"
    path.write_bytes(prefix)
    try:
        check(read_log(path))
    except FileFormatError as error:
        assert "job.log.gz" in str(error)
