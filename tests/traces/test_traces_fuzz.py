"""Damaged traces: a clear error or an answer, never another exception and never a hang."""

import gzip
import json
import random
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from surrogate.errors import SurrogateError
from surrogate.traces import analyse_traces, read_trace

PLAIN = (Path(__file__).parent / "fixtures" / "plain" / "trace.json").read_bytes()
EVENTS = json.loads(PLAIN)["traceEvents"]
quick = settings(max_examples=60, deadline=2000, suppress_health_check=[HealthCheck.function_scoped_fixture])


def _survives(path: Path, data: bytes) -> None:
    path.write_bytes(data)
    try:
        analyse_traces([read_trace(path)], with_replay=True)
    except SurrogateError as error:
        assert str(path) in str(error) or "circle" in str(error)


@quick
@given(end=st.integers(0, len(PLAIN)))
def test_cut_anywhere(tmp_path, end):
    _survives(tmp_path / "t.json", PLAIN[:end])


@quick
@given(end=st.integers(0, len(gzip.compress(PLAIN))))
def test_cut_gzip_anywhere(tmp_path, end):
    _survives(tmp_path / "t.json.gz", gzip.compress(PLAIN)[:end])


@quick
@given(
    data=st.binary(max_size=400), prefix=st.sampled_from([b"", b"{", b"[", b"\x1f\x8b", b'{"traceEvents": [', b"[{"])
)
def test_binary(tmp_path, data, prefix):
    _survives(tmp_path / "t.json", prefix + data)


@quick
@given(seed=st.integers(0, 10_000), dropped=st.integers(0, 30))
def test_shuffled_and_thinned(tmp_path, seed, dropped):
    events = random.Random(seed).sample(EVENTS, len(EVENTS) - dropped)
    _survives(tmp_path / "t.json", json.dumps({"traceEvents": events}).encode())


@quick
@given(place=st.integers(0, len(PLAIN) - 1), byte=st.integers(0, 255))
def test_one_wrong_byte(tmp_path, place, byte):
    _survives(tmp_path / "t.json", PLAIN[:place] + bytes([byte]) + PLAIN[place + 1 :])


values = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.floats(),
    st.text(max_size=5),
    st.lists(st.integers(), max_size=3),
)


@quick
@given(
    row=st.integers(0, len(EVENTS) - 1),
    key=st.sampled_from(["ts", "dur", "pid", "tid", "cat", "name", "ph", "args"]),
    value=values,
)
def test_one_wrong_value(tmp_path, row, key, value):
    events = [*EVENTS]
    events[row] = events[row] | {key: value}
    _survives(tmp_path / "t.json", json.dumps({"traceEvents": events}).encode())


@quick
@given(
    row=st.integers(0, len(EVENTS) - 1),
    key=st.sampled_from(["correlation", "stream", "device", "Input Dims", "Group size", "dtype", "External id", "Seq"]),
    value=values,
)
def test_one_wrong_argument(tmp_path, row, key, value):
    events = [*EVENTS]
    events[row] = events[row] | {"args": (events[row].get("args") or {}) | {key: value}}
    _survives(tmp_path / "t.json", json.dumps({"traceEvents": events}).encode())
