"""Plans, evaluators and a small fitted predictor; workers of other processes load this file too."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.special import ndtr

from surrogate.analytic.memory import peak_memory
from surrogate.analytic.workload import Workload
from surrogate.estimators.hybrid import HybridPredictor
from surrogate.estimators.memory_model import MemoryModel, MemoryPrediction
from surrogate.features.workload import prepare_runs
from surrogate.plan import PartialPlan, parse_partial_plan
from surrogate.search.evaluation import Evaluator
from surrogate.search.objectives import Goal
from surrogate.search.space import SearchSpace, build_space
from surrogate.search.step_time_models import TextbookStepTime

RUNS = Path(__file__).parents[2] / "data" / "runs.parquet"
MEASURED_ROWS = 160

GPT_7B = {
    "num_layers": 32,
    "hidden_size": 4096,
    "num_heads": 32,
    "vocab_size": 51200,
    "accelerator": "A100-80GB",
    "num_gpus": 16,
    "seq_len": 4096,
    "global_batch_size": 32,
    "framework": "megatron-lm",
}
SMALL_OPEN = {"precision": "bf16", "cp": 1, "cpu_offload": "none", "zero_stage": 1}
MOE = {
    **GPT_7B,
    "num_experts": 8,
    "moe_top_k": 2,
    "moe_ffn_hidden_size": 4096,
    "num_layers": 12,
    "num_gpus": 32,
    "accelerator": "H100-80GB",
}


class TextbookMemory:
    """Textbook peaks with a log standard deviation of 5 %."""

    def predict(self, runs: pd.DataFrame, workload: Workload) -> MemoryPrediction:
        breakdown = peak_memory(workload)
        peak = breakdown.device_bytes
        risk = ndtr(np.log(peak / workload.hbm_bytes) / 0.05)
        return MemoryPrediction(
            breakdown=breakdown, peak_bytes=peak, lower_bytes=peak, upper_bytes=peak, oom_probability=risk
        )


class SmallPredictor:
    """A hybrid and a memory model fitted on a few measured rows, as a search takes them."""

    def __init__(self, step_time: HybridPredictor, memory: MemoryModel) -> None:
        self.step_time, self.memory = step_time, memory

    def sited(self, plans: pd.DataFrame) -> pd.DataFrame:
        return plans

    def predict_frame(self, plans: pd.DataFrame, *, coverage: float = 0.9) -> pd.DataFrame:
        workload = prepare_runs(plans).workload
        times = self.step_time.predict_frame(plans, coverage=coverage)
        memory = self.memory.predict(plans, workload)
        tokens = workload.global_batch_size * workload.seq_len / workload.num_gpus
        return times.assign(
            tokens_per_s_per_gpu=tokens / times["step_time_s"],
            peak_memory_bytes=memory.peak_bytes,
            oom_probability=memory.oom_probability,
        )


def partial_plan(values: dict[str, object]) -> PartialPlan:
    return parse_partial_plan(values, "plan")


def textbook_evaluator(space: SearchSpace, goal: Goal | None = None, *, oom_risk: float = 0.05) -> Evaluator:
    return Evaluator(space, goal or Goal(), TextbookStepTime(), TextbookMemory(), oom_risk=oom_risk)


@pytest.fixture(scope="session")
def small_space() -> SearchSpace:
    return build_space(partial_plan({**GPT_7B, **SMALL_OPEN}))


@pytest.fixture(scope="session")
def moe_space() -> SearchSpace:
    return build_space(partial_plan({**MOE, "precision": "bf16"}))


@pytest.fixture(scope="session")
def small_predictor() -> SmallPredictor:
    from surrogate.derive import load_runs

    runs = load_runs(RUNS)
    rows = np.sort(np.random.default_rng(0).choice(len(runs), MEASURED_ROWS, replace=False))
    some = runs.iloc[rows].reset_index(drop=True)
    step_time = HybridPredictor(num_threads=1, rows_per_source=10).fit(some)
    return SmallPredictor(step_time, MemoryModel(item_scale=0.1).fit(some, prepare_runs(some).workload))


@pytest.fixture
def make_plan():  # type: ignore[no-untyped-def]
    """The functions of this file, for tests: they cannot import it by name."""
    return partial_plan


@pytest.fixture
def make_evaluator():  # type: ignore[no-untyped-def]
    return textbook_evaluator


@pytest.fixture
def gpt_7b() -> dict[str, object]:
    return dict(GPT_7B)


@pytest.fixture
def small_plan() -> dict[str, object]:
    return {**GPT_7B, **SMALL_OPEN}
