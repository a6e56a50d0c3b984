"""Real public logs (folder named by SURROGATE_INPUTS) against their true values, within 1 %."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from surrogate.ingest import LogReport, read_log

FOLDER = Path(os.environ.get("SURROGATE_INPUTS", "")) / "logs"
TRUTH = json.loads((FOLDER / "truth.json").read_text()) if (FOLDER / "truth.json").is_file() else {}
pytestmark = pytest.mark.skipif(not TRUTH, reason="SURROGATE_INPUTS does not name the folder with the real logs")

OUTSIDE = {
    # what a plan would say; the log does not
    "megatron-deepspeed/3.log": {"num_gpus": 384},
    "megatron-deepspeed/4.log": {"num_gpus": 256, "seq_len": 2048},
    "hf-trainer/2.log": {"num_gpus": 16, "seq_len": 1024, "global_batch_size": 64},
    "mlperf/7.log": {"seq_len": 8192},
}
RUN_OF_TRUTH = {"megatron-deepspeed/3.log": 1}  # second of eight runs


def truth_list(name: str, *keys: str) -> list[float]:
    value = next((TRUTH[name][key] for key in keys if key in TRUTH[name]), [])
    return value if isinstance(value, list) else [value]


def read(name: str) -> LogReport:
    return read_log(FOLDER / name, known=OUTSIDE.get(name))


@pytest.mark.parametrize("name", [name for name in TRUTH if truth_list(name, "median_step_s")])
def test_step_time(name: str) -> None:
    runs, truth = read(name).runs, truth_list(name, "median_step_s")
    runs = runs[RUN_OF_TRUTH.get(name, 0) :][: len(truth)] if name in RUN_OF_TRUTH else runs
    assert [run.step_time_s for run in runs] == pytest.approx(truth, rel=0.01)


TOKEN_KEYS = ("tokens_per_s_per_gpu", "median_tokens_per_s_per_gpu")


@pytest.mark.parametrize("name", [name for name in TRUTH if truth_list(name, *TOKEN_KEYS)])
def test_tokens_per_s_per_gpu(name: str) -> None:
    runs, truth = read(name).runs, truth_list(name, *TOKEN_KEYS)
    runs = runs[RUN_OF_TRUTH.get(name, 0) :][: len(truth)]
    assert [run.tokens_per_s_per_gpu for run in runs] == pytest.approx(truth, rel=0.01)


@pytest.mark.parametrize("name", [name for name in TRUTH if truth_list(name, "median_samples_per_s", "samples_per_s")])
def test_samples_per_s(name: str) -> None:
    truth = truth_list(name, "median_samples_per_s", "samples_per_s")
    assert [run.samples_per_s for run in read(name).runs] == pytest.approx(truth, rel=0.01)


@pytest.mark.parametrize(
    ("name", "column", "words"),
    [
        ("deepspeed/3.log", "step_time_s", "samples/s only; step time needs the batch size"),
        ("llm-foundry/3.log", "step_time_s", "no throughput printed"),
        ("llm-foundry/3.log", "tokens_per_s_per_gpu", "no throughput printed"),
        ("nanogpt/3.log", "tokens_per_s_per_gpu", "needs"),
    ],
)
def test_what_cannot_be_derived_says_why(name: str, column: str, words: str) -> None:
    (run,) = read(name).runs
    assert words in run.reasons[column]


def test_number_of_runs() -> None:
    counts = {name: len(read(name).runs) for name in TRUTH}
    several = {name: count for name, count in counts.items() if count != 1}
    assert several == {
        "megatron-deepspeed/3.log": 8,
        "megatron-bridge/1.log": 4,
        "megatron-bridge/2.log": 2,
        "primus-megatron/1.log": 2,
        "torchtitan/4.log": 3,
    }


def test_configuration_of_argument_dumps() -> None:
    settings = read("megatron-lm/1.log").runs[0].settings
    expected = {"num_layers": 48, "hidden_size": 7168, "num_heads": 32, "ffn_hidden_size": 28672, "seq_len": 1024,
                "tp": 4, "pp": 8, "dp": 1, "num_gpus": 32, "micro_batch_size": 1, "global_batch_size": 4,
                "precision": "fp16", "recompute": "full"}  # fmt: skip
    assert {key: settings.get(key) for key in expected} == expected


def test_inferred_configuration() -> None:
    settings = read("deepspeed/5.log").runs[0].settings
    assert (settings["global_batch_size"], settings["num_gpus"], settings["seq_len"]) == (128, 16, 512)
    assert read("gpt-neox/3.log").runs[0].settings["global_batch_size"] == 64
