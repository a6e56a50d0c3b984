"""Long logs: linear time, bounded memory, ranks and thinning that do not change the answer."""

from __future__ import annotations

import random
import time
import tracemalloc
from pathlib import Path

import pytest

from surrogate.ingest import read_log

LINE = (
    "{tag}[2025-03-01 10:00:00] iteration {step:8d}/ 10000000 | consumed samples: {samples:12d} | elapsed time per "
    "iteration (ms): {ms:.1f} | throughput per GPU (TFLOP/s/GPU): 412.3 | global batch size:   512 | "
    "lm loss: {loss:.6E} | number of skipped iterations:   0 | number of nan iterations:   0 |\n"
)

RUN_PER_LINE = "".join(
    f"iteration 1/ 1 | elapsed time per iteration (ms): {n}.0 | lm loss: {n}.5 |\n" for n in (12, 99)
)


def write_log(path: Path, *, num_steps: int, num_ranks: int = 1) -> Path:
    chooser = random.Random(7)
    with path.open("w") as stream:
        for step in range(1, num_steps + 1):
            ms = 30_000.0 if step == 1 else chooser.gauss(1500, 15)
            for rank in chooser.sample(range(num_ranks), num_ranks):
                tag = f"[default{rank}]: " if num_ranks > 1 else " "
                stream.write(
                    LINE.format(tag=tag, step=step, samples=step * 512, ms=ms + rank / 10, loss=2 + step % 97 / 50)
                )
    return path


def test_interleaved_ranks_are_one_run(tmp_path: Path) -> None:
    path = write_log(tmp_path / "ranks.log", num_steps=1500, num_ranks=16)
    (run,) = read_log(path).runs
    assert run.n_records == 1500
    assert run.num_rank_copies == 15 * 1500
    assert run.step_time_s == pytest.approx(1.5, rel=2e-3)
    assert run.samples_per_s == pytest.approx(512 / 1.5, rel=2e-3)


def test_thinning_keeps_the_answer(tmp_path: Path) -> None:
    (run,) = read_log(write_log(tmp_path / "long.log", num_steps=40_000)).runs
    assert run.n_records == 40_000
    assert run.n_steps == pytest.approx(40_000, rel=0.01)
    assert run.step_time_s == pytest.approx(1.5, rel=1e-3)
    assert run.step_time_cv == pytest.approx(0.01, rel=0.05)


def test_a_new_run_after_a_thinned_one_is_seen(tmp_path: Path) -> None:
    first, second = write_log(tmp_path / "a.log", num_steps=20_000), write_log(tmp_path / "b.log", num_steps=400)
    both = tmp_path / "both.log"
    both.write_text(first.read_text() + second.read_text().replace("(ms): 1", "(ms): 3"))
    assert [run.n_records for run in read_log(both).runs] == [20_000, 400]


def cpu_s(path: Path) -> float:
    best = float("inf")
    for _ in range(2):
        start = time.process_time()
        read_log(path)
        best = min(best, time.process_time() - start)
    return best


@pytest.mark.parametrize(
    "unit",
    [
        pytest.param("noise without any meaning for the reader but as long as lines of logs are\n", id="noise"),
        pytest.param("  5%|X | 1/20 [00:10<01:00,  6.01s/it]\r", id="carriage returns without line end"),
        pytest.param("elapsed time per iteration (ms): 12 | iteration 5/", id="no line end at all"),
        pytest.param(RUN_PER_LINE, id="a run per line"),
        pytest.param("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB\n", id="out of memory"),
    ],
)
def test_time_is_linear(tmp_path: Path, unit: str) -> None:
    times = []
    for num_bytes in (300_000, 1_200_000):
        path = tmp_path / f"{num_bytes}.log"
        path.write_text(unit * (num_bytes // len(unit)))
        times.append(cpu_s(path))
    assert times[1] < 8 * times[0] + 0.5  # four times the bytes; quadratic would be sixteen


def test_memory_stays_bounded(tmp_path: Path) -> None:
    small, large = (write_log(tmp_path / f"{n}.log", num_steps=n) for n in (4_000, 12_000))
    peaks = []
    for path in (small, large):
        tracemalloc.start()
        read_log(path)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 2 * peaks[0] + 8 * 2**20  # a few blocks of 4 MiB come and go
