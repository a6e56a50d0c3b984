"""What holds for every test: one thread, examples that repeat, nothing from the caller's own settings, and a small
predictor trained on five publications, with a plan to ask it about."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

if TYPE_CHECKING:
    from surrogate.api import Predictor

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(variable, "1")  # before numpy is imported: the workers of pytest-xdist share the cores
for variable in (
    "SURROGATE_MODEL_DIR",
    "SURROGATE_SITES_DIR",
    "SURROGATE_TRACEBACK",
    "MLFLOW_TRACKING_URI",
    "MLFLOW_EXPERIMENT_NAME",
):
    os.environ.pop(variable, None)
os.environ["MPLBACKEND"] = "agg"

settings.register_profile("repeatable", deadline=None, derandomize=True, print_blob=True)
settings.register_profile("explore", deadline=None, max_examples=1000, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "repeatable"))

ROOT = Path(__file__).parents[1]
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
    import pandas as pd

    table = pd.read_parquet(ROOT / "data" / "runs.parquet")
    path = tmp_path_factory.mktemp("runs") / "runs.parquet"
    table[table["source"].isin(SOURCES)].to_parquet(path, index=False)
    return path


@pytest.fixture(scope="session")
def model_dir(small_runs: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    from surrogate.api import train

    directory = tmp_path_factory.mktemp("trained") / "model"
    train([small_runs], directory, evaluate=False)
    return directory


@pytest.fixture(scope="session")
def predictor(model_dir: Path) -> Predictor:
    from surrogate.api import load_predictor

    return load_predictor(model_dir)


@pytest.fixture
def plan_file(tmp_path: Path) -> Path:
    path = tmp_path / "plan.yaml"
    path.write_text(PLAN)
    return path
