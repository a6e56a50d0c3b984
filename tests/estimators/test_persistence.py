"""A saved hybrid comes back as it was, or not at all."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import NotFittedError

from surrogate.errors import ModelDirectoryError
from surrogate.estimators.hybrid import HybridPredictor
from surrogate.estimators.persistence import ARRAYS, FORMAT_VERSION, HEADER, TREES


@pytest.fixture(scope="module")
def saved(hybrid, tmp_path_factory) -> Path:
    directory = tmp_path_factory.mktemp("model") / "step_time"
    hybrid.save(directory)
    return directory


@pytest.fixture(scope="module")
def loaded(saved) -> HybridPredictor:
    return HybridPredictor.load(saved)


@pytest.fixture
def copied(saved, tmp_path) -> Path:
    return Path(shutil.copytree(saved, tmp_path / "copy"))


class TestRoundTrip:
    def test_predictions_are_the_same(self, hybrid, loaded, measured_runs):
        before, after = (model.predict_frame(measured_runs) for model in (hybrid, loaded))
        exact = ["site_knowledge", "in_domain", "out_of_domain_reasons"]
        pd.testing.assert_frame_equal(before[exact], after[exact])
        numeric = before.columns.difference(exact)
        np.testing.assert_allclose(after[numeric], before[numeric], rtol=1e-9, atol=1e-12)

    def test_evidence_is_the_same(self, hybrid, loaded, plans):
        assert loaded.nearest_runs(plans.head(5)) == hybrid.nearest_runs(plans.head(5))

    def test_parameters_and_columns_are_the_same(self, hybrid, loaded):
        assert loaded.get_params() == hybrid.get_params()
        np.testing.assert_array_equal(loaded.feature_names_in_, hybrid.feature_names_in_)
        assert loaded.n_features_in_ == hybrid.n_features_in_
        assert loaded.categories_ == hybrid.categories_

    def test_own_rows_can_be_added_after_loading(self, hybrid, loaded, measured_runs):
        mine = measured_runs.head(6).assign(source="mine", publisher_family="mine")
        one, other = (model.condition(mine).predict(mine) for model in (hybrid, loaded))
        np.testing.assert_allclose(one, other, rtol=1e-9)

    def test_a_conditioned_predictor_can_be_saved(self, hybrid, measured_runs, tmp_path):
        taught = hybrid.condition(measured_runs.head(6).assign(source="mine", publisher_family="mine"))
        taught.save(tmp_path / "taught")
        np.testing.assert_allclose(
            HybridPredictor.load(tmp_path / "taught").predict(measured_runs), taught.predict(measured_runs), rtol=1e-9
        )

    def test_saving_again_writes_the_same_bytes(self, loaded, tmp_path):
        for name in ("one", "two"):
            HybridPredictor.load(loaded_copy(loaded, tmp_path / name))
        for file in (ARRAYS, TREES, HEADER):
            assert (tmp_path / "one" / file).read_bytes() == (tmp_path / "two" / file).read_bytes(), file

    def test_files_are_json_arrays_and_trees_only(self, saved):
        assert {path.name for path in saved.iterdir()} == {HEADER, ARRAYS, TREES}
        with np.load(saved / ARRAYS, allow_pickle=False) as archive:
            assert all(archive[name].dtype != object for name in archive.files)

    def test_saving_replaces_what_was_there(self, loaded, copied):
        loaded.save(copied)
        assert HybridPredictor.load(copied).n_features_in_ == loaded.n_features_in_


def loaded_copy(model: HybridPredictor, directory: Path) -> Path:
    model.save(directory)
    return directory


def rewrite_header(directory: Path, **changes: object) -> None:
    header = json.loads((directory / HEADER).read_text())
    (directory / HEADER).write_text(json.dumps(header | changes))


class TestCorruption:
    def test_directory_that_does_not_exist(self, tmp_path):
        with pytest.raises(ModelDirectoryError, match="train"):
            HybridPredictor.load(tmp_path / "nowhere")

    def test_file_in_place_of_a_directory(self, tmp_path):
        (tmp_path / "model").write_text("not a directory")
        with pytest.raises(ModelDirectoryError):
            HybridPredictor.load(tmp_path / "model")

    @pytest.mark.parametrize("file", [ARRAYS, TREES, HEADER])
    def test_missing_file(self, copied, file):
        (copied / file).unlink()
        with pytest.raises(ModelDirectoryError, match=file):
            HybridPredictor.load(copied)

    @pytest.mark.parametrize("file", [ARRAYS, TREES, HEADER])
    @pytest.mark.parametrize("share", [0.0, 0.5, 0.999])
    def test_truncated_file(self, copied, file, share):
        content = (copied / file).read_bytes()
        (copied / file).write_bytes(content[: int(share * len(content))])
        with pytest.raises(ModelDirectoryError, match=file):
            HybridPredictor.load(copied)

    @pytest.mark.parametrize("file", [ARRAYS, TREES])
    @pytest.mark.parametrize("share", [0.1, 0.9])
    def test_one_altered_byte(self, copied, file, share):
        content = bytearray((copied / file).read_bytes())
        content[int(share * len(content))] ^= 1
        (copied / file).write_bytes(content)
        with pytest.raises(ModelDirectoryError, match="altered"):
            HybridPredictor.load(copied)

    def test_one_altered_figure_of_the_header(self, copied):
        header = json.loads((copied / HEADER).read_text())
        header["scales"]["smooth"] *= 2.0
        (copied / HEADER).write_text(json.dumps(header))
        with pytest.raises(ModelDirectoryError, match="altered"):
            HybridPredictor.load(copied)

    @pytest.mark.parametrize("version", [0, FORMAT_VERSION - 1, FORMAT_VERSION + 1, "2", None])
    def test_other_version(self, copied, version):
        rewrite_header(copied, format_version=version)
        with pytest.raises(ModelDirectoryError, match="version"):
            HybridPredictor.load(copied)

    @pytest.mark.parametrize("names", ["coefficients", "features"])
    def test_other_analytic_model(self, copied, names):
        rewrite_header(copied, **{names: ["something", "else"]})
        with pytest.raises(ModelDirectoryError, match="another version"):
            HybridPredictor.load(copied)

    @pytest.mark.parametrize("text", ["", "not json", "[]", "{}", '{"format_version": 1}', "\x00\xff", "null"])
    def test_header_that_is_none(self, copied, text):
        (copied / HEADER).write_bytes(text.encode("latin-1"))
        with pytest.raises(ModelDirectoryError):
            HybridPredictor.load(copied)

    def test_digests_that_are_not_those_of_the_files(self, copied):
        rewrite_header(copied, sha256={})
        with pytest.raises(ModelDirectoryError):
            HybridPredictor.load(copied)


def test_an_unfitted_predictor_cannot_be_saved(tmp_path):
    with pytest.raises(NotFittedError):
        HybridPredictor().save(tmp_path / "model")
    assert not (tmp_path / "model").exists()
