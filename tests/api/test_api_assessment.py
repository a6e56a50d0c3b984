"""Names of figures, and what makes a table too small to measure."""

from __future__ import annotations

import math
from types import SimpleNamespace

import pandas as pd

from surrogate.api.assessment import FIGURES, assess, named_figures


def evaluation() -> SimpleNamespace:
    figures = dict.fromkeys(FIGURES, 0.1)
    scores = [
        {"protocol": "random", "variant": "", "method": "hybrid", "slice": "all", **figures},
        {"protocol": "random", "variant": "", "method": "hybrid", "slice": "FP8/FP4", **figures, "coverage": math.nan},
        {"protocol": "few-shot", "variant": "chosen-5", "method": "hybrid", "slice": "all", **figures},
        {"protocol": "random", "variant": "", "method": "XGBoost on time/roofline", "slice": "all", **figures},
        {"protocol": "random", "variant": "", "method": "XGBoost on time/roofline", "slice": "FP8/FP4", **figures},
    ]
    rankings = [{"protocol": "random", "variant": "", "method": "hybrid", "spearman": 0.9, "regret": math.nan}]
    return SimpleNamespace(scores=pd.DataFrame(scores), rankings=pd.DataFrame(rankings))


def test_every_method_has_figures_and_the_first_its_slices():
    named = named_figures(evaluation())  # type: ignore[arg-type]
    assert named["random/hybrid/mape"] == 0.1
    assert named["random/hybrid/fp8_fp4/mape"] == 0.1
    assert named["few-shot_chosen-5/hybrid/mape"] == 0.1
    assert named["random/xgboost_on_time_roofline/mape"] == 0.1
    assert named["random/hybrid/spearman"] == 0.9
    assert "random/hybrid/fp8_fp4/coverage" not in named
    assert "random/hybrid/regret" not in named
    assert "random/xgboost_on_time_roofline/fp8_fp4/mape" not in named


def test_a_table_of_one_group_is_not_assessed():
    runs = pd.DataFrame({"measured_step_time_s": [1.0], "split_group": ["a"], "run_id": ["a"]})
    assert assess(runs, random_state=0, n_jobs=1, progress=lambda _text: None) is None
