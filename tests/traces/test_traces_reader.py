"""The reader: every oddity gives the same columns as the plain trace, or a sentence."""

import gzip
import sys
import types

import numpy as np
import pytest

from surrogate.errors import FileFormatError, InputError
from surrogate.traces import stream
from surrogate.traces.breakdown import rows_occupancy
from surrogate.traces.kinds import EventKind
from surrogate.traces.reader import read_trace, read_traces
from surrogate.traces.steps import find_steps

SAME_AS_PLAIN = [
    "bare_list",
    "old_categories",
    "fractional_microseconds",
    "nanoseconds",
    "times_as_text",
    "hip",
    "no_distributed_info",
    "no_nccl_metadata",
    "deep_ep",
]


@pytest.mark.parametrize("oddity", ["plain", *SAME_AS_PLAIN])
def test_oddities_read_like_the_plain_trace(fixtures, oddity):
    trace = read_trace(fixtures / oddity / "trace.json")
    assert int((trace.kind == EventKind.KERNEL).sum()) == 12
    occupancy = rows_occupancy(trace, trace.main_device_rows)
    assert occupancy.busy_s == pytest.approx(660e-6, rel=1e-9)
    assert occupancy.exposed_communication_s == pytest.approx(150e-6, rel=1e-9)
    assert [(step.number, step.end_ns - step.start_ns) for step in find_steps(trace)] == [
        (1, 295_000),
        (2, 295_000),
        (3, 295_000),
    ]


def test_columns_equal_plain_whatever_the_unit(fixtures, plain):
    reference = read_trace(plain)
    for oddity in ("bare_list", "nanoseconds", "times_as_text", "no_distributed_info"):
        trace = read_trace(fixtures / oddity / "trace.json")
        for column in ("kind", "start_ns", "duration_ns", "stream", "correlation", "flops"):
            np.testing.assert_array_equal(getattr(trace, column), getattr(reference, column), err_msg=oddity)


def test_document_facts(plain):
    info = read_trace(plain).info
    assert (info.rank, info.world_size, info.device_name) == (0, 2, "NVIDIA H100 80GB HBM3")
    assert info.versions["nccl_version"] == "2.21.5"
    assert info.groups == {"0": (0, 1)}
    assert info.num_events == 56


@pytest.mark.parametrize("size", [1, 64, 333, 1000, 5000])
def test_chunk_size_does_not_matter(plain, monkeypatch, size):
    reference = read_trace(plain)
    monkeypatch.setattr(stream, "CHUNK_BYTES", size)
    trace = read_trace(plain)
    np.testing.assert_array_equal(trace.start_ns, reference.start_ns)
    assert trace.info == reference.info


def test_gzip_is_told_by_content(plain, tmp_path):
    path = tmp_path / "trace.json"
    path.write_bytes(gzip.compress(plain.read_bytes()))
    assert len(read_trace(path)) == len(read_trace(plain))


def test_odd_values_are_kept_out_or_put_right(fixtures):
    trace = read_trace(fixtures / "odd_values" / "trace.json")
    assert 'weird \x01 },{ "traceEvents": [' in trace.names
    assert "no time" not in trace.names
    assert (trace.duration_ns >= 0).all()
    bad = trace.names.index("k")
    (row,) = np.flatnonzero(trace.name == bad)
    assert (trace.duration_ns[row], trace.stream[row], trace.correlation[row]) == (0, 7, -1)


def test_collective_metadata(plain):
    trace = read_trace(plain)
    call = trace.collectives[min(trace.collectives)]
    assert (call.operation, call.group, call.group_size, call.input_bytes, call.sequence) == (
        "allreduce",
        "0",
        2,
        2e6,
        1,
    )


@pytest.mark.parametrize(
    ("file", "sentence"),
    [
        ("cut_off/trace.json", "cut off or damaged"),
        ("cut_after_events/trace.json", "cut off or damaged"),
        ("not_a_trace/config.json", "JSON, but not a profiler trace"),
        ("not_a_trace/wrong_type.json", "JSON, but not a profiler trace"),
        ("not_a_trace/list.json", "not a Kineto trace"),
        ("not_a_trace/text.json", "not a profiler trace"),
        ("not_a_trace/empty.json", "empty file"),
        ("not_a_trace/no_events.json", "no events"),
    ],
)
def test_refusals_say_why(fixtures, file, sentence):
    with pytest.raises(FileFormatError, match=sentence):
        read_trace(fixtures / file)


def test_cut_before_the_last_brace(plain, tmp_path):
    path = tmp_path / "trace.json"
    text = plain.read_text()
    path.write_text(text[: text.rindex("]") + 1])
    with pytest.raises(FileFormatError, match="cut off"):
        read_trace(path)


def test_cut_gzip(plain, tmp_path):
    path = tmp_path / "trace.json.gz"
    whole = gzip.compress(plain.read_bytes())
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(FileFormatError, match="cut off"):
        read_trace(path)


def test_folder_of_ranks_in_parallel(fixtures):
    traces = read_traces([fixtures / "two_ranks"], max_workers=2)
    assert [trace.info.rank for trace in traces] == [0, 1]


def test_missing_path_and_empty_folder(tmp_path):
    with pytest.raises(InputError, match="existing file"):
        read_traces([tmp_path / "none.json"])
    with pytest.raises(InputError, match="json"):
        read_traces([tmp_path])


def test_scheduler_without_dask(plain, monkeypatch):
    monkeypatch.setitem(sys.modules, "dask.distributed", None)
    with pytest.raises(InputError, match=r"surrogate\[dask\]"):
        read_traces([plain], scheduler="tcp://127.0.0.1:1")


def test_scheduler_gets_the_files(fixtures, monkeypatch):
    seen = []

    class Client:
        def __init__(self, address, timeout):
            seen.append(address)

        def __enter__(self):
            return self

        def __exit__(self, *error):
            return False

        def map(self, function, files):
            return [function(file) for file in files]

        def gather(self, futures):
            return futures

    module = types.ModuleType("dask.distributed")
    module.Client = Client
    monkeypatch.setitem(sys.modules, "dask", types.ModuleType("dask"))
    monkeypatch.setitem(sys.modules, "dask.distributed", module)
    traces = read_traces([fixtures / "two_ranks"], scheduler="tcp://node:8786")
    assert (len(traces), seen) == (2, ["tcp://node:8786"])
