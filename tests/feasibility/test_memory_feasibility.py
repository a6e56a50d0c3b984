"""Nearest layouts and inverse questions against a predictor that knows only analytic memory."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy.special import ndtr

from surrogate.analytic.memory import peak_memory
from surrogate.errors import InputError, UnknownNameError
from surrogate.feasibility import (
    MAXIMUM_FIELDS,
    is_placeable,
    items_to_attack,
    largest_that_fits,
    nearest_layouts,
    smallest_that_fits,
)
from surrogate.feasibility._candidates import build_variants
from surrogate.features.workload import prepare_runs


def build_plan(**values: object) -> pd.DataFrame:
    """Return Llama 2 13B on 64 A100, without recomputation."""
    plan = {
        "run_id": "plan", "num_layers": 40, "hidden_size": 5120, "ffn_hidden_size": 13824, "num_heads": 40,
        "num_kv_heads": 40, "vocab_size": 32000, "gated_mlp": True, "seq_len": 4096, "accelerator": "A100-80GB",
        "num_gpus": 64, "tp": 2, "pp": 2, "cp": 1, "dp": 16, "vp": 1, "zero_stage": 1, "micro_batch_size": 4,
        "global_batch_size": 1024, "recompute": "none", "flash_attention": True, "stack": "megatron-core",
        "pipeline_schedule": "1f1b", "sequence_parallel": False, "cpu_offload": "none",
    }  # fmt: skip
    return pd.DataFrame([plan | values])


class Predictor:
    """Risk from the textbook's device bytes with 3 % doubt; time grows with what costs time."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, plans: pd.DataFrame) -> pd.DataFrame:
        self.calls += 1
        w = prepare_runs(plans).workload
        peak = peak_memory(w)
        work = w.num_layers * w.seq_len * w.global_batch_size / w.num_gpus
        slower = (
            1 + 0.3 * (w.recompute == 2) + 0.05 * w.tp + 0.02 * w.pp + 0.1 / w.micro_batch_size + 0.5 * (w.offload > 0)
        )
        return pd.DataFrame(
            {
                "step_time_s": work * slower / 1e4,
                "peak_memory_bytes": peak.allocated_bytes,
                "oom_probability": ndtr(np.log(peak.device_bytes / w.hbm_bytes) / 0.03),
            }
        )


@pytest.fixture
def predict() -> Predictor:
    return Predictor()


def test_the_plan_itself_does_not_fit(predict) -> None:
    assert predict(build_plan())["oom_probability"][0] > 0.9


def test_nearest_layouts_fit_are_cheap_first_and_cost_one_call(predict) -> None:
    layouts = nearest_layouts(build_plan(), predict, limit=20)
    assert predict.calls == 1
    assert {"micro_batch_size": 1} in [layout.changes for layout in layouts]
    assert all(layout.oom_probability <= 0.05 for layout in layouts)
    assert all(1 <= len(layout.changes) <= 2 for layout in layouts)
    times = [layout.step_time_s for layout in layouts]
    assert times == sorted(times)
    before = Predictor()(build_plan())["step_time_s"][0]
    assert layouts[0].step_time_ratio == pytest.approx(layouts[0].step_time_s / before)


def test_pairs_are_named_only_when_they_beat_their_single_changes(predict) -> None:
    layouts = nearest_layouts(build_plan(), predict, limit=1000)
    singles = [layout for layout in layouts if len(layout.changes) == 1]
    for pair in (layout for layout in layouts if len(layout.changes) == 2):
        for single in singles:
            if single.changes.items() <= pair.changes.items():
                assert pair.step_time_s < single.step_time_s


def test_nearest_layouts_can_be_placed(predict) -> None:
    plan = build_plan(pp=4, dp=8, vp=5, pipeline_schedule="interleaved-1f1b")
    for layout in nearest_layouts(plan, predict, limit=100):
        assert is_placeable(build_variants(plan, [layout.changes])).all()


def test_nothing_near_fits(predict) -> None:
    assert nearest_layouts(build_plan(hidden_size=40960, ffn_hidden_size=163840), predict) == []


@pytest.mark.parametrize("field", MAXIMUM_FIELDS)
def test_largest_fits_and_the_next_does_not(predict, field) -> None:
    answer = largest_that_fits(build_plan(recompute="full"), field, predict)
    column = {"model_layers": "num_layers"}.get(field, field)
    risk = predict(build_variants(build_plan(recompute="full"), [{column: answer.value}]))["oom_probability"][0]
    assert risk == pytest.approx(answer.oom_probability) and risk <= 0.05
    if answer.bounded_by_memory:
        beyond = predict(build_variants(build_plan(recompute="full"), [{column: answer.next_value}]))
        assert beyond["oom_probability"][0] == pytest.approx(answer.next_oom_probability)
        assert answer.next_oom_probability > 0.05
    assert answer.evaluated < 600


def test_largest_agrees_with_trying_every_value(predict) -> None:
    plan = build_plan(recompute="full")
    lengths = np.arange(256, 200_000, 256)
    risk = predict(build_variants(plan, [{"seq_len": int(length)} for length in lengths]))["oom_probability"].to_numpy()
    expected = lengths[np.flatnonzero(risk > 0.05)[0] - 1]
    assert largest_that_fits(plan, "seq_len", predict).value == expected


def test_micro_batches_divide_the_sequences_of_a_rank(predict) -> None:
    answer = largest_that_fits(build_plan(global_batch_size=16 * 6, recompute="full"), "micro_batch_size", predict)
    assert answer.value in (1, 2, 3, 6)


def test_memory_does_not_bound_the_global_batch(predict) -> None:
    answer = largest_that_fits(build_plan(micro_batch_size=1), "global_batch_size", predict)
    assert not answer.bounded_by_memory
    assert answer.next_value is None


def test_a_tighter_risk_never_allows_more(predict) -> None:
    loose, tight = (
        largest_that_fits(build_plan(recompute="full"), "seq_len", predict, oom_risk=risk).value
        for risk in (0.5, 0.001)
    )
    assert tight <= loose


def test_nothing_fits_is_said(predict) -> None:
    answer = largest_that_fits(build_plan(hidden_size=40960, ffn_hidden_size=163840, tp=1, pp=1), "seq_len", predict)
    assert answer.value is None
    assert answer.next_oom_probability > 0.05


def test_fewest_accelerators_agree_with_trying_every_layout(predict) -> None:
    answer = smallest_that_fits(build_plan(micro_batch_size=1), "num_gpus", predict)
    assert predict.calls == 1
    assert answer.oom_probability <= 0.05
    assert answer.next_value is not None and answer.next_value < answer.value
    assert answer.next_oom_probability > 0.05
    chosen = build_variants(build_plan(micro_batch_size=1), [answer.changes])
    assert is_placeable(chosen).all()
    assert chosen["num_gpus"][0] == answer.value == chosen[["tp", "pp", "dp"]].prod(axis=1)[0]


def test_unknown_questions_name_the_known_ones(predict) -> None:
    with pytest.raises(UnknownNameError, match="seq_len"):
        largest_that_fits(build_plan(), "hidden_size", predict)
    with pytest.raises(UnknownNameError, match="num_gpus"):
        smallest_that_fits(build_plan(), "seq_len", predict)


def test_one_plan_at_a_time(predict) -> None:
    with pytest.raises(InputError, match="must be one row"):
        nearest_layouts(pd.concat([build_plan()] * 2), predict)


def test_changing_the_pipeline_mends_what_hung_on_it() -> None:
    plan = build_plan(pp=4, dp=8, vp=5, pipeline_schedule="interleaved-1f1b")
    flat, deeper, same = (
        row for _, row in build_variants(plan, [{"pp": 1}, {"pp": 8}, {"micro_batch_size": 2}]).iterrows()
    )
    assert (flat["dp"], flat["vp"], flat["pipeline_schedule"]) == (32, 1, "")
    assert (deeper["dp"], deeper["vp"], deeper["pipeline_schedule"]) == (4, 5, "interleaved-1f1b")
    assert (same["dp"], same["vp"], same["micro_batch_size"]) == (8, 5, 2)


def test_items_to_attack_are_the_largest_with_a_remedy() -> None:
    breakdown = peak_memory(prepare_runs(build_plan()).workload)
    advice = items_to_attack(breakdown)
    sizes = sorted((float(values[0]) for values in breakdown.items().values()), reverse=True)
    assert [item.bytes for item in advice] == sizes[:3]
    assert advice[0].item == "mlp_activations_bytes" and "micro_batch_size" in advice[0].remedy
    assert sum(item.share for item in items_to_attack(breakdown, limit=99)) == pytest.approx(1.0)
