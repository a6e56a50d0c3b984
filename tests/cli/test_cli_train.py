"""`surrogate train`: a model directory written whole, and bad input that leaves the old one alone."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest

from surrogate import api

QUICK = ("--no-track", "--no-evaluate")


def tree(directory: Path) -> dict[str, bytes]:
    return {
        path.relative_to(directory).as_posix(): path.read_bytes() for path in directory.rglob("*") if path.is_file()
    }


@pytest.fixture
def few_runs(small_runs: Path) -> pd.DataFrame:
    return pd.read_parquet(small_runs).head(20)


def test_train_writes_a_model_that_predicts(run_cli, small_runs: Path, plan_file: Path, tmp_path: Path):
    code, out, err = run_cli("train", small_runs, "--model-dir", "mine", *QUICK, "--json")
    assert code == 0, err
    facts = json.loads(out)
    assert facts["data"]["rows"] == len(pd.read_parquet(small_runs))
    assert facts["tracked"] is None
    assert (tmp_path / "mine" / "MODEL_CARD.md").read_text().startswith(f"# {facts['model']}")
    (item,) = json.loads(run_cli("predict", plan_file, "--model-dir", "mine", "--json")[1])
    assert item["model"] == facts["model"]
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]


def test_the_same_runs_and_seed_give_the_same_model(run_cli, small_runs: Path, model_dir: Path, tmp_path: Path):
    assert run_cli("train", small_runs, *QUICK)[0] == 0
    digests = [api.load_predictor(directory).manifest.digest for directory in (model_dir, tmp_path / "model")]
    assert digests[0] == digests[1]


def test_a_users_runs_join_the_shipped_ones(run_cli, small_runs: Path, few_runs: pd.DataFrame, tmp_path: Path):
    few_runs.assign(run_id="own-" + few_runs["run_id"], source="mine").to_csv(tmp_path / "own.csv", index=False)
    code, out, _ = run_cli("train", small_runs, "own.csv", *QUICK, "--json")
    assert code == 0
    data = json.loads(out)["data"]
    assert data["rows"] == len(pd.read_parquet(small_runs)) + len(few_runs)
    assert data["files"] == ["runs.parquet", "own.csv"]


def test_a_run_id_in_two_files_is_an_error(run_cli, small_runs: Path, few_runs: pd.DataFrame, tmp_path: Path):
    few_runs.to_csv(tmp_path / "again.csv", index=False)
    code, _, err = run_cli("train", small_runs, "again.csv", *QUICK)
    assert code == 1
    assert f"{len(few_runs)} problem(s)" in err
    assert "must be unique in all files" in err


BAD_CELLS = {
    "wrong units": {"tokens_per_s_per_gpu": 1e9, "step_time_s": None},
    "a layout that does not fill the machine": {"tp": 3, "num_heads": 48, "hidden_size": 6144},
    "an unknown accelerator": {"accelerator": "H1000"},
    "a negative size": {"num_layers": -4},
    "a zero": {"global_batch_size": 0},
    "a missing required value": {"seq_len": None},
    "text for a number": {"hidden_size": "wide"},
    "a repeated run_id": {"run_id": "same"},
}


@pytest.mark.parametrize("changes", BAD_CELLS.values(), ids=BAD_CELLS.keys())
def test_bad_rows_are_all_listed_and_the_old_model_stays(
    run_cli, few_runs: pd.DataFrame, tmp_path: Path, model_dir: Path, changes: dict[str, object]
):
    written = {name: few_runs[name].astype(object) for name in few_runs}
    table = pd.DataFrame(written)
    for name, value in changes.items():
        table.loc[[3, 7], name] = value
    if "tokens_per_s_per_gpu" in changes:
        table = table.drop(columns=["mfu", "achieved_flops_per_s", "samples_per_s", "measured_step_time_s"])
    table.to_csv(tmp_path / "bad.csv", index=False)
    before = tree(model_dir)
    code, out, err = run_cli("train", "bad.csv", "--model-dir", model_dir, *QUICK)
    assert (code, out.count("Traceback")) == (1, 0)
    assert err.splitlines()[-1].startswith("  row ")
    assert {line.split()[1] for line in err.splitlines() if line.startswith("  row ")} & {"8", "4"}
    assert tree(model_dir) == before


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("empty.csv", b"", "the file is empty"),
        ("corrupt.parquet", b"PAR1 garbage", "not a readable parquet file"),
        ("absent.parquet", None, "no such file"),
        ("columns.csv", b"run_id,tp\na,1\n", "num_layers"),
    ],
)
def test_unusable_tables(run_cli, tmp_path: Path, model_dir: Path, name: str, content: bytes | None, words: str):
    if content is not None:
        (tmp_path / name).write_bytes(content)
    before = tree(model_dir)
    code, _, err = run_cli("train", name, "--model-dir", model_dir, *QUICK)
    assert code == 1
    assert words in err
    assert "Traceback" not in err
    assert tree(model_dir) == before


def test_runs_without_any_time_are_refused(run_cli, few_runs: pd.DataFrame, tmp_path: Path):
    names = ["run_id", "num_layers", "hidden_size", "num_heads", "seq_len", "accelerator", "num_gpus"]
    few_runs[[*names, "global_batch_size", "tp", "pp"]].to_csv(tmp_path / "plans.csv", index=False)
    code, _, err = run_cli("train", "plans.csv", *QUICK)
    assert (code, len(err.splitlines()[-1:])) == (1, 1)
    assert "measured_step_time_s" in err
    assert not (tmp_path / "model").exists()


def test_a_folder_with_other_files_is_not_replaced(run_cli, small_runs: Path, tmp_path: Path):
    folder = tmp_path / "precious"
    folder.mkdir()
    (folder / "thesis.tex").write_text("years of work")
    code, _, err = run_cli("train", small_runs, "--model-dir", folder, *QUICK)
    assert code == 1
    assert "holds other files than a model" in err
    assert tree(folder) == {"thesis.tex": b"years of work"}


@pytest.mark.slow
def test_train_measures_and_tracks(run_cli, small_runs: Path, tmp_path: Path):
    pd.read_parquet(small_runs).iloc[::3].to_parquet(tmp_path / "third.parquet")
    code, out, err = run_cli("train", "third.parquet", "--jobs", "1")
    assert code == 0, err
    for words in ("hybrid", "constant MFU", "MAPE by source", "registered: surrogate version 1, the champion"):
        assert words in out
    assert (tmp_path / "mlruns" / "mlflow.db").is_file()
    metrics = json.loads((tmp_path / "model" / "manifest.json").read_text())["metrics"]
    assert 0.0 < metrics["random/hybrid/mape"] < metrics["random/constant_mfu/mape"]
