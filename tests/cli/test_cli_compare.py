"""`surrogate compare`, `judge`, `report`, `ui`."""

from __future__ import annotations

import json
import math
from datetime import datetime, timedelta
from pathlib import Path

import pandas as pd
import pytest


@pytest.fixture
def larger_batches(plan_file: Path) -> Path:
    path = plan_file.with_name("recomputing.yaml")
    path.write_text(plan_file.read_text().replace("recompute: selective", "recompute: full"))
    return path


def test_compare_says_why_term_by_term(run_cli, plan_file: Path, larger_batches: Path):
    code, out, err = run_cli("compare", plan_file, larger_batches, "--json")
    assert code == 0, err
    found = json.loads(out)
    assert found["speedup"] > 1.0
    assert found["probability_a_beats_b"] > 0.5
    assert found["speedup_lower"] < found["speedup"] < found["speedup_upper"]
    assert found["terms"][0]["cause"] == "recompute_s"
    differences = sum(term["difference_s"] for term in found["terms"])
    assert math.isclose(differences, found["a_step_time_s"] - found["b_step_time_s"], abs_tol=1e-9)
    human = run_cli("compare", plan_file, larger_batches)[1]
    assert "recomputation" in human
    assert "faster one with probability" in human


def test_the_order_of_the_plans_only_turns_the_answer(run_cli, plan_file: Path, larger_batches: Path):
    forward, backward = (
        json.loads(run_cli("compare", *plans, "--json")[1])
        for plans in ((plan_file, larger_batches), (larger_batches, plan_file))
    )
    assert math.isclose(forward["speedup"] * backward["speedup"], 1.0, rel_tol=1e-9)
    total = forward["probability_a_beats_b"] + backward["probability_a_beats_b"]
    assert math.isclose(total, 1.0, abs_tol=0.05)


def test_compare_says_that_a_site_is_unknown(run_cli, plan_file: Path, larger_batches: Path):
    assert "site nobody is not known" in run_cli("compare", plan_file, larger_batches, "--site", "nobody")[1]
    assert "is not known" not in run_cli("compare", plan_file, larger_batches)[1]


def test_judge_a_measured_time(run_cli, plan_file: Path):
    (item,) = json.loads(run_cli("predict", plan_file, "--json")[1])
    code, out, err = run_cli("judge", "--plan", plan_file, "--measured", 30.0 * item["step_time_s"], "--json")
    assert code == 0, err
    (judged,) = json.loads(out)
    assert judged["verdict"] == "slow"
    assert judged["causes"][-1]["explained"] == pytest.approx(1.0)


def test_judge_reads_a_log(run_cli, plan_file: Path, tmp_path: Path):
    log = tmp_path / "train.log"
    start, step_s = datetime(2025, 1, 1), timedelta(seconds=128 * 8192 / 64 / 2000)
    lines = [
        f"[titan] {start + step * step_s:%Y-%m-%d %H:%M:%S},000 - root - INFO - step: {step:2d}  loss: 3.1  "
        "memory: 60.00GiB(75.00%)  tps: 2,000  tflops: 110.00  mfu: 11.00%"
        for step in range(1, 30)
    ]
    log.write_text("\n".join(lines) + "\n")
    code, out, err = run_cli("judge", log, "--plan", plan_file, "--json")
    assert code == 0, err
    (judged,) = json.loads(out)
    assert judged["measured_step_time_s"] == pytest.approx(128 * 8192 / 64 / 2000, rel=0.02)
    assert run_cli("judge", log, "--plan", plan_file)[0] == 0
    code, _, err = run_cli("judge", log)
    assert (code, len(err.splitlines())) == (1, 1)
    assert "--plan" in err


@pytest.mark.parametrize("arguments", [(), ("x.log", "--measured", "3"), ("--measured", "3")])
def test_judge_needs_a_log_or_a_time_with_its_plan(run_cli, arguments: tuple[str, ...]):
    assert run_cli("judge", *arguments)[0] == 2


def test_report_is_one_page(run_cli, plan_file: Path, larger_batches: Path, tmp_path: Path):
    code, out, err = run_cli("report", plan_file, larger_batches, "-o", "page.html")
    assert code == 0, err
    page = (tmp_path / "page.html").read_text()
    assert "page.html: 2 plans" in out
    assert page.count("<h2>") == 2
    for words in ("plan.yaml", "recomputing.yaml", "where the time goes", "nearest measured runs"):
        assert words in page
    assert "http" not in page.replace("http-equiv", "")


def test_report_escapes_names(run_cli, plan_file: Path, tmp_path: Path):
    named = tmp_path / "<b>&.yaml"
    named.write_text(plan_file.read_text())
    assert run_cli("report", named, "-o", "page.html")[0] == 0
    page = (tmp_path / "page.html").read_text()
    assert "&lt;b&gt;&amp;.yaml" in page
    assert "<b>&.yaml" not in page


def test_ui_says_what_it_would_start(run_cli, tmp_path: Path):
    facts = json.loads(run_cli("ui", "--json", "--port", "5055")[1])
    assert facts["address"] == "http://127.0.0.1:5055"
    assert facts["uri"] == f"sqlite:///{tmp_path}/mlruns/mlflow.db"
    other = json.loads(run_cli("ui", "--json", "--tracking-uri", "http://tracker:5000")[1])
    assert other["uri"] == "http://tracker:5000"
    assert "--default-artifact-root" not in other["command"]


def test_site_add_show_next(run_cli, small_runs: Path, plan_file: Path, tmp_path: Path):
    table = pd.read_parquet(small_runs)
    own = table[(table["source"] == "torchtitan-perf-2024") & table["measured_step_time_s"].notna()].copy()
    own["run_id"] = "own-" + own["run_id"]
    own.head(8).drop(columns=["split_group", "repeat_group"]).to_csv(tmp_path / "own.csv", index=False)
    code, out, err = run_cli("site", "add", "mine", "own.csv", "--json")
    assert code == 0, err
    facts = json.loads(out)
    assert (facts["site"], facts["rows"]) == ("mine", 8)
    assert facts["matched_predictions"] == 0
    assert (tmp_path / "sites" / "mine.json").stat().st_size < 30_000
    shown = json.loads(run_cli("site", "show", "mine", "--json")[1])
    assert shown["track_record"]["recorded"] == 0
    assert {name: shown[name] for name in ("zero_shot", "left_out")} == {
        name: facts[name] for name in ("zero_shot", "left_out")
    }
    assert "without them" in run_cli("site", "show", "mine")[1]
    proposed = json.loads(run_cli("site", "next", "mine", "--target", plan_file, "--budget-gpus", "16", "--json")[1])
    assert 1 <= len(proposed["proposals"]) <= 3
    assert all(run["num_gpus"] <= 16 for run in proposed["proposals"])
    assert "interval then spans" in run_cli("site", "next", "mine", "--target", plan_file, "--budget-gpus", "16")[1]
    (item,) = json.loads(run_cli("predict", plan_file, "--site", "mine", "--json")[1])
    assert item["model"].endswith("+mine" if facts["conditions"] else item["model"])


def test_a_site_file_that_is_none(run_cli, plan_file: Path, tmp_path: Path):
    (tmp_path / "broken.json").write_text('{"format": 1, "name"')
    for arguments in (("site", "show", "broken.json"), ("predict", plan_file, "--site", "broken.json")):
        code, _, err = run_cli(*arguments)
        assert (code, len(err.splitlines())) == (1, 1)
        assert "not a site file" in err


def test_ui_becomes_the_server(run_cli, monkeypatch: pytest.MonkeyPatch):
    called: list[tuple[str, ...]] = []
    monkeypatch.setattr("os.execv", lambda program, arguments: called.append((program, *arguments)))
    code, out, _ = run_cli("ui", "--port", "5056")
    assert code == 0
    assert "http://127.0.0.1:5056" in out
    assert called[0][2:5] == ("-m", "mlflow", "ui")
