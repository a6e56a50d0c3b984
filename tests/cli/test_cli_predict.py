"""`surrogate predict`: the JSON contract, tables in the input's order, and bad input left without a trace."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pandas as pd
import pytest

KEYS = {
    "run_id", "step_time_s", "step_time_lower_s", "step_time_upper_s", "tokens_per_s_per_gpu", "mfu",
    "analytic_step_time_s", "peak_memory_bytes", "oom_probability", "feasible", "breakdown",
    "expected_failures_per_day", "in_domain", "out_of_domain_reasons", "nearest_runs", "model", "imputed",
}  # fmt: skip
EVIDENCE_KEYS = {"run_id", "source", "distance", "measured_step_time_s", "predicted_step_time_s"}
ROW = {
    "run_id": "good", "num_layers": 32, "hidden_size": 4096, "num_heads": 32, "seq_len": 8192,
    "accelerator": "H100-80GB", "num_gpus": 64, "global_batch_size": 128, "tp": 1, "pp": 1, "framework": "torchtitan",
}  # fmt: skip


def predict_json(run_cli, *arguments: object):
    code, out, err = run_cli("predict", *arguments, "--json")
    assert code == 0, err
    return json.loads(out)


def test_json_has_the_contract_s_keys(run_cli, plan_file: Path):
    (item,) = predict_json(run_cli, plan_file)
    assert item.keys() == KEYS
    assert item["run_id"] == "plan.yaml"
    assert item["step_time_lower_s"] < item["step_time_s"] < item["step_time_upper_s"]
    assert math.isclose(sum(item["breakdown"].values()), item["step_time_s"], rel_tol=1e-9)
    assert all(name.endswith("_s") and value >= 0.0 for name, value in item["breakdown"].items())
    assert all(run.keys() == EVIDENCE_KEYS for run in item["nearest_runs"])
    assert [run["distance"] for run in item["nearest_runs"]] == sorted(run["distance"] for run in item["nearest_runs"])
    assert 0.0 <= item["oom_probability"] <= 1.0
    assert isinstance(item["feasible"], bool)
    assert isinstance(item["in_domain"], bool)


def test_throughput_and_utilisation_follow_from_the_step_time(run_cli, plan_file: Path):
    """128 sequences of 8192 tokens on 64 GPUs, Llama 3 8B: 6 N + 12 L h s FLOPs per token."""
    (item,) = predict_json(run_cli, plan_file)
    rate = 128 * 8192 / 64 / item["step_time_s"]
    flops = 6 * 7_504_658_432 + 12 * 32 * 4096 * 8192
    assert math.isclose(item["tokens_per_s_per_gpu"], rate, rel_tol=1e-12)
    assert math.isclose(item["mfu"], rate * flops / 989.4e12, rel_tol=2e-3)


def test_what_a_plan_says_is_not_imputed(run_cli, plan_file: Path):
    (item,) = predict_json(run_cli, plan_file)
    assert "compiled" in item["imputed"]
    assert not {"precision", "micro_batch_size", "ep", "moe_top_k", "vp"} & set(item["imputed"])


def test_set_overrides_the_plan(run_cli, plan_file: Path):
    (whole,) = predict_json(run_cli, plan_file)
    (half,) = predict_json(run_cli, plan_file, "--set", "global_batch_size=64")
    assert half["step_time_s"] < 0.7 * whole["step_time_s"]


def test_set_values_alone_are_a_plan(run_cli):
    values = {"model": "llama3-8b", "accelerator": "H100", "num_gpus": 64, "seq_len": 8192, "global_batch_size": 128,
              "tp": 2, "pp": 1}  # fmt: skip
    (item,) = predict_json(run_cli, *(part for key, value in values.items() for part in ("--set", f"{key}={value}")))
    assert item["run_id"] == "--set"
    assert item["step_time_s"] > 0.0
    code, _, err = run_cli("predict", "--set", "tp=2")
    assert code == 1
    assert err.startswith("error: --set: `num_layers, hidden_size")


def test_a_wider_coverage_gives_a_wider_interval(run_cli, plan_file: Path):
    (usual,) = predict_json(run_cli, plan_file)
    (wide,) = predict_json(run_cli, plan_file, "--coverage", "0.99")
    assert wide["step_time_upper_s"] >= usual["step_time_upper_s"]
    assert wide["step_time_s"] == usual["step_time_s"]


def test_human_output_has_units_bars_and_evidence(run_cli, plan_file: Path):
    code, out, _ = run_cli("predict", plan_file)
    assert code == 0
    for words in ("step time", " s", "GiB", "MFU", "█", "nearest measured runs", "predictor: surrogate-"):
        assert words in out


def test_the_predictor_used_is_said(run_cli, plan_file: Path, model_dir: Path, monkeypatch: pytest.MonkeyPatch):
    assert "SURROGATE_MODEL_DIR" in run_cli("predict", plan_file)[1]
    monkeypatch.setenv("SURROGATE_MODEL_DIR", "nowhere")
    assert "--model-dir" in run_cli("predict", plan_file, "--model-dir", model_dir)[1]
    code, _, err = run_cli("predict", plan_file)
    assert (code, len(err.splitlines())) == (1, 1)
    assert "nowhere: no such model directory" in err


def test_a_launch_configuration_is_a_plan(run_cli, tmp_path: Path):
    script = tmp_path / "train.sh"
    script.write_text(
        "torchrun --nproc_per_node 8 --nnodes 8 pretrain_gpt.py --num-layers 32 --hidden-size 4096 "
        "--num-attention-heads 32 --seq-length 4096 --max-position-embeddings 4096 --micro-batch-size 1 "
        "--global-batch-size 128 --tensor-model-parallel-size 2 --bf16 --use-flash-attn\n"
    )
    (item,) = predict_json(run_cli, script, "--set", "accelerator=H100-80GB")
    assert item["run_id"] == "train.sh"
    code, _, err = run_cli("predict", script)
    assert code == 1
    assert "accelerator" in err
    assert "--set accelerator=" in err


def test_explain_says_what_changes_would_do(run_cli, plan_file: Path):
    (item,) = predict_json(run_cli, plan_file, "--explain")
    explanation = item["explanation"]
    assert math.isclose(sum(term["seconds"] for term in explanation["terms"]), item["step_time_s"], rel_tol=1e-9)
    ratios = [change["ratio"] for change in explanation["changes"]]
    assert ratios == sorted(ratios)
    by_name = {change["change"]: change["ratio"] for change in explanation["changes"]}
    assert by_name["every layer is recomputed"] > 1.0
    assert "if" in run_cli("predict", plan_file, "--explain")[1]


@pytest.mark.parametrize(("factor", "verdict"), [(1.0, "normal"), (20.0, "slow"), (0.05, "fast")])
def test_measured_is_judged(run_cli, plan_file: Path, factor: float, verdict: str):
    (item,) = predict_json(run_cli, plan_file)
    measured = factor * item["step_time_s"]
    (judged,) = predict_json(run_cli, plan_file, "--measured", measured)
    judgement = judged["judgement"]
    assert judgement["verdict"] == verdict
    assert math.isclose(judgement["deviation"], factor - 1.0, abs_tol=1e-6)
    assert judgement["smallest_callable_slowdown"] > 0.0
    assert verdict in run_cli("predict", plan_file, "--measured", measured)[1]


@pytest.mark.parametrize("measured", ["0", "-3", "nan", "inf"])
def test_an_impossible_measurement_is_refused(run_cli, plan_file: Path, measured: str):
    code, out, err = run_cli("predict", plan_file, "--measured", measured)
    assert (code, out) == (1, "")
    assert "must be a positive number of seconds" in err


def test_a_site_is_chosen_by_option_or_in_the_plan(run_cli, plan_file: Path):
    source, family = "torchtitan-perf-2024", "meta-torchtitan"
    (population,) = predict_json(run_cli, plan_file)
    (by_option,) = predict_json(run_cli, plan_file, "--site", source)
    (in_plan,) = predict_json(run_cli, plan_file, "--set", f"source={source}")
    (by_family,) = predict_json(run_cli, plan_file, "--site", family)
    assert by_option == in_plan
    assert by_option["step_time_s"] != population["step_time_s"] != by_family["step_time_s"]


def test_an_unknown_site_means_the_population(run_cli, plan_file: Path):
    (population,) = predict_json(run_cli, plan_file)
    (unknown,) = predict_json(run_cli, plan_file, "--site", "nobody")
    assert unknown == population
    assert "site nobody is not known" in run_cli("predict", plan_file, "--site", "nobody")[1]


def test_anchor_predicts_the_ratio_to_a_run(run_cli, plan_file: Path, small_runs: Path):
    table = pd.read_parquet(small_runs)
    run = table[(table["source"] == "torchtitan-perf-2024") & table["measured_step_time_s"].notna()].iloc[0]
    (item,) = predict_json(run_cli, plan_file, "--anchor", run["run_id"])
    anchor = item["anchor"]
    assert math.isclose(anchor["measured_step_time_s"], run["measured_step_time_s"])
    assert math.isclose(anchor["ratio"] * anchor["measured_step_time_s"], item["step_time_s"])
    assert anchor["ratio_lower"] < anchor["ratio"] < anchor["ratio_upper"]
    code, _, err = run_cli("predict", plan_file, "--anchor", run["run_id"] + "x")
    assert code == 1
    assert run["run_id"] in err


def test_a_plan_with_a_bad_value_is_one_line(run_cli, plan_file: Path):
    code, out, err = run_cli("predict", plan_file, "--set", "tp=3")
    assert (code, out, len(err.splitlines())) == (1, "", 1)
    assert "plan.yaml" in err
    assert "tp*pp*cp" in err


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("plan.yaml", "--runs", "t.csv", "-o", "o.csv"),
        ("--runs", "t.csv"),
        ("plan.yaml", "-o", "o.csv"),
        ("--runs", "t.csv", "-o", "o.csv", "--set", "tp=2"),
        ("a.yaml", "b.yaml", "--measured", "3"),
        ("plan.yaml", "--record", "--coverage", "0.5"),
    ],
)
def test_contradicting_options_are_wrong_usage(run_cli, arguments: tuple[str, ...]):
    assert run_cli("predict", *arguments)[0] == 2


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_a_table_is_predicted_in_its_order(run_cli, tmp_path: Path, suffix: str):
    rows = [ROW | {"run_id": f"r{size}", "global_batch_size": size, "step_time_s": 3.0} for size in (512, 64, 128)]
    source, target = tmp_path / f"in{suffix}", tmp_path / f"out{suffix}"
    table = pd.DataFrame(rows)
    (table.to_csv if suffix == ".csv" else table.to_parquet)(source, index=False)
    code, out, _ = run_cli("predict", "--runs", source, "-o", target, "--json")
    assert code == 0
    assert json.loads(out)["rows"] == 3
    answer = pd.read_csv(target) if suffix == ".csv" else pd.read_parquet(target)
    assert set(answer.columns) == KEYS | {"error"}
    assert answer["run_id"].tolist() == ["r512", "r64", "r128"]
    assert answer["step_time_s"].rank().tolist() == [3.0, 1.0, 2.0]
    assert answer["error"].isna().all()
    breakdown = json.loads(answer["breakdown"][0])
    assert math.isclose(sum(breakdown.values()), answer["step_time_s"][0], rel_tol=1e-9)


def test_bad_rows_keep_their_place(run_cli, tmp_path: Path):
    bad = [
        {"run_id": "unknown", "accelerator": "H1000"},
        {"run_id": "split", "tp": 3},
        {"run_id": "negative", "num_layers": -1},
        {"run_id": "empty", "seq_len": None},
        {"run_id": "good"},
        {"run_id": "precision", "accelerator": "V100-SXM2-32GB", "precision": "nvfp4"},
    ]
    rows = [ROW, *(ROW | changes for changes in bad), ROW | {"run_id": "last"}]
    pd.DataFrame(rows).to_csv(tmp_path / "in.csv", index=False)
    code, out, _ = run_cli("predict", "--runs", "in.csv", "-o", "out.csv")
    answer = pd.read_csv(tmp_path / "out.csv")
    assert code == 1
    assert "bad" in out
    assert answer["run_id"].tolist() == [row["run_id"] for row in rows]
    assert answer["step_time_s"].notna().tolist() == answer["error"].isna().tolist()
    assert answer["error"].notna().tolist()[1:5] == [True] * 4
    assert answer["error"].isna().tolist()[-1]
    for text, error in zip(("H1", "tp", "num_layers", "seq_len"), answer["error"][1:5], strict=True):
        assert text in error


def test_measured_columns_do_not_matter(run_cli, tmp_path: Path):
    pd.DataFrame([ROW]).to_csv(tmp_path / "plain.csv", index=False)
    pd.DataFrame([ROW | {"mfu": 3.0, "status": "crashed", "step_time_s": "soon"}]).to_csv("measured.csv", index=False)
    answers = []
    for name in ("plain", "measured"):
        assert run_cli("predict", "--runs", f"{name}.csv", "-o", f"{name}.out.csv")[0] == 0
        answers.append((tmp_path / f"{name}.out.csv").read_text())
    assert answers[0] == answers[1]


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("empty.csv", b"", "the file is empty"),
        ("header.csv", b"run_id,num_layers\n", "no rows"),
        ("corrupt.parquet", b"PAR1 and then nothing of the kind", "not a readable parquet file"),
        ("columns.csv", b"run_id,tp\na,1\n", "num_layers"),
        ("twice.csv", b"tp,tp\n1,2\n", "unique"),
        ("table.xlsx", b"x", ".csv or .parquet"),
        ("absent.csv", None, "no such file"),
    ],
)
def test_an_unusable_table_leaves_the_output_alone(
    run_cli, tmp_path: Path, name: str, content: bytes | None, words: str
):
    (tmp_path / "out.csv").write_text("as it was")
    if content is not None:
        (tmp_path / name).write_bytes(content)
    code, out, err = run_cli("predict", "--runs", name, "-o", "out.csv")
    assert (code, out) == (1, "")
    assert words in err
    assert err.startswith("error: ")
    assert (tmp_path / "out.csv").read_text() == "as it was"
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(
        {"out.csv", *([name] if content is not None else [])}
    )
