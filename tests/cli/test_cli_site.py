"""`surrogate site` on the command line: own runs, the ledger of predictions, the runs to make next."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest

from surrogate.plan import load_plan, plans_to_frame


@pytest.fixture
def own_runs(plan_file: Path, tmp_path: Path):
    """Write a table with measured runs of the plan, by run_id and seconds per step; gives its path."""

    def write(**seconds: float) -> Path:
        table = pd.concat([plans_to_frame([load_plan(plan_file)])] * len(seconds), ignore_index=True)
        path = tmp_path / f"{'-'.join(seconds)}.csv"
        table.assign(run_id=list(seconds), step_time_s=list(seconds.values())).to_csv(path, index=False)
        return path

    return write


@pytest.fixture(autouse=True)
def _ledger_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path}/ledger.db")


def test_added_runs_are_shown(run_cli, own_runs):
    code, out, err = run_cli("site", "add", "mine", own_runs(a=4.0, b=4.1, c=9.0), "--no-ledger")
    assert code == 0, err
    assert "sites/mine.json: 3 measured runs of mine" in out
    assert "times apart" in out
    assert "not used: they contradict each other" in out
    code, shown, _ = run_cli("site", "show", "mine", "--no-ledger")
    assert (code, shown) == (0, out)
    (facts,) = [json.loads(run_cli("site", "show", "mine", "--no-ledger", "--json")[1])]
    assert {"site", "rows", "zero_shot", "left_out", "moved", "contradictions", "track_record"} <= set(facts)


def test_a_site_keeps_its_family(run_cli, own_runs, model_dir: Path):
    manifest = json.loads((model_dir / "manifest.json").read_text())
    family = next(name for names in manifest["sites"].values() for name in names)
    run_cli("site", "add", "mine", own_runs(a=4.0), "--family", family, "--no-ledger")
    added = json.loads(run_cli("site", "add", "mine", own_runs(b=4.0), "--no-ledger", "--json")[1])
    assert (added["publisher_family"], added["rows"]) == (family, 2)


def test_a_prediction_is_matched_with_later_runs_only(run_cli, own_runs, plan_file: Path):
    usual = json.loads(run_cli("predict", plan_file, "--json")[1])[0]["step_time_s"]
    assert run_cli("site", "add", "mine", own_runs(before=usual))[0] == 0
    code, out, err = run_cli("predict", plan_file, "--site", "mine", "--record")
    elsewhere = f"sqlite:///{plan_file.parent}/elsewhere.db"
    assert run_cli("predict", plan_file, "--site", "mine", "--record", "--tracking-uri", elsewhere)[0] == 0
    assert code == 0, err
    assert "recorded as" in out
    again = json.loads(run_cli("site", "add", "mine", own_runs(before=usual), "--json")[1])
    assert again["matched_predictions"] == 0
    assert (
        "1 recorded predictions matched"
        in run_cli("site", "add", "mine", own_runs(before=usual, after=1.02 * usual))[1]
    )
    record = json.loads(run_cli("site", "show", "mine", "--json")[1])["track_record"]
    assert (record["recorded"], record["matched"], record["items"][0]["run_id"]) == (1, 1, "after")
    shown = run_cli("site", "show", "mine")[1]
    assert "ledger: 1 predictions recorded, 1 matched with their runs" in shown
    assert "no drift: CUSUM" in shown


def test_the_runs_to_make_next(run_cli, plan_file: Path):
    code, out, err = run_cli("site", "next", "newcomer", "--target", plan_file, "--budget-gpus", 16)
    assert code == 0, err
    assert "the interval now spans a factor of" in out
    assert "site newcomer is not known: the habits of the whole population apply" in out
    proposed = json.loads(run_cli("site", "next", "newcomer", "--target", plan_file, "--budget-gpus", 16, "--json")[1])
    assert 1 <= len(proposed["proposals"]) <= 3


def test_mistakes_are_one_line(run_cli, own_runs):
    for arguments, words in (
        (("show", "nobody"), "no such site file"),
        (("add", "mine", own_runs(a=4.0), "--family", "nobody"), "--family"),
        (("add", "../mine", own_runs(a=4.0)), "plain name"),
    ):
        code, out, err = run_cli("site", *arguments)
        assert (code, out, len(err.splitlines())) == (1, "", 1)
        assert words in err
