"""The whole search with a fitted predictor: what is said about the best, the near ones, and when nothing fits."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from surrogate.errors import InputError, UnknownNameError
from surrogate.estimators.hybrid import PARTS
from surrogate.plan import row_to_plan
from surrogate.search import (
    Conditions,
    Goal,
    Objective,
    SearchOptions,
    SpaceRequest,
    StudyOptions,
    launch_arguments,
    search,
)
from surrogate.search.comparison import Comparison, TermDifference, log_difference_sds
from surrogate.search.emit import megatron_arguments
from surrogate.search.request import parse_objectives, parse_vary
from surrogate.search.table import write_table

RISK = 0.3
"""The small predictor knows little about memory: 5 % would leave nothing."""


@pytest.fixture(scope="module")
def found(small_predictor):  # type: ignore[no-untyped-def]
    from surrogate.plan import parse_partial_plan

    plan = {
        "model": "llama2-7b", "accelerator": "A100-80GB", "num_gpus": 32, "seq_len": 4096, "global_batch_size": 64,
        "framework": "megatron-lm", "precision": "bf16",
    }  # fmt: skip
    request = SpaceRequest(plan=parse_partial_plan(plan, "plan"))
    return search(request, small_predictor, SearchOptions(oom_risk=RISK, top=4))


def test_the_best_come_first_and_fit(found) -> None:  # type: ignore[no-untyped-def]
    best = found.best
    assert len(best) == 4 and found.exhaustive and found.figures() == {}
    assert best["tokens_per_s_per_gpu"].is_monotonic_decreasing
    assert (best["oom_probability"] <= RISK).all() and best["feasible"].all()
    for row in found.plans.to_dict("records"):
        row_to_plan(row)


def test_each_says_why_it_beats_the_next(found) -> None:  # type: ignore[no-untyped-def]
    assert len(found.comparisons) == 3
    seconds = found.best["step_time_s"].to_numpy()
    for place, comparison in enumerate(found.comparisons):
        assert 0.5 <= comparison.probability_faster <= 1.0
        gap = sum(term.seconds_of_next - term.seconds for term in comparison.terms)
        assert gap == pytest.approx(seconds[place + 1] - seconds[place], abs=0.04 * seconds[place])
    assert isinstance(found.best["why"].iloc[0], str) and pd.isna(found.best["why"].iloc[3])
    assert found.best["bottleneck"].str.contains("%").all()


def test_json_is_the_documented_one(found) -> None:  # type: ignore[no-untyped-def]
    answer = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert set(answer) == {"best", "near_misses", "evaluated", "exhaustive"}
    first = answer["best"][0]
    assert {"tp", "pp", "micro_batch_size", "recompute", "step_time_s", "step_time_lower_s", "oom_probability"} <= set(
        first
    )
    assert isinstance(first["tp"], int) and isinstance(first["sequence_parallel"], bool)
    for miss in answer["near_misses"]:
        assert not miss["feasible"] and miss["binding_constraint"].startswith("memory: risk")


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_the_table_is_written_whole(found, tmp_path: Path, suffix: str) -> None:  # type: ignore[no-untyped-def]
    path = tmp_path / f"best{suffix}"
    write_table(found.table(), path)
    back = pd.read_csv(path) if suffix == ".csv" else pd.read_parquet(path)
    np.testing.assert_allclose(back["step_time_s"], found.best["step_time_s"])
    with pytest.raises(InputError, match="end in"):
        write_table(found.table(), tmp_path / "best.txt")
    with pytest.raises(InputError, match="folder"):
        write_table(found.table(), tmp_path / "no" / f"best{suffix}")


def test_a_study_is_used_when_asked(make_plan, small_plan, small_predictor) -> None:  # type: ignore[no-untyped-def]
    options = SearchOptions(
        oom_risk=RISK, is_enumerated_when_small=False, study=StudyOptions(trials=12, name="x"), top=2
    )
    seen: list[str] = []
    result = search(
        SpaceRequest(plan=make_plan(small_plan)), small_predictor, options, lambda _n, what: seen.append(what)
    )
    assert not result.exhaustive and result.study is not None
    assert len(result.study.trials) == 12 and set(seen) == {"trials"}
    assert set(result.figures()) == {"history.html", "importance.html"}


def test_a_stored_study_is_told_about_an_enumeration(make_plan, small_plan, small_predictor, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    study = StudyOptions(trials=12, name="x", storage=str(tmp_path / "x.journal"))
    result = search(
        SpaceRequest(plan=make_plan(small_plan)), small_predictor, SearchOptions(oom_risk=RISK, study=study, top=2)
    )
    assert result.exhaustive and result.study is not None and len(result.best) == 2
    assert result.study.best_value == pytest.approx(result.best["tokens_per_s_per_gpu"].iloc[0], rel=1e-3)


def test_nothing_fits_says_what_would(make_plan, small_plan, small_predictor) -> None:  # type: ignore[no-untyped-def]
    plan = {
        **small_plan,
        "num_layers": 80,
        "hidden_size": 8192,
        "num_heads": 64,
        "recompute": "none",
        "pp": 1,
        "num_gpus": 8,
    }
    result = search(SpaceRequest(plan=make_plan(plan)), small_predictor, SearchOptions(oom_risk=0.05))
    assert not len(result.best) and result.shortage is not None
    answer = json.loads(json.dumps(result.to_dict()))
    assert answer["best"] == []
    assert answer["shortage"]["binding_constraint"].startswith("memory: risk")
    for change in result.shortage.changes:
        assert change.oom_probability <= 0.05
        assert change.values and set(change.values) <= {
            "pp",
            "recompute",
            "num_gpus",
            "zero_stage",
            "cp",
            "precision",
            "cpu_offload",
        }


def test_fronts_show_every_objective(make_plan, small_plan, small_predictor) -> None:  # type: ignore[no-untyped-def]
    goal = Goal(objectives=(Objective.TOKENS_PER_S_PER_GPU, Objective.TIME_TO_TRAIN, Objective.HEADROOM), tokens=1e11)
    request = SpaceRequest(
        plan=make_plan({**small_plan, "tp": 2}),
        vary={"num_gpus": (8, 16)},
        conditions=Conditions(require=("micro_batch_size <= 2",)),
    )
    result = search(request, small_predictor, SearchOptions(goal=goal, oom_risk=RISK))
    losses = np.column_stack(
        [-result.best["tokens_per_s_per_gpu"], result.best["days"], -result.best["memory_headroom_fraction"]]
    )
    for row in losses:
        assert not ((losses <= row).all(axis=1) & (losses < row - 1e-9).any(axis=1)).any()
    assert len(result.best) > 1


def test_equal_plans_differ_by_nothing(found, small_predictor) -> None:  # type: ignore[no-untyped-def]
    twice = found.plans.iloc[[0, 0]].reset_index(drop=True)
    same = log_difference_sds(twice, small_predictor.step_time)[0]
    assert (log_difference_sds(found.plans, small_predictor.step_time) > same).all()


def test_a_sentence_names_gains_and_losses() -> None:
    terms = (
        TermDifference(part="bubble_s", seconds=0.5, seconds_of_next=1.5),
        TermDifference(part="tp_s", seconds=0.7, seconds_of_next=0.3),
    )
    sentence = Comparison(terms=terms, probability_faster=0.9).sentence()
    assert sentence == "1 s less pipeline bubble, but 0.4 s more tensor parallel traffic"
    assert Comparison(terms=(), probability_faster=0.5).sentence() == "no difference that matters"
    assert {"bubble_s", "tp_s"} <= set(PARTS)


@pytest.mark.parametrize(
    ("objectives", "options", "words"),
    [
        (("cost",), {"tokens": 1e12}, "--price"),
        (("time_to_train",), {}, "--tokens"),
        (("headroom",), {}, "more than headroom"),
        (("step_time", "step_time"), {}, "different"),
    ],
)
def test_goals_say_what_they_lack(objectives, options, words) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(InputError, match=words):
        Goal(objectives=parse_objectives(objectives), **options)


def test_objectives_and_varied_columns_are_checked() -> None:
    with pytest.raises(UnknownNameError):
        parse_objectives(["speed"])
    assert parse_vary(["precision=fp8,bf16", "num_gpus=64, 8,64"]) == {
        "precision": ("fp8", "bf16"),
        "num_gpus": (8, 64),
    }
    for wrong in ("num_gpus", "num_gpus=", "hidden_size=4", "num_gpus=0", "num_gpus=x", "precision=fp7"):
        with pytest.raises(InputError):
            parse_vary([wrong])
    with pytest.raises(InputError, match="once"):
        parse_vary(["tp=1", "tp=2"])


LLAMA_3_405B = {
    "num_layers": 126, "hidden_size": 16384, "ffn_hidden_size": 53248, "num_heads": 128, "num_kv_heads": 8,
    "seq_len": 8192, "tp": 8, "pp": 16, "cp": 1, "vp": 8, "zero_stage": 1, "sequence_parallel": True,
    "micro_batch_size": 1, "global_batch_size": 2048, "precision": "bf16", "recompute": "none", "gated_mlp": True,
}  # fmt: skip


def test_megatrons_arguments_of_llama_3() -> None:
    arguments = " ".join(megatron_arguments(LLAMA_3_405B))
    for part in (
        "--tensor-model-parallel-size 8",
        "--pipeline-model-parallel-size 16",
        "--num-virtual-stages-per-pipeline-rank 8",
        "--account-for-embedding-in-pipeline-split",
        "--account-for-loss-in-pipeline-split",
        "--group-query-attention --num-query-groups 8",
        "--use-distributed-optimizer",
        "--sequence-parallel",
        "--bf16",
    ):
        assert part in arguments
    assert "recompute" not in arguments and "--num-experts" not in arguments
    assert "--kv-channels" not in " ".join(megatron_arguments({**LLAMA_3_405B, "head_dim": 128}))


@pytest.mark.parametrize(
    ("changes", "there"),
    [
        (
            {"recompute": "full", "recompute_layers": 8, "num_layers": 256},
            "--recompute-method block --recompute-num-layers 1",
        ),
        ({"recompute": "full"}, "--recompute-method uniform --recompute-num-layers 1"),
        ({"recompute": "selective"}, "--recompute-granularity selective"),
        ({"num_layers": 61, "vp": 1}, "--decoder-first-pipeline-num-layers 3 --decoder-last-pipeline-num-layers 2"),
        ({"zero_stage": 3, "pp": 1, "vp": 1}, "--data-parallel-sharding-strategy optim_grads_params"),
        ({"num_experts": 8, "moe_top_k": 2, "ep": 8}, "--expert-model-parallel-size 8 --expert-tensor-parallel-size 1"),
        ({"num_experts": 8, "moe_dispatcher": "megablox"}, "--moe-token-dispatcher-type alltoall"),
        (
            {"num_experts": 8, "moe_dispatcher": "hybridep"},
            "--moe-token-dispatcher-type flex --moe-flex-dispatcher-backend hybridep",
        ),
        (
            {"num_experts": 8, "moe_ffn_hidden_size": 2048, "num_shared_experts": 2, "num_dense_layers": 3},
            "--moe-shared-expert-intermediate-size 4096 --moe-layer-freq '([0]*3+[1]*123)'",
        ),
        ({"num_experts": 8, "moe_capacity_factor": 1.25}, "--moe-expert-capacity-factor 1.25"),
        ({"num_mtp_layers": 1}, "--mtp-num-layers 1"),
        ({"grad_reduce_dtype": "bf16"}, "--grad-reduce-in-bf16"),
        ({"head_dim": 192}, "--num-query-groups 8 --kv-channels 192"),
        ({"precision": "fp8"}, "--fp8-format hybrid"),
        ({"cpu_offload": "optimizer"}, "--optimizer-cpu-offload"),
        ({"attention": "mla", "kv_lora_rank": 512}, "--multi-latent-attention --kv-lora-rank 512"),
    ],
)
def test_megatrons_arguments_by_setting(changes, there) -> None:  # type: ignore[no-untyped-def]
    assert there in " ".join(megatron_arguments({**LLAMA_3_405B, **changes}))


def test_layers_of_uneven_stages_sum_to_the_model() -> None:
    """61 = 3 + 14 * 4 + 2."""
    arguments = megatron_arguments({**LLAMA_3_405B, "num_layers": 61, "vp": 1})
    ends = [int(one.split()[1]) for one in arguments if "decoder-" in one]
    assert sum(ends) + 14 * 4 == 61


def test_other_frameworks_are_refused(found) -> None:  # type: ignore[no-untyped-def]
    assert launch_arguments(found.plans, "megatron")
    with pytest.raises(UnknownNameError, match="megatron"):
        launch_arguments(found.plans, "jax")
