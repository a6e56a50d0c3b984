"""The user's own entries."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from surrogate.catalog import dense_peak_flops_per_s, resolve_accelerator, resolve_model
from surrogate.errors import FileFormatError, InputError

WHOLE = """
[accelerators.X1]
aliases = ["Example One"]
hbm_gib_usable = 100
hbm_gbytes_per_s = 4000
bf16_tflops_per_s = 500
fast_link_gbytes_per_s = 400
fast_domain_gpus = 16
gpus_per_node = 8
nic_gbit_per_s = 400
host_link_gbytes_per_s = 63
sources = ["https://example.org/x1"]
"""


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def write(text: str, name: str = "own.toml") -> Path:
        path = tmp_path / name
        path.write_text(text)
        monkeypatch.setenv("SURROGATE_CATALOG", str(path))
        return path

    return write


def test_a_whole_entry(own) -> None:
    own(WHOLE)
    entry = resolve_accelerator("example-one")
    assert (entry.name, entry.hbm_bytes, entry.hbm_bytes_per_s) == ("X1", 100 * 2**30, 4e12)
    assert entry.verified == "stated by the user"
    assert dense_peak_flops_per_s("X1", "fp8") == 500e12


def test_an_entry_based_on_another_states_only_what_differs(own) -> None:
    own('[accelerators.H100-capped]\nbased_on = "H100-80GB"\nbf16_tflops_per_s = 800\ntdp_w = 500\n')
    entry = resolve_accelerator("H100-capped")
    assert (entry.bf16_flops_per_s, entry.tdp_w, entry.hbm_bytes_per_s) == (800e12, 500, 3.35e12)
    assert resolve_accelerator("H100").bf16_flops_per_s == pytest.approx(989.4e12)


def test_own_model_drops_the_published_count_of_its_base(own) -> None:
    own('[models.my-7b]\nbased_on = "llama2-7b"\nnum_layers = 36\n')
    preset = resolve_model("my-7b")
    assert (preset.num_layers, preset.hidden_size, preset.published_params) == (36, 4096, None)


def test_own_entry_wins_over_the_packaged_one(own) -> None:
    own('[accelerators.H100-80GB]\nbased_on = "H100-80GB"\nhbm_gib_usable = 70\n')
    assert resolve_accelerator("H100-80GB").hbm_bytes == 70 * 2**30


def test_several_files_and_csv(own, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = own(WHOLE)
    second = tmp_path / "models.csv"
    second.write_text(
        "name,num_layers,hidden_size,ffn_hidden_size,num_heads,num_kv_heads,head_dim,vocab_size,max_seq_len,"
        "gated_mlp,tied_embeddings,attention,sources\n"
        "tiny,2,64,256,4,4,16,1000,128,true,false,mha,own\n"
    )
    monkeypatch.setenv("SURROGATE_CATALOG", os.pathsep.join([str(first), str(second)]))
    assert resolve_accelerator("X1").name == "X1"
    assert resolve_model("tiny").gated_mlp is True


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (WHOLE.replace("gpus_per_node", "gpu_per_node"), "did you mean gpus_per_node"),
        (WHOLE.replace("hbm_gib_usable = 100\n", ""), r"X1\.hbm_gib_usable` must be given"),
        (WHOLE.replace("bf16_tflops_per_s = 500\n", ""), "or another dense peak"),
        (WHOLE.replace("400", "-400", 1), "greater than 0"),
        (WHOLE.replace("sources", "source"), "did you mean sources"),
        ('[accelerators.Y]\nbased_on = "Z100"\n', "must name one of the catalogue's accelerators, got 'Z100'"),
        ('[models.m]\nbased_on = "llama2-7b"\nattention = "linear"\n', r"models\.m\.attention"),
    ],
)
def test_bad_entry_is_one_clear_error(own, text: str, message: str) -> None:
    own(text)
    with pytest.raises(InputError, match=message):
        resolve_model("llama2-7b") if "models" in text else resolve_accelerator("H100")


@pytest.mark.parametrize(
    ("text", "name", "message"),
    [
        ("[accelerators", "a.toml", "is not TOML"),
        ("[gpus.X]\n", "a.toml", r"must hold \[accelerators"),
        ("accelerators = 3\n", "a.toml", "one table per name"),
        ("a,b\n1,2\n", "a.csv", "must have the columns"),
        ("", "a.csv", "must have the columns"),
    ],
)
def test_bad_file_is_one_clear_error(own, text: str, name: str, message: str) -> None:
    own(text, name)
    with pytest.raises(FileFormatError, match=message):
        resolve_accelerator("H100")


def test_missing_and_binary_files(own, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SURROGATE_CATALOG", str(tmp_path / "none.toml"))
    with pytest.raises(FileFormatError, match="cannot read"):
        resolve_accelerator("H100")
    own("").write_bytes(b"\xff\xfe\x00\x01")
    with pytest.raises(FileFormatError, match="cannot read"):
        resolve_accelerator("H100")
