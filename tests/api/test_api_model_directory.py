"""Model directories: found in order, written whole, and every damage noticed."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from surrogate import api
from surrogate.api.manifest import FORMAT, MANIFEST_FILE, read_manifest
from surrogate.api.model_directory import MODEL_DIR_VARIABLE, Origin, directory_replaced_atomically, locate_model
from surrogate.errors import ModelDirectoryError


@pytest.fixture
def copied(model_dir: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(model_dir, tmp_path / "model"))


def test_the_argument_comes_first_then_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    one, two = tmp_path / "one", tmp_path / "two"
    for folder in (one, two):
        folder.mkdir()
    monkeypatch.setenv(MODEL_DIR_VARIABLE, str(two))
    assert locate_model(one) == (one, Origin.ARGUMENT)
    assert locate_model() == (two, Origin.ENVIRONMENT)
    with pytest.raises(ModelDirectoryError, match="no such model directory"):
        locate_model(tmp_path / "three")


def test_the_manifest_tells_where_a_model_comes_from(model_dir: Path):
    manifest = read_manifest(model_dir)
    assert manifest.name.startswith("surrogate-0.")
    assert len(str(manifest.data["digest"])) == 64
    assert manifest.data["measured"] > 0
    assert manifest.sites["torchtitan-perf-2024"] == ("meta-torchtitan",)
    assert {"numpy", "xgboost", "python"} <= manifest.libraries.keys()
    assert {name.split("/")[0] for name in manifest.files} == {"step_time", "memory"}


def test_every_file_is_guarded(copied: Path):
    for name in read_manifest(copied).files:
        path = copied / name
        content = path.read_bytes()
        for damage in (content[: len(content) // 2], content[:-1] + bytes([content[-1] ^ 1]), b""):
            path.write_bytes(damage)
            with pytest.raises(ModelDirectoryError, match=r"truncated or was altered") as caught:
                api.load_predictor(copied)
            assert len(str(caught.value).splitlines()) == 1
        path.unlink()
        with pytest.raises(ModelDirectoryError, match="is missing"):
            api.load_predictor(copied)
        path.write_bytes(content)
    assert api.load_predictor(copied).origin is Origin.ARGUMENT


@pytest.mark.parametrize("content", ["", "{", "[]", "null", '{"format": 1}', '{"format": 1, "sites": [], "x": 2}'])
def test_a_damaged_manifest_is_one_line(copied: Path, content: str):
    (copied / MANIFEST_FILE).write_text(content)
    with pytest.raises(ModelDirectoryError) as caught:
        api.load_predictor(copied)
    assert len(str(caught.value).splitlines()) == 1
    assert "train it again" in str(caught.value)


def test_another_version_is_refused(copied: Path):
    manifest = json.loads((copied / MANIFEST_FILE).read_text())
    (copied / MANIFEST_FILE).write_text(json.dumps(manifest | {"format": FORMAT + 1}))
    with pytest.raises(ModelDirectoryError, match=f"model format {FORMAT + 1}, this version reads format {FORMAT}"):
        api.load_predictor(copied)


@pytest.mark.parametrize("name", ["step_time/hybrid.json", "memory/memory_model.json"])
def test_a_part_of_another_version_is_refused(copied: Path, name: str):
    content = json.loads((copied / name).read_text())
    key = next(key for key in content if key.startswith("format"))
    (copied / name).write_text(json.dumps(content | {key: 99}))
    with pytest.raises(ModelDirectoryError):
        api.load_predictor(copied)


def test_a_folder_that_is_no_model(tmp_path: Path):
    with pytest.raises(ModelDirectoryError, match=r"not a model directory"):
        api.load_predictor(tmp_path)


def test_a_directory_is_replaced_whole_or_not_at_all(tmp_path: Path):
    target = tmp_path / "model"
    with directory_replaced_atomically(target) as fresh:
        (fresh / MANIFEST_FILE).write_text("first")
    with pytest.raises(ZeroDivisionError), directory_replaced_atomically(target) as fresh:
        (fresh / MANIFEST_FILE).write_text("half")
        raise ZeroDivisionError
    assert (target / MANIFEST_FILE).read_text() == "first"
    with directory_replaced_atomically(target) as fresh:
        (fresh / MANIFEST_FILE).write_text("second")
    assert (target / MANIFEST_FILE).read_text() == "second"
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


@pytest.mark.parametrize("kind", ["file", "folder"])
def test_what_is_no_model_is_not_replaced(tmp_path: Path, kind: str):
    target = tmp_path / "model"
    if kind == "file":
        target.write_text("mine")
    else:
        target.mkdir()
        (target / "mine.txt").write_text("mine")
    with pytest.raises(ModelDirectoryError), directory_replaced_atomically(target):
        pass
    assert target.exists()
