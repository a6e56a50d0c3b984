"""Variants of the ablation: pieces are really taken away."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from surrogate.derive import check_table
from surrogate.estimators.site_data import EffectScales
from surrogate.experiments.ablation import VARIANTS, EffectsAlone, pieces_markdown, without_levels
from surrogate.experiments.accuracy import checked_config, evaluate_sources


@pytest.fixture(scope="module")
def runs():
    rows = [
        {
            "run_id": f"{site}-{gpus}-{tp}", "source": site, "num_layers": 24, "hidden_size": 2048, "num_heads": 16,
            "seq_len": seq_len, "accelerator": "A100-80GB", "num_gpus": gpus, "tp": tp, "pp": 1,
            "global_batch_size": 8 * gpus, "precision": "bf16", "framework": "megatron-lm",
            "step_time_s": 3.0 * (1 + 0.1 * np.log2(tp)) * slow * seq_len / 2048,
        }
        for site, slow, seq_len in (("a", 1.0, 2048), ("b", 2.0, 4096), ("c", 1.0, 1024))
        for gpus in (8, 64)
        for tp in (1, 2, 4, 8)
    ]  # fmt: skip
    return check_table(pd.DataFrame(rows)).good.reset_index(drop=True)


def test_levels_are_taken_away_one_by_one():
    whole = EffectScales()
    scales = without_levels("stack")(whole)
    assert scales.coefficients["stack"] == scales.offsets["stack"] == 0.0
    assert scales.coefficients["release"] == whole.coefficients["release"]
    assert scales.smooth == whole.smooth


def test_site_effects_see_that_one_site_is_twice_as_slow(runs):
    slow = runs[runs["source"] == "b"]
    nothing = without_levels(*EffectScales().coefficients.keys() - {"global"})
    errors = {}
    for name, change in (("whole", lambda scales: scales), ("none", nothing)):
        predicted = EffectsAlone(change).fit(runs).predict_frame(slow)["step_time_s"]
        errors[name] = np.abs(np.log(predicted / slow["measured_step_time_s"])).mean()
    assert errors["whole"] < errors["none"]


def test_one_table_per_protocol_with_every_variant(runs):
    names = ("without trees", "... and without smooth terms", "textbook coefficients")
    settings = checked_config(
        {"experiment": "m:f", "runs": "r", "protocols": ["random", "new-site"], "jobs": 1, "track": False}
    )
    text = pieces_markdown(evaluate_sources(runs, settings, {name: VARIANTS[name] for name in names}))
    assert text.count("| textbook coefficients |") == 2
    assert "random:" in text and "new-site:" in text
