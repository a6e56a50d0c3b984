"""A small predictor trained on five publications, and plans to ask it about."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from surrogate import api

ROOT = Path(__file__).parents[2]
SOURCES = [
    "torchtitan-perf-2024",
    "nemo-automodel",
    "megatron-lm-h100-2024",
    "dgxc-benchmarking-v25.04",
    "zero-bubble-2024",
]
PLAN = """
model: llama3-8b
cluster: {accelerator: H100-80GB, num_gpus: 64, gpus_per_node: 8, inter_node_gbps: 3200}
training:
  framework: torchtitan
  seq_len: 8192
  global_batch_size: 128
  micro_batch_size: 1
  precision: bf16
  recompute: selective
parallelism: {tp: 1, pp: 1, zero_stage: 3}
"""


@pytest.fixture(scope="session")
def small_runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    table = pd.read_parquet(ROOT / "data" / "runs.parquet")
    path = tmp_path_factory.mktemp("runs") / "runs.parquet"
    table[table["source"].isin(SOURCES)].to_parquet(path, index=False)
    return path


@pytest.fixture(scope="session")
def model_dir(small_runs: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("trained") / "model"
    api.train([small_runs], directory, evaluate=False)
    return directory


@pytest.fixture(scope="session")
def predictor(model_dir: Path) -> api.Predictor:
    return api.load_predictor(model_dir)


@pytest.fixture
def plan_file(tmp_path: Path) -> Path:
    path = tmp_path / "plan.yaml"
    path.write_text(PLAN)
    return path


@pytest.fixture
def run_cli(model_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    """Run the command line in an empty folder; gives the exit code, standard output and standard error."""
    from surrogate.cli.app import main

    monkeypatch.setenv("SURROGATE_MODEL_DIR", str(model_dir))
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.chdir(tmp_path)

    def run(*arguments: object) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as stopped:
            main([str(argument) for argument in arguments])
        printed = capsys.readouterr()
        return int(stopped.value.code or 0), printed.out, printed.err

    return run
