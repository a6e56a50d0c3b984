"""Each oddity and each framework on a small log written for it: `tests/ingest/fixtures/<oddity>/job.log`."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import pytest

from surrogate.ingest import LogReport, read_log

FIXTURES = Path(__file__).parent / "fixtures"


def report_of(name: str) -> LogReport:
    return read_log(next((FIXTURES / name).glob("job.log*")))


class Expected(NamedTuple):
    format: str
    step_time_s: tuple[float | None, ...]
    """Per run; None where it cannot be derived."""
    n_records: tuple[int, ...] = ()
    rank_copies: int = 0


CASES = {
    # frameworks
    "torchtitan_colours": Expected("torchtitan", (1.2029,), (7,), 21),  # 8192 tokens / 6810 tokens/s
    "nanotron_suffixes": Expected("nanotron", (11.6,), (10,), 10),
    "nemo_bar": Expected("nemo", (3.14,), (30,), 1),
    "colossalai_rich": Expected("colossalai", (19.714,), (7,)),
    "colossalai_gpt_demo": Expected("colossalai", (0.336,), (8,)),
    "colossalai_summary": Expected("colossalai", (None,), (1,)),
    "colossalai_benchmark": Expected("colossalai", (20.1,), (2,)),  # 60.3 s / (48 / 16) steps
    "deepspeed_chat": Expected("deepspeed", (0.7431,), (11,)),  # 128 samples / 172.25 samples/s
    "clock_against_rate": Expected("deepspeed", (1.0,), (11,)),
    "litgpt_pretrain": Expected("litgpt", (1.04,), (10,)),  # 3 * 250 + 290 ms
    "litgpt_2023": Expected("litgpt", (2.4355,), (6,)),
    "litgpt_2023_speed": Expected("litgpt", (0.641,), (12,)),
    "litgpt_sparse": Expected("litgpt", (64 * 0.251,), (12,)),
    "litgpt_sparse_unstepped": Expected("litgpt", (8 * 0.251,), (12,)),
    "nanotron_small_times": Expected("nanotron", (0.211,), (20,)),
    "trainer_log_json": Expected("progress-bar", (3.0,), (14,)),
    "nanogpt": Expected("nanogpt", (0.561,), (31,)),
    "llm_c": Expected("nanogpt", (0.45405,), (11,)),
    "build_nanogpt": Expected("nanogpt", (1.2395,), (10,)),
    "composer_window": Expected("llm-foundry", (3.98444,), (10,)),  # 1024 samples / 257 samples/s
    "hf_trainer_evaluation": Expected("hf-trainer", (6.5,), (1,)),  # (142.5 - 12.5) s / 20 steps
    "hf_trainer_bar_only": Expected("progress-bar", (3.0,), (60,)),
    "gpt_neox": Expected("gpt-neox", (18.4915,), (10,)),
    "primus": Expected("primus", (13.107,), (12,)),
    "megatron_bridge": Expected("megatron-bridge", (8.577,), (10,)),
    "maxtext_eval": Expected("maxtext", (4.007,), (12,)),
    "mlperf_samples": Expected("mlperf", (16 / 5.035,), (6,)),
    "internevo": Expected("internevo", (1.0,), (12,)),
    # oddities of Megatron's line
    "interleaved_ranks": Expected("megatron-lm", (1.502,), (30,), 90),
    "rank_blocks": Expected("megatron-lm", (1.502,), (20,), 40),
    "joined_lines": Expected("megatron-lm", (1.501,), (20,)),
    "cut_lines": Expected("megatron-lm", (1.501,), (23,)),
    "carriage_returns": Expected("megatron-lm", (1.501,), (20,)),
    "skipped_and_nan": Expected("megatron-lm", (1.501,), (20,)),
    "seconds": Expected("megatron-lm", (105.2,), (11,)),
    "regime_change": Expected("megatron-lm", (1.502,), (60,)),
    "restart_from_checkpoint": Expected("megatron-lm", (1.502,), (50,)),
    "two_runs_clock_backwards": Expected("megatron-lm", (1.501, 1.201), (20, 15)),
    "evaluation_steps": Expected("megatron-lm", (1.501,), (30,)),
    "batch_ramp": Expected("megatron-lm", (1.8,), (40,)),
    "gzipped": Expected("megatron-lm", (1.501,), (20,)),
    "launcher_prefixes": Expected("megatron-lm", (1.501,), (24,)),
    "single_cold_step": Expected("megatron-lm", (20.2891,), (1,)),
    "oom_only_mentioned": Expected("megatron-lm", (1.501,), (7,)),
    "oom_after_training": Expected("megatron-lm", (1.501,), (20,)),
    "oom_after_bars": Expected("hf-trainer", (3.0,), (40,)),
    "ranks_with_own_loss": Expected("megatron-lm", (1.501,), (20,), 57),
    "oom_recovered": Expected("llm-foundry", (2.0118,), (7,)),
}


@pytest.mark.parametrize("name", CASES)
def test_step_time_of_each_run(name: str) -> None:
    expected, report = CASES[name], report_of(name)
    assert report.format == expected.format
    assert all(run.status == "ok" for run in report.runs)
    assert len(report.runs) == len(expected.step_time_s)
    for run, step_time_s in zip(report.runs, expected.step_time_s, strict=True):
        if step_time_s is None:
            assert run.step_time_s != run.step_time_s and run.reasons["step_time_s"]
        else:
            assert run.step_time_s == pytest.approx(step_time_s, rel=2e-3)
    assert tuple(run.n_records for run in report.runs) == expected.n_records
    assert sum(run.num_rank_copies for run in report.runs) == expected.rank_copies


@pytest.mark.parametrize("name", CASES)
def test_forcing_the_detected_format_changes_nothing(name: str) -> None:
    path = next((FIXTURES / name).glob("job.log*"))
    assert [run.n_records for run in read_log(path, CASES[name].format).runs] == list(CASES[name].n_records)


@pytest.mark.parametrize(
    ("name", "column", "value"),
    [
        ("torchtitan_colours", "tokens_per_s_per_gpu", 6810.0),
        ("torchtitan_colours", "mfu", 0.3844),
        ("torchtitan_colours", "peak_memory_bytes", 40.12 * 2**30),
        ("nanotron_suffixes", "tokens_per_s_per_gpu", 2850.0),
        ("nanotron_suffixes", "peak_memory_bytes", 21.5e9),
        ("composer_window", "tokens_per_s_per_gpu", 257 * 2048 / 64),
        ("composer_window", "mfu", 0.4321),
        ("gpt_neox", "tokens_per_s_per_gpu", 128 * 2048 / 18.4915 / 8),
        ("gpt_neox", "achieved_flops_per_s", 112.6e12),
        ("primus", "achieved_flops_per_s", 579.4e12),
        ("megatron_bridge", "achieved_flops_per_s", 1574.0e12),
        ("mlperf_samples", "tokens_per_s_per_gpu", 5.035 * 8192 / 16),
        ("internevo", "tokens_per_s_per_gpu", 1036.0),
        ("colossalai_summary", "samples_per_s", 27.94),
        ("colossalai_summary", "peak_memory_bytes", 39998 * 2**20),
        ("litgpt_pretrain", "peak_memory_bytes", 20e9),
        ("litgpt_2023_speed", "tokens_per_s_per_gpu", 2558.0),
    ],
)
def test_printed_figures(name: str, column: str, value: float) -> None:
    assert getattr(report_of(name).runs[0], column) == pytest.approx(value, rel=1e-3)


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("torchtitan_colours", {"num_gpus": 8, "seq_len": 8192, "global_batch_size": 8, "accelerator": "H100-80GB"}),
        ("nanotron_suffixes", {"dp": 2, "tp": 2, "pp": 2, "num_gpus": 8, "seq_len": 4096, "num_layers": 24}),
        ("nanotron_small_times", {"dp": 4, "tp": 2, "pp": 1, "num_gpus": 8, "seq_len": 1024}),
        ("gpt_neox", {"num_layers": 32, "hidden_size": 4096, "num_heads": 32, "pp": 1, "num_gpus": 8}),
        ("maxtext_eval", {"seq_len": 8192, "global_batch_size": 32, "num_gpus": 4}),
        ("hf_trainer_evaluation", {"micro_batch_size": 4, "global_batch_size": 64, "num_gpus": 8}),
        ("megatron_oom", {"num_layers": 80, "tp": 4, "pp": 2, "micro_batch_size": 4, "precision": "bf16"}),
    ],
)
def test_printed_configuration(name: str, settings: dict[str, object]) -> None:
    found = report_of(name).runs[0].settings
    assert {key: found.get(key) for key in settings} == settings


@pytest.mark.parametrize(
    "name", ["megatron_oom", "pytorch_oom_old", "hip_oom", "deepspeed_oom", "oom_after_loading_bars"]
)
def test_out_of_memory_becomes_a_run_without_time(name: str) -> None:
    (run,) = report_of(name).runs
    assert run.status == "oom"
    assert run.step_time_s != run.step_time_s
    assert any("out of memory" in note for note in run.notes)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("regime_change", "the speed changed for good (steps 2-40: 1.502 s; steps 41-60: 2.102 s)"),
        ("restart_from_checkpoint", "restarted at step 21"),
        ("batch_ramp", "the global batch size changes (32, 64); 64 is reported"),
        ("single_cold_step", "it holds the cold first step"),
        ("evaluation_steps", "2 record(s) after an evaluation or checkpoint"),
        ("oom_after_training", "the steps before count as measured"),
        ("hf_trainer_evaluation", "less 12.5 s of evaluation"),
    ],
)
def test_notes_say_what_was_done(name: str, words: str) -> None:
    assert any(words in note for note in report_of(name).runs[0].notes)


@pytest.mark.parametrize(
    ("name", "words"),
    [("no_training", "no training progress"), ("host_oom", "the host's memory ran out")],
)
def test_files_without_runs_say_why(name: str, words: str) -> None:
    report = report_of(name)
    assert report.runs == ()
    assert any(words in note for note in report.notes)


def test_time_stamps_win_over_a_rate_that_leaves_time_out() -> None:
    path = FIXTURES / "clock_against_rate" / "job.log"
    (run,) = read_log(path, known={"global_batch_size": 512}).runs  # 512 / 256 samples/s would be 2 s
    assert (run.step_time_from, run.step_time_s) == ("wall", pytest.approx(1.0))
    (run,) = read_log(path, known={"global_batch_size": 256}).runs
    assert run.step_time_from == "samples"


def test_memory_is_blamed_on_the_job_that_ran_out() -> None:
    oom, ok = report_of("oom_then_smaller_batch").runs
    assert (oom.status, oom.settings["micro_batch_size"]) == ("oom", 4)
    assert (ok.status, ok.settings["micro_batch_size"]) == ("ok", 2)
    assert ok.step_time_s == pytest.approx(1.501, rel=1e-3)
