"""Tables on disk: what is read, what is refused, and that nothing is lost when writing fails."""

from __future__ import annotations

import pandas as pd
import pytest

from surrogate.errors import FileFormatError
from surrogate.schema import read_runs, read_table, table_digest, write_parquet

CSV = (
    "run_id,num_layers,hidden_size,num_heads,seq_len,accelerator,num_gpus,global_batch_size,tp,pp,recompute,"
    "sequence_parallel,zero_stage,inter_node_gbps,peak_memory_gb,tflops_per_gpu,params_b,mfu\n"
    "a,32,4096,32,8192,H100,16,32,2,1,none,true,1,3200,64,450,8,0.45\n"
    "b,32,4096,32,8192,h100-80gb,16,32,2,1,NA,False,,,nan,,N/A,\n"
)


@pytest.fixture
def csv(tmp_path):
    path = tmp_path / "runs.csv"
    path.write_text(CSV)
    return path


def test_published_units_become_si(csv):
    first = read_runs(csv).iloc[0]
    assert first["inter_node_bytes_per_s"] == 400e9  # 3200 Gbit/s / 8
    assert first["peak_memory_bytes"] == 64 * 2**30
    assert first["achieved_flops_per_s"] == 450e12
    assert first["published_params"] == 8e9


def test_missing_stays_missing_and_none_is_a_setting(csv):
    runs = read_runs(csv)
    assert runs["recompute"].tolist()[0] == "none"
    assert runs.loc[1, ["recompute", "zero_stage", "peak_memory_bytes", "published_params", "ep"]].isna().all()
    assert runs["sequence_parallel"].tolist() == [True, False]
    assert runs.dtypes.astype(str)[["tp", "sequence_parallel", "mfu"]].tolist() == ["Int64", "boolean", "float64"]


def test_defaults_and_aliases(csv):
    runs = read_runs(csv)
    assert runs["status"].tolist() == ["ok", "ok"]
    assert runs["dp"].tolist() == [8, 8]
    assert runs["accelerator"].tolist() == ["H100-80GB", "H100-80GB"]


def test_parquet_and_csv_give_the_same_runs(csv, tmp_path):
    runs = read_runs(csv)
    write_parquet(runs, tmp_path / "runs.parquet")
    pd.testing.assert_frame_equal(read_runs(tmp_path / "runs.parquet"), runs)


def test_equal_tables_give_equal_bytes(csv, tmp_path):
    for name in ("one.parquet", "two.parquet"):
        write_parquet(read_runs(csv), tmp_path / name)
    assert (tmp_path / "one.parquet").read_bytes() == (tmp_path / "two.parquet").read_bytes()


def test_digest_sees_values_names_and_order(csv):
    runs = read_runs(csv)
    assert table_digest(runs) == table_digest(runs.copy())
    for other in (runs.assign(tp=runs["tp"] + 1), runs.rename(columns={"notes": "remarks"}), runs.iloc[::-1]):
        assert table_digest(other) != table_digest(runs)


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("empty.csv", b"", "is empty"),
        ("header.csv", b"run_id,tp\n", "no rows"),
        ("ragged.csv", b"run_id,tp\na,1\nb,2,3,4\n", "not a readable CSV"),
        ("latin.csv", b"run_id,tp\n\xff\xfe,1\n", "not a readable CSV"),
        ("twice.csv", b"tp,tp\n1,2\n", "unique"),
        ("corrupt.parquet", b"PAR1 and then nothing of use", "not a readable parquet"),
        ("runs.xlsx", b"PK", "must end in .csv or .parquet"),
    ],
)
def test_unreadable_files_are_one_clear_line(tmp_path, name, content, reason):
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(FileFormatError, match=reason) as caught:
        read_table(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value).strip()


def test_truncated_parquet_is_refused(csv, tmp_path):
    path = tmp_path / "runs.parquet"
    write_parquet(read_runs(csv), path)
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(FileFormatError, match="parquet"):
        read_runs(path)


def test_missing_file(tmp_path):
    with pytest.raises(FileFormatError, match="no such file"):
        read_runs(tmp_path / "absent.csv")
