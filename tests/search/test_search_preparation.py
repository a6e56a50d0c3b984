"""Candidates prepared by broadcasting equal candidates prepared as a table."""

from __future__ import annotations

from dataclasses import fields

import numpy as np
import pandas as pd
import pytest

from surrogate.features.workload import prepare_runs
from surrogate.search.enumeration import block_length, candidate_blocks
from surrogate.search.evaluation import join, take
from surrogate.search.preparation import CandidatePreparer, candidate_frame
from surrogate.search.space import build_space
from surrogate.search.step_time_models import HybridStepTime

PLANS = {
    "dense": {},
    "torchtitan": {"framework": "torchtitan", "accelerator": "H100-80GB"},
    "tpu": {"framework": "maxtext", "accelerator": "TPUv5e", "num_gpus": 512, "global_batch_size": 512},
    "experts": {"num_experts": 8, "moe_top_k": 2, "moe_ffn_hidden_size": 4096, "num_layers": 12},
    "fixed layers": {"recompute": "full", "recompute_layers": 8},
    "schedule": {"pipeline_schedule": "zb-h1", "pp": 4},
    "sharding group": {"hsdp_shard": 4, "framework": "torchtitan", "accelerator": "H100-80GB"},
    "old": {"date": "2021-06", "framework": "megatron-lm"},
}


@pytest.mark.parametrize("changes", PLANS.values(), ids=PLANS.keys())
def test_it_equals_the_table(make_plan, gpt_7b, changes) -> None:  # type: ignore[no-untyped-def]
    plan = make_plan({**gpt_7b, **changes})
    vary = {} if "accelerator" in changes else {"accelerator": ("A100-80GB", "H100-80GB"), "num_gpus": (16, 32)}
    space = build_space(plan, vary=vary)
    codes = join(list(candidate_blocks(space)))
    rows = np.random.default_rng(1).choice(block_length(codes), min(500, block_length(codes)), replace=False)
    some = take(codes, rows)
    fast, slow = CandidatePreparer(space).prepare(some), prepare_runs(candidate_frame(space, some))
    for part in ("workload", "software", "hardware", "stack"):
        for field in fields(getattr(fast, part)):
            one, other = (getattr(getattr(prepared, part), field.name) for prepared in (fast, slow))
            np.testing.assert_array_equal(np.asarray(one), np.asarray(other), err_msg=field.name)


@pytest.mark.parametrize("site", [None, "vtrain", "nvidia-dgxc", "nobody"])
def test_bounds_hold_and_are_tight_for_strangers(make_plan, gpt_7b, small_predictor, site) -> None:  # type: ignore[no-untyped-def]
    values = gpt_7b if site is None else {**gpt_7b, "publisher_family": site}
    space = build_space(make_plan(values), vary={"accelerator": ("A100-80GB", "H100-80GB")})
    codes = join(list(candidate_blocks(space)))
    some = take(codes, np.random.default_rng(2).choice(block_length(codes), 400, replace=False))
    preparer = CandidatePreparer(space)
    model = HybridStepTime(small_predictor.step_time, preparer)
    bound = model.lower_bound_s(preparer.prepare(some))
    exact = model.predict(candidate_frame(space, some)).step_time_s
    assert (bound <= exact).all()
    if site in (None, "nobody"):
        np.testing.assert_allclose(bound, exact, rtol=1e-3)
    assert (np.log(exact / bound) < 1.1).all()


def test_an_accelerator_is_predicted_at_its_own_family(make_plan, gpt_7b, small_predictor) -> None:  # type: ignore[no-untyped-def]
    space = build_space(
        make_plan({**gpt_7b, "tp": 2, "pp": 2, "micro_batch_size": 1}), vary={"accelerator": ("A100-80GB", "H100-80GB")}
    )
    codes = join(list(candidate_blocks(space)))
    frame = candidate_frame(space, codes)
    seconds = pd.Series(HybridStepTime(small_predictor.step_time, CandidatePreparer(space)).predict(frame).step_time_s)
    by_device = seconds.groupby(frame["accelerator"].to_numpy()).min()
    assert by_device["H100-80GB"] < by_device["A100-80GB"]
