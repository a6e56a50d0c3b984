"""Numbers, prefixes, settings and out-of-memory reports, line by line."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from surrogate.ingest.facts import columns_of
from surrogate.ingest.lines import Line, clean_text, select_lines
from surrogate.ingest.numbers import parse_duration, parse_number, parse_positive
from surrogate.ingest.oom import read_oom
from surrogate.ingest.prefixes import parse_clock, rank_tag
from surrogate.ingest.printed import printed_settings


@pytest.mark.parametrize(
    ("text", "value"),
    [("11.5K", 11500.0), ("1,234.5", 1234.5), ("2.56e+5", 256000.0), ("85.8G", 85.8e9), ("3T", 3e12), ("-1", -1.0)],
)
def test_numbers(text: str, value: float) -> None:
    assert parse_number(text) == value


@pytest.mark.parametrize("text", ["nan", "inf", "-inf", "", "K", "1.2.3", "nanms"])
def test_no_numbers(text: str) -> None:
    assert math.isnan(parse_number(text))


@pytest.mark.parametrize("text", ["0", "-3.5", "0.0K"])
def test_not_positive(text: str) -> None:
    assert math.isnan(parse_positive(text))


def test_durations_with_days() -> None:
    assert parse_duration("2 days, 1:00:01") == 2 * 86400 + 3601


@pytest.mark.parametrize(
    "text",
    [
        "[2025-02-03 04:05:06,500] [INFO]",
        "2025-02-03T04:05:06.500+08:00 INFO",
        "02/03/2025 04:05:06.5 [INFO|DP=0]",
        "[20250203 04:05:06.5][rank-7/8]",
        "[02/03/25 04:05:06.5] INFO colossalai",
    ],
)
def test_clocks(text: str) -> None:
    assert parse_clock(text) == 1738555506.5


@pytest.mark.parametrize("text", ["no time", "99/99/2025 04:05:06", "2025-13-41 04:05:06"])
def test_no_clock(text: str) -> None:
    assert math.isnan(parse_clock(text))


def test_tags_ignore_time_but_not_the_rank() -> None:
    first = rank_tag("[default7]: [2025-02-03 04:05:06] ")
    assert first == rank_tag("[default7]: [2025-02-03 09:09:09] ") != rank_tag("[default3]: [2025-02-03 04:05:06] ")
    assert rank_tag("[2025-02-03 04:05:06] ") == ""


@pytest.mark.parametrize("raw", [b"\x1b[31mstep: 1\x1b[0m", b"[31mstep: 1[0m", b"\x1b[1;31mstep: \x1b[39m1"])
def test_colours_are_removed(raw: bytes) -> None:
    assert clean_text(raw + b"[0m") == "step: 1"


def test_neighbours_are_known() -> None:
    lines = list(select_lines([b"a x\nb x\n\nnoise\nc x\n\nd x\n"], [b"x"]))
    assert [line.follows for line in lines] == [False, True, False, True]


@pytest.mark.parametrize(
    ("text", "settings"),
    [
        ("  num_layers ...................... 32..........................updated", {"num_layers": "32"}),
        ('  "num_attention_heads": 64,', {"num_attention_heads": "64"}),
        ("      micro_batch_size: 4", {"micro_batch_size": "4"}),
        ("    tp=8,", {"tensor_model_parallel_size": "8"}),
        (
            "torchrun train.py --tensor-model-parallel-size 8 --swiglu --bf16",
            {"tensor_model_parallel_size": "8", "swiglu": "true", "bf16": "true"},
        ),
        ("Building 2-D device mesh with ['dp', 'tp'], [4, 2]", {"world_size": "8"}),
        ("GPU 0: NVIDIA A100-SXM4-80GB (UUID: x)", {"accelerator": "A100-SXM4-80GB"}),
        ("DeepSpeed info: version=0.17.5, git-hash=unknown", {"version deepspeed": "0.17.5"}),
        ("Applied full activation checkpointing to the model", {"recompute_granularity": "full"}),
        ("nothing of interest here", {}),
    ],
)
def test_settings(text: str, settings: dict[str, str]) -> None:
    found = {key: value for key, value in printed_settings(text).items() if not key.startswith("argument ")}
    assert found == settings


def test_columns() -> None:
    found = columns_of({"num_nodes": "4", "gpus_per_node": "8", "micro_batch_size": "2", "data_parallel_size": "16",
                        "gradient_accumulation_steps": "4", "fp8": "hybrid", "recompute_granularity": "selective",
                        "accelerator": "A100-SXM4-80GB", "use_distributed_optimizer": "True"})  # fmt: skip
    assert found["num_gpus"] == 32
    assert found["global_batch_size"] == 2 * 16 * 4
    assert (found["precision"], found["recompute"], found["zero_stage"]) == ("fp8", "selective", 1)
    assert found["accelerator"] == "A100-80GB"


@pytest.mark.parametrize(
    "text",
    [
        "RuntimeError: CUDA out of memory. Tried to allocate 20.00 MiB (GPU 0; 31.75 GiB total capacity; 29 GiB ...",
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 3 has a total capacity of 9 GiB",
        "torch.cuda.OutOfMemoryError: HIP out of memory. Tried to allocate 896.00 MiB.",
        "RuntimeError: CUDA error: out of memory",
        "RuntimeError: HIP error: out of memory",
        "RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`",
        "jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: Attempting to allocate 3.00G. (0x0x0_HBM0)",
        "NCCL WARN Cuda failure 'out of memory'",
    ],
)
def test_out_of_memory(text: str) -> None:
    report = read_oom(text)
    assert report is not None and report[0] == "oom"


@pytest.mark.parametrize(
    "text", ["if you run out of memory, lower the batch", "max_split_size_mb avoids fragmentation"]
)
def test_mere_mentions(text: str) -> None:
    assert read_oom(text) is None


def test_the_reader_of_the_manual_works() -> None:
    manual = (Path(__file__).parents[2] / "docs" / "ingest-logs.md").read_text()
    names: dict[str, type] = {}
    exec(manual.split("```python")[1].split("```")[0], names)
    line = Line("[train] step 12/500 loss=2.31 dt=812ms tok/s/gpu=10,087 tflops=402", follows=True)
    (record,) = names["MyTrainerReader"]().read(line)
    assert (record.step, record.total, record.loss) == (12, 500, "2.31")
    assert (record.time_s, record.tokens_per_s_per_gpu, record.flops_per_s) == (0.812, 10087.0, 402e12)
