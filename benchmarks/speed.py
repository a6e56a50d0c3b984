"""How fast the predictor is on this machine: rows per second, latency of one plan, start of the command line.

    python benchmarks/speed.py [--model-dir DIR] [--rows N]

Without a model directory one is fitted to data/runs.parquet first. Each figure is the median of five turns after a
warm-up, in seconds of wall clock; the rate per CPU second beside it does not suffer from neighbours on the machine.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from surrogate.analytic.step_terms import step_terms
from surrogate.derive import load_runs
from surrogate.estimators import HybridPredictor
from surrogate.features import prepare_runs

RUNS = Path(__file__).parents[1] / "data" / "runs.parquet"
TURNS = 5
GOALS = {"prepare_runs + step_terms": 200_000, "predict_log": 50_000}
"""Rows per second that must be reached."""


class Timing(NamedTuple):
    """Medians of one task."""

    wall_s: float
    cpu_s: float


def timed(task: Callable[[], object], turns: int = TURNS) -> Timing:
    """Return the median time of a task, after one turn that does not count."""
    task()
    walls, cpus = [], []
    for _ in range(turns):
        wall, cpu = time.perf_counter(), time.process_time()
        task()
        walls.append(time.perf_counter() - wall)
        cpus.append(time.process_time() - cpu)
    return Timing(statistics.median(walls), statistics.median(cpus))


def layouts(runs: pd.DataFrame, count: int) -> pd.DataFrame:
    """Return layouts of one plan nobody measured: one site, every size drawn at random."""
    random = np.random.default_rng(0)
    plan = runs[(runs.accelerator == "H100-80GB") & (runs.model_name == "llama3-70b")].iloc[[0]]
    tp, pp, dp = (random.choice(sizes, count) for sizes in ([1, 2, 4, 8], [1, 2, 4, 8], [4, 8, 16, 32]))
    table = plan.loc[plan.index.repeat(count)].reset_index(drop=True)
    return table.assign(
        source=pd.Series(pd.NA, index=table.index, dtype=runs.source.dtype),
        publisher_family=pd.Series(pd.NA, index=table.index, dtype=runs.publisher_family.dtype),
        tp=tp, pp=pp, cp=1, dp=dp, ep=1, vp=1, num_gpus=tp * pp * dp, global_batch_size=dp * 32,
        micro_batch_size=random.choice([1, 2, 4], count),
    )  # fmt: skip


def print_rates(predictor: HybridPredictor, table: pd.DataFrame) -> bool:
    """Print rows per second of each stage; return whether every goal is reached."""

    def terms() -> object:
        prepared = prepare_runs(table)
        return step_terms(prepared.workload, prepared.software)

    tasks: dict[str, Callable[[], object]] = {
        "prepare_runs + step_terms": terms,
        "predict_log": lambda: predictor.predict_log(table),
        "predict_frame": lambda: predictor.predict_frame(table),
    }
    reached = True
    for name, task in tasks.items():
        timing = timed(task)
        rate, per_cpu = len(table) / timing.wall_s, len(table) / timing.cpu_s
        goal = GOALS.get(name)
        reached &= goal is None or max(rate, per_cpu) >= goal
        suffix = f"   goal {goal:>9,}" if goal else ""
        print(f"{name:<28}{rate:>11,.0f} rows/s{per_cpu:>11,.0f} rows/CPU s{suffix}")
    return reached


def print_latencies(predictor: HybridPredictor, directory: Path, table: pd.DataFrame) -> None:
    """Print what one plan, a load and the command line take."""
    command = [str(Path(sys.executable).with_name("surrogate")), "--help"]
    plan = table.head(1)
    tasks: dict[str, Callable[[], object]] = {
        "predict, one plan": lambda: predictor.predict(plan),
        "predict_frame, one plan": lambda: predictor.predict_frame(plan),
        "nearest_runs, one plan": lambda: predictor.nearest_runs(plan),
        "condition, five own runs": lambda: predictor.condition(own_runs(predictor, table)),
        "load a saved predictor": lambda: HybridPredictor.load(directory),
        "surrogate --help": lambda: subprocess.run(command, check=True, capture_output=True),
    }
    for name, task in tasks.items():
        timing = timed(task)
        print(f"{name:<28}{1000 * timing.wall_s:>11,.0f} ms    {1000 * timing.cpu_s:>11,.0f} CPU ms")


def own_runs(predictor: HybridPredictor, table: pd.DataFrame) -> pd.DataFrame:
    """Return five layouts as a user's own runs, 10 % slower than predicted."""
    five = table.head(5)
    return five.assign(source="mine", publisher_family="mine", measured_step_time_s=1.1 * predictor.predict(five))


def main() -> int:
    """Run every benchmark; return 1 if a goal is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model-dir", type=Path, help="a directory that HybridPredictor.save wrote")
    parser.add_argument("--rows", type=int, default=100_000, help="layouts in the table")
    arguments = parser.parse_args()
    runs = load_runs(RUNS)
    with tempfile.TemporaryDirectory() as scratch:
        directory = arguments.model_dir or Path(scratch) / "model"
        if arguments.model_dir is None:
            start = time.perf_counter()
            HybridPredictor().fit(runs).save(directory)
            print(f"{'fit and save':<28}{time.perf_counter() - start:>11,.1f} s      {len(runs)} rows")
        predictor = HybridPredictor.load(directory)
        table = layouts(runs, arguments.rows)
        reached = print_rates(predictor, table)
        print_latencies(predictor, directory, table)
    return 0 if reached else 1


if __name__ == "__main__":
    raise SystemExit(main())
