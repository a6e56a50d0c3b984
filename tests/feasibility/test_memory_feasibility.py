"""Nearest layouts and inverse questions against a predictor that knows only analytic memory."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy.special import ndtr

from surrogate.analytic.memory import peak_memory
from surrogate.errors import InputError, UnknownNameError
from surrogate.feasibility.advice import NO_SETTING, REMEDIES, items_to_attack
from surrogate.feasibility.candidates import build_variants, consequences, is_placeable
from surrogate.feasibility.inverse import MAXIMUM_FIELDS, largest_that_fits, smallest_that_fits
from surrogate.feasibility.nearest import nearest_layouts
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
    assert answer.value <= 8 or answer.value % 8 == 0


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
    changes: list[dict[str, object]] = [{"pp": 1}, {"pp": 8}, {"pp": 16}, {"micro_batch_size": 2}]
    variants = build_variants(plan, changes)
    assert variants["dp"].tolist() == [32, 4, 2, 8]
    follows = [consequences(plan, variants, row, change) for row, change in enumerate(changes)]
    assert follows == [{"vp": 1, "pipeline_schedule": None}, {}, {"vp": 1, "pipeline_schedule": "1f1b"}, {}]


def test_chunks_of_an_uneven_pipeline_stay_while_it_stays() -> None:
    """126 layers on 16 stages of 8 chunks: embedding and head count as layers; nothing of it is touched."""
    plan = build_plan(num_layers=126, pp=16, tp=4, dp=1, vp=8, pipeline_layout="ends counted")
    variants = build_variants(plan, [{"micro_batch_size": 1}, {"pp": 8}])
    assert variants["vp"].tolist() == [8, 8]
    assert consequences(plan, variants, 0, {"micro_batch_size": 1}) == {}
    assert consequences(plan, variants, 1, {"pp": 8}) == {"pipeline_layout": None}


def test_another_recomputation_drops_the_details_of_the_old_one() -> None:
    plan = build_plan(recompute="selective", recompute_kind="modules", recompute_modules="mlp", recompute_layers=10)
    variants = build_variants(plan, [{"recompute": "full"}, {"pp": 4}])
    follows = consequences(plan, variants, 0, {"recompute": "full"})
    assert follows == {"recompute_kind": None, "recompute_layers": None, "recompute_modules": None}
    assert consequences(plan, variants, 1, {"pp": 4}) == {}


def test_layers_to_recompute_stay_within_a_stage() -> None:
    """40 layers: 8 of them fit into a stage of 10, not into one of 5, where every layer is recomputed instead."""
    plan = build_plan(recompute="full", recompute_layers=8)
    variants = build_variants(plan, [{"pp": 4}, {"pp": 8}])
    assert consequences(plan, variants, 0, {"pp": 4}) == {}
    assert consequences(plan, variants, 1, {"pp": 8}) == {"recompute_layers": None}


def test_partly_recomputed_plans_may_recompute_every_layer(predict) -> None:
    layouts = nearest_layouts(build_plan(recompute="full", recompute_layers=2, micro_batch_size=8), predict, limit=999)
    assert {"recompute_layers": None} in [layout.changes for layout in layouts]


@pytest.mark.parametrize(
    "values",
    [
        {},
        {"sequence_parallel": True, "micro_batch_size": 8},
        {"recompute": "full", "micro_batch_size": 16},
        {"cpu_offload": "optimizer", "micro_batch_size": 8},
        {"zero_stage": 3, "pp": 1, "dp": 32, "tp": 2, "fsdp": "megatron-fsdp"},
    ],
)
def test_nearest_layouts_change_what_they_name(predict, values) -> None:
    plan = build_plan(**values)
    layouts = nearest_layouts(plan, predict, limit=1000)
    assert layouts
    for layout in layouts:
        assert all(plan[field].iloc[0] != value for field, value in layout.changes.items())


def test_the_simplest_way_out_is_always_named(predict) -> None:
    """Fifty pairs are faster than recomputing everything, which is still what one changes first."""
    every = nearest_layouts(build_plan(micro_batch_size=8), predict, limit=1000)
    singles = [layout for layout in every if len(layout.changes) == 1]
    for limit in (1, 3, 5):
        few = nearest_layouts(build_plan(micro_batch_size=8), predict, limit=limit)
        assert len(few) == limit
        assert singles[0] in few


@pytest.mark.parametrize(
    "values",
    [
        {"num_gpus": 12, "tp": 2, "pp": 1, "dp": 6},
        {"seq_len": 4100, "cp": 4, "dp": 4},
        {"hsdp_shard": 3},
        {"zero_stage": 3},
        {"vp": 5, "pp": 4, "dp": 8, "global_batch_size": 8 * 4 * 6},
        {"cpu_offload": "activations"},
        {"cpu_offload": "optimizer", "zero_stage": 0},
        {"num_experts": 8, "moe_top_k": 2, "moe_ffn_hidden_size": 1024},
        {"tp": 16, "dp": 2},
    ],
)
def test_what_cannot_be_placed(values) -> None:
    assert is_placeable(build_plan()).all()
    assert not is_placeable(build_plan(**values)).any()


def advise(**values: object) -> str:
    """Return every remedy of a plan as one text."""
    w = prepare_runs(build_plan(**values)).workload
    return " | ".join(f"{item.item}: {item.remedy}" for item in items_to_attack(peak_memory(w), limit=99, workload=w))


def test_items_to_attack_are_the_largest_with_a_remedy() -> None:
    workload = prepare_runs(build_plan()).workload
    breakdown = peak_memory(workload)
    advice = items_to_attack(breakdown, workload=workload)
    sizes = sorted((float(values[0]) for values in breakdown.items().values()), reverse=True)
    assert [item.bytes for item in advice] == sizes[:3]
    assert advice[0].item == "mlp_activations_bytes"
    assert advice[0].remedy == "lower micro_batch_size; raise tp or cp; set recompute full"
    assert sum(item.share for item in items_to_attack(breakdown, limit=99)) == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("remedy", "on", "off"),
    [
        ("micro_batch_size", {"micro_batch_size": 1}, {"micro_batch_size": 2}),
        ("set sequence_parallel", {"sequence_parallel": True}, {"sequence_parallel": False}),
        ("set sequence_parallel", {"tp": 1, "dp": 32}, {"tp": 2}),
        ("flash_attention", {"flash_attention": True}, {"flash_attention": False}),
        ("recompute full", {"recompute": "full"}, {"recompute": "selective"}),
        ("recompute selective", {"recompute": "selective", "flash_attention": False}, {"flash_attention": False}),
        ("recompute selective", {"flash_attention": True}, {"flash_attention": False}),
        ("drop recompute_layers", {"recompute": "full"}, {"recompute": "full", "recompute_layers": 2}),
        ("layernorm", {"recompute": "selective", "recompute_modules": "layernorm"}, {"recompute": "selective"}),
        ("zero_stage 1", {"zero_stage": 1}, {"zero_stage": 0}),
        ("zero_stage 2", {"zero_stage": 2, "pp": 1, "dp": 32}, {"zero_stage": 1, "pp": 1, "dp": 32}),
        ("zero_stage 3", {"zero_stage": 3, "pp": 1, "dp": 32}, {"zero_stage": 2, "pp": 1, "dp": 32}),
        ("zero_stage 3", {"zero_stage": 1, "pp": 2}, {"zero_stage": 1, "pp": 1, "dp": 32}),
        ("lower zero_stage", {"zero_stage": 0}, {"zero_stage": 3, "pp": 1, "dp": 32}),
        ("grad_reduce_dtype bf16", {"grad_reduce_dtype": "bf16"}, {"grad_reduce_dtype": "fp32"}),
        ("grad_reduce_dtype fp32", {"grad_reduce_dtype": "fp32"}, {"grad_reduce_dtype": "bf16"}),
        ("cpu_offload", {"cpu_offload": "optimizer"}, {"cpu_offload": "none"}),
        ("moe_capacity_factor", {"num_experts": 8, "moe_top_k": 2, "moe_capacity_factor": 1.25},
         {"num_experts": 8, "moe_top_k": 2}),
        ("moe_capacity_factor", {"num_experts": 0}, {"num_experts": 8, "moe_top_k": 2}),
        ("raise tp", {"tp": 8, "dp": 4}, {"tp": 4, "dp": 8}),
    ],
)  # fmt: skip
def test_remedies_name_no_setting_that_is_on_already(remedy: str, on, off) -> None:
    assert remedy not in advise(**on)
    assert remedy in advise(**off)


def test_where_no_setting_helps_it_is_said() -> None:
    w = prepare_runs(build_plan(tp=1, pp=1, dp=64)).workload
    context = next(item for item in items_to_attack(peak_memory(w), limit=99, workload=w) if "context" in item.item)
    assert context.remedy == NO_SETTING


def test_every_item_has_remedies() -> None:
    items = peak_memory(prepare_runs(build_plan()).workload).items()
    assert REMEDIES.keys() == items.keys()
