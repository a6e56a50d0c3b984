"""Ctrl-C in the middle of a search: a real signal to a real command, whose study is then resumed."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest

PLAN = """
model: llama3-70b
cluster: {accelerator: H100-80GB, num_gpus: 512, gpus_per_node: 8, inter_node_gbps: 3200}
training: {framework: megatron-lm, seq_len: 8192, global_batch_size: 512}
"""
WAIT_S = 120.0
TRIALS_BEFORE = 30


def command(folder: Path, trials: int) -> list[str]:
    # a shell may start background jobs with the signal ignored, and Python then leaves it so
    program = (
        "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler); "
        "from surrogate.cli.app import main; main(sys.argv[1:])"
    )
    storage = f"sqlite:///{folder / 'study.db'}"
    options = ["--no-enumerate", "--trials", str(trials), "--storage", storage, "--no-track"]
    return [sys.executable, "-W", "ignore", "-c", program, "search", str(folder / "plan.yaml"), *options]


def finished_trials(folder: Path) -> int:
    """Count without SQLAlchemy: the file may not be there yet, or have no tables."""
    path = folder / "study.db"
    if not path.exists():
        return 0
    connection = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    try:
        return int(connection.execute("SELECT COUNT(*) FROM trials WHERE state = 'COMPLETE'").fetchone()[0])
    except sqlite3.OperationalError:
        return 0
    finally:
        connection.close()


@pytest.mark.slow
def test_ctrl_c_prints_the_best_so_far_and_the_study_goes_on(tmp_path: Path) -> None:
    (tmp_path / "plan.yaml").write_text(PLAN)
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "COLUMNS": "200"}
    started = command(tmp_path, 1_000_000)
    with subprocess.Popen(
        started, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    ) as running:
        try:
            deadline = time.monotonic() + WAIT_S
            while finished_trials(tmp_path) < TRIALS_BEFORE and time.monotonic() < deadline and running.poll() is None:
                time.sleep(0.1)
            assert running.poll() is None, running.communicate()
            running.send_signal(signal.SIGINT)
            out, err = running.communicate(timeout=WAIT_S)
        finally:
            running.kill()
    assert running.returncode == 130, err
    assert "Traceback" not in err
    assert "stopped: the best so far" in out
    assert "tok/s/GPU" in out
    assert "is kept in --storage: the same command goes on with it" in out

    kept = finished_trials(tmp_path)
    assert kept >= TRIALS_BEFORE
    again = subprocess.run(
        command(tmp_path, 10), capture_output=True, text=True, env=environment, timeout=WAIT_S, check=False
    )
    assert again.returncode == 0, again.stderr
    assert finished_trials(tmp_path) == kept + 10
    assert "layouts were tried by Optuna" in again.stdout
