"""What `surrogate predict` of one plan takes beyond importing its libraries, and where it goes.

    python benchmarks/startup.py [--turns N] [--plan PLAN.yaml]

The commands take turns, so that a busy machine slows all of them alike; medians of wall clock and of CPU time (user and
system). The goal of 0.5 s holds for the difference of either.
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

GOAL_S = 0.5
EXAMPLE = Path(__file__).parents[1] / "examples" / "llama3-70b-512-h100.yaml"
RUN = "import sys; from surrogate.cli.app import main; main(sys.argv[1:])"


class Turn(NamedTuple):
    """What one run of a command took, in seconds."""

    wall_s: float
    cpu_s: float


def commands(plan: Path) -> dict[str, list[str]]:
    """Return what is compared: importing the libraries, the prediction, and the help."""
    return {
        "import pandas, xgboost": [sys.executable, "-c", "import pandas, xgboost"],
        "surrogate predict": [sys.executable, "-c", RUN, "predict", str(plan)],
        "surrogate predict --json": [sys.executable, "-c", RUN, "predict", str(plan), "--json"],
        "surrogate --help": [sys.executable, "-c", RUN, "--help"],
    }


def take_turn(command: list[str]) -> Turn:
    """Run a command once, on one thread."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    before, start = children_cpu_s(), time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=environment)
    wall_s = time.perf_counter() - start
    return Turn(wall_s, children_cpu_s() - before)


def children_cpu_s() -> float:
    """Return the CPU time of the commands that have ended, in seconds."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main() -> int:
    """Print the medians; return 1 if the goal is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=7)
    parser.add_argument("--plan", type=Path, default=EXAMPLE)
    arguments = parser.parse_args()
    taken: dict[str, list[Turn]] = {name: [] for name in commands(arguments.plan)}
    for turn in range(arguments.turns + 1):
        for name, command in commands(arguments.plan).items():
            took = take_turn(command)
            if turn:  # the first reads files from the disk
                taken[name].append(took)
    medians = {name: Turn(*map(statistics.median, zip(*turns, strict=True))) for name, turns in taken.items()}
    imports = medians["import pandas, xgboost"]
    for name, median in medians.items():
        ratios = f"{median.wall_s / imports.wall_s:.2f} and {median.cpu_s / imports.cpu_s:.2f} of the imports"
        print(f"{name:<26}{median.wall_s:7.3f} s wall {median.cpu_s:7.3f} s CPU   {ratios}")
    beyond = [getattr(medians["surrogate predict"], field) - getattr(imports, field) for field in Turn._fields]
    print(f"predict beyond the imports {beyond[0]:6.3f} s wall {beyond[1]:7.3f} s CPU   goal {GOAL_S} s")
    return 0 if min(beyond) <= GOAL_S else 1


if __name__ == "__main__":
    raise SystemExit(main())
