"""Several workers on one study through a real PostgreSQL server; one of them is killed in the middle."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import optuna
import pytest
from optuna.trial import TrialState

from surrogate.search.storage import close_storage, open_storage
from surrogate.search.study import LayoutStudy, StudyOptions

STARTUP_S = 30.0
SERVER_USER = "postgres"

WORKER = """
import importlib.util, sys
spec = importlib.util.spec_from_file_location("fixtures", {conftest!r})
fixtures = importlib.util.module_from_spec(spec)
spec.loader.exec_module(fixtures)
from surrogate.search.space import build_space
from surrogate.search.study import LayoutStudy, StudyOptions
space = build_space(fixtures.partial_plan({{**fixtures.GPT_7B, **fixtures.SMALL_OPEN}}))
options = StudyOptions(trials={trials}, batch=5, seed={seed}, storage={url!r}, name="shared")
study = LayoutStudy(fixtures.textbook_evaluator(space), options)
print("ready", flush=True)
study.run(lambda count: print("told", count, flush=True))
print("done", study.tried, flush=True)
"""


def _server_programs() -> Path | None:
    """The folder of initdb and pg_ctl: Debian keeps them out of the path."""
    found = shutil.which("initdb")
    folders = [Path(found).parent] if found else []
    folders += sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    return next((folder for folder in folders if (folder / "pg_ctl").exists()), None)


PROGRAMS = _server_programs()
needs_server = pytest.mark.skipif(PROGRAMS is None, reason="PostgreSQL is not installed")


def _as_server(folder: Path, program: str, *arguments: str) -> None:
    """Run one of the server's programs, not as root: the server refuses that."""
    user = {"user": SERVER_USER, "group": SERVER_USER, "extra_groups": []} if os.geteuid() == 0 else {}
    assert PROGRAMS is not None
    subprocess.run(
        [PROGRAMS / program, *arguments],
        check=True,
        cwd=folder,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        timeout=STARTUP_S,
        **user,
    )


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture(scope="module")
def database() -> Iterator[str]:
    folder, port = Path(tempfile.mkdtemp(prefix="search-postgresql-")), _free_port()
    try:
        if os.geteuid() == 0:
            shutil.chown(folder, SERVER_USER, SERVER_USER)
        data = str(folder / "data")
        _as_server(folder, "initdb", "-D", data, "-U", "search", "-A", "trust", "--no-sync", "-E", "UTF8", "--locale=C")
        options = f"-h 127.0.0.1 -p {port} -k {folder} -c fsync=off"
        _as_server(folder, "pg_ctl", "-D", data, "-w", "-l", str(folder / "log"), "-o", options, "start")
        try:
            yield f"postgresql://search@127.0.0.1:{port}/postgres"
        finally:
            _as_server(folder, "pg_ctl", "-D", data, "-w", "-m", "immediate", "stop")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _worker(url: str, *, trials: int, seed: int) -> subprocess.Popen[str]:
    conftest = str(Path(__file__).with_name("conftest.py"))
    script = WORKER.format(conftest=conftest, url=url, trials=trials, seed=seed)
    return subprocess.Popen([sys.executable, "-W", "ignore", "-c", script], stdout=subprocess.PIPE, text=True)


def _wait_for(worker: subprocess.Popen[str], word: str) -> None:
    assert worker.stdout is not None
    for line in worker.stdout:
        if line.startswith(word):
            return
    pytest.fail(f"the worker ended before it said {word!r}")


@pytest.mark.slow
@needs_server
def test_workers_share_a_study_and_a_killed_one_loses_its_open_batch(
    database: str, make_evaluator, small_space
) -> None:  # type: ignore[no-untyped-def]
    doomed = _worker(database, trials=1000, seed=0)
    _wait_for(doomed, "told")
    other = _worker(database, trials=20, seed=0)
    _wait_for(other, "told")
    assert doomed.poll() is None
    doomed.send_signal(signal.SIGKILL)
    doomed.wait(timeout=STARTUP_S)
    assert other.wait(timeout=120) == 0
    for worker in (doomed, other):
        assert worker.stdout is not None
        worker.stdout.close()
    storage = open_storage(database)
    study = optuna.load_study(study_name="shared", storage=storage)
    states = [trial.state for trial in study.trials]
    complete = [trial for trial in study.trials if trial.state is TrialState.COMPLETE]
    assert len(complete) >= 25
    assert states.count(TrialState.RUNNING) <= 5
    assert TrialState.FAIL not in states
    assert all(trial.values and trial.user_attrs["settings"] and trial.constraints for trial in complete)
    started = [tuple(trial.params.items()) for trial in study.trials if trial.params]
    repeated = len(started) - len(set(started))
    assert repeated <= 10  # two workers may ask for one layout at the same moment, no more often

    resumed = LayoutStudy(make_evaluator(small_space), StudyOptions(trials=10, storage=database, name="shared"))
    resumed.run()
    outcome = resumed.outcome(top=3)
    assert len(resumed.study.get_trials(states=(TrialState.COMPLETE,))) == len(complete) + 10
    assert outcome.best is not None
    best = min(1.0 / trial.values[0] for trial in complete if max(trial.constraints.values()) <= 0)
    assert outcome.best.losses[0, 0] <= best * (1 + 1e-9)
    resumed.close()
    close_storage(storage)


@needs_server
def test_a_server_that_goes_away_is_an_error_not_a_traceback(database: str) -> None:
    from surrogate.errors import InputError

    with pytest.raises(InputError, match="reachable") as caught:
        open_storage(database.replace("/postgres", "/nowhere"))
    assert "nowhere" in str(caught.value)


def test_two_workers_share_a_journal(make_evaluator, small_space, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    journal = str(tmp_path / "study.journal")
    workers = [_worker(journal, trials=10, seed=0) for _ in range(2)]
    started = time.monotonic()
    assert [worker.wait(timeout=120) for worker in workers] == [0, 0]
    assert time.monotonic() - started < 120
    study = LayoutStudy(make_evaluator(small_space), StudyOptions(storage=journal, name="shared"))
    trials = study.study.get_trials(states=(TrialState.COMPLETE,))
    assert len(trials) == 20
    for worker in workers:
        assert worker.stdout is not None
        worker.stdout.close()
