"""Tables piece by piece: order, repeated names across pieces, row numbers, one bad row in a piece."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import pandas as pd
import pytest

from surrogate import api
from surrogate.api import table_prediction
from surrogate.api.table_files import TableWriter, iterate_table
from surrogate.api.table_prediction import PREDICTION_COLUMNS, predict_pieces
from surrogate.errors import FileFormatError, InputError

ROW = {
    "num_layers": 32, "hidden_size": 4096, "num_heads": 32, "seq_len": 4096, "accelerator": "A100-80GB", "num_gpus": 8,
    "global_batch_size": 16, "tp": 1, "pp": 1,
}  # fmt: skip


def predicted(rows: list[dict[str, object]], predictor: api.Predictor, piece_rows: int) -> pd.DataFrame:
    table = pd.DataFrame(rows)
    pieces = (table.iloc[start : start + piece_rows] for start in range(0, len(table), piece_rows))
    return pd.concat(predict_pieces(pieces, predictor), ignore_index=True)


def test_pieces_give_what_the_whole_gives(predictor: api.Predictor):
    rows = [ROW | {"run_id": f"r{size}", "global_batch_size": size} for size in (8, 16, 24, 32, 40)]
    whole, pieces = predicted(rows, predictor, 5), predicted(rows, predictor, 2)
    numbers = ["step_time_s", "step_time_upper_s", "mfu", "peak_memory_bytes", "oom_probability"]
    pd.testing.assert_frame_equal(whole[numbers], pieces[numbers], rtol=1e-5)
    assert whole["run_id"].equals(pieces["run_id"])
    assert tuple(whole.columns) == PREDICTION_COLUMNS


def test_rows_without_a_name_are_numbered_through_the_file(predictor: api.Predictor):
    assert predicted([ROW] * 5, predictor, 2)["run_id"].tolist() == [f"row-{number}" for number in range(1, 6)]


def test_a_name_may_not_come_twice_even_far_apart(predictor: api.Predictor):
    rows = [ROW | {"run_id": name} for name in ("a", "b", "c", "a")]
    answer = predicted(rows, predictor, 2)
    assert answer["error"].notna().tolist() == [False, False, False, True]
    assert "`run_id` must be unique, got a" in answer["error"][3]


def test_an_error_that_only_predicting_shows_stays_with_its_row(
    predictor: api.Predictor, monkeypatch: pytest.MonkeyPatch
):
    """A table stops at its first error; here every row named `bad` raises, and only those lose their prediction."""
    real = api.Predictor.predict_frame

    def picky(self: api.Predictor, plans: pd.DataFrame, **options: object) -> pd.DataFrame:
        if plans["run_id"].str.startswith("bad").any():
            raise InputError("accelerator", "must have a rate", "none")
        return real(self, plans, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(api.Predictor, "predict_frame", picky)
    names = ["one", "bad-1", "two", "three", "bad-2"]
    answer = predicted([ROW | {"run_id": name} for name in names], predictor, 5)
    assert answer["error"].notna().tolist() == [False, True, False, False, True]
    assert answer["step_time_s"].notna().tolist() == [True, False, True, True, False]


def test_rows_that_no_framework_can_place_get_the_rule_and_no_number(predictor: api.Predictor):
    """A rule counts where its field is given: the third row's sharding is a habit of its stack, not a wish."""
    split = {"pp": 4, "pipeline_schedule": "zb-h1", "micro_batch_size": 1}
    rows = [
        ROW,
        {**ROW, **split, "zero_stage": 3},
        {**ROW, **split},
        {**ROW, "num_gpus": 16, "tp": 16, "num_kv_heads": 8},
    ]
    sharded = {**ROW, "num_gpus": 16, "pp": 4, "micro_batch_size": 1, "zero_stage": 3}
    rows += [sharded | {"framework": "megatron-lm"}, sharded | {"framework": "torchtitan"}, sharded]
    rows.append({**ROW, "num_gpus": 16, "num_heads": 48, "hidden_size": 6144, "num_kv_heads": 6, "tp": 16})
    table = predicted(rows, predictor, len(rows))
    assert table["error"].notna().tolist() == [row in (1, 4, 7) for row in range(8)]
    assert table["step_time_s"].isna().tolist() == [row in (1, 4, 7) for row in range(8)]
    assert "`zero_stage` must be at most 1 under a pipeline schedule" in table["error"].iloc[1]
    assert "set zero_stage to 1" in table["error"].iloc[1]
    assert "unless FSDP shards the parameters" in table["error"].iloc[4]
    assert "`num_kv_heads` must be a multiple of tp" in table["error"].iloc[7]


def test_progress_is_told_and_rows_are_counted(
    predictor: api.Predictor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(table_prediction, "iterate_table", lambda path: iterate_table(path, 2))
    pd.DataFrame([ROW] * 5).to_csv(tmp_path / "in.csv", index=False)
    done: list[int] = []
    outcome = api.predict_table(tmp_path / "in.csv", tmp_path / "out.parquet", predictor, progress=done.append)
    assert (outcome.rows, outcome.bad_rows) == (5, 0)
    assert done == sorted(done)
    assert (len(done), done[-1]) == (3, 5)


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_a_table_comes_in_pieces(tmp_path: Path, suffix: str):
    table = pd.DataFrame({"a": ["1", "2", "3"], "b": ["x", None, "z"]})
    path = tmp_path / f"t{suffix}"
    (table.to_csv if suffix == ".csv" else table.to_parquet)(path, index=False)
    pieces = list(iterate_table(path, 2))
    assert [position for piece in pieces for position in piece.index] == [0, 1, 2]
    assert len(pieces) == 2
    assert pd.concat(pieces)["b"].isna().tolist() == [False, True, False]


def test_a_table_cut_short_is_an_error(tmp_path: Path):
    path = tmp_path / "t.parquet"
    pd.DataFrame({"a": range(1000)}).to_parquet(path)
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(FileFormatError):
        list(iterate_table(path))


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_pieces_written_make_one_table(tmp_path: Path, suffix: str):
    path = tmp_path / f"t{suffix}"
    with TableWriter(path) as writer:
        writer.write(pd.DataFrame({"a": [1.0, None], "b": pd.Series(["x", None], dtype="str")}))
        writer.write(pd.DataFrame({"a": [3.0], "b": pd.Series([None], dtype="str")}))
    table = pd.read_csv(path) if suffix == ".csv" else pd.read_parquet(path)
    assert table["a"].isna().tolist() == [False, True, False]
    assert table["b"].isna().tolist() == [False, True, True]


def test_writing_that_fails_leaves_the_old_file(tmp_path: Path):
    path = tmp_path / "t.csv"
    path.write_text("old")
    with pytest.raises(ZeroDivisionError), TableWriter(path) as writer:
        writer.write(pd.DataFrame({"a": [1]}))
        raise ZeroDivisionError
    assert path.read_text() == "old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["t.csv"]


@pytest.mark.slow
def test_memory_does_not_grow_with_the_table(predictor: api.Predictor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(table_prediction, "iterate_table", lambda path: iterate_table(path, 200))
    peaks = []
    for rows in (400, 2000):
        path = tmp_path / f"{rows}.parquet"
        pd.DataFrame([ROW] * rows).to_parquet(path)
        tracemalloc.start()
        api.predict_table(path, tmp_path / "out.csv", predictor)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 1.3 * peaks[0]
