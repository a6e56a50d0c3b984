"""What accuracy plots show, as tables, and that they can be drawn."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from surrogate.features.ratios import FEATURES
from surrogate.report.accuracy import accuracy_artifacts
from surrogate.report.accuracy_data import accuracy_data, coverage_by_family, errors_by_scale


def predictions() -> pd.DataFrame:
    gpus = np.array([1, 8, 8, 64, 64, 1024, 4096, 8192], dtype=np.float64)
    measured = np.linspace(1.0, 8.0, 8)
    predicted = measured * np.array([1.1, 0.9, 1.0, 1.2, 0.8, 1.0, 1.0, 1.5])
    return pd.DataFrame(
        {
            "method": "hybrid", "run_id": [f"r{row}" for row in range(8)], "source": "s",
            "publisher_family": ["a"] * 6 + ["b", None], "accelerator": "H100-80GB", "num_gpus": gpus,
            "measured_step_time_s": measured, "step_time_s": predicted, "step_time_lower_s": predicted * 0.85,
            "step_time_upper_s": predicted * 1.15, "log_error": np.log(predicted / measured),
        }
    )  # fmt: skip


def result() -> SimpleNamespace:
    booster = SimpleNamespace(get_score=lambda importance_type: {"f0": 3.0, "f1": 1.0, f"f{len(FEATURES)}": 4.0})
    residual = SimpleNamespace(booster_=SimpleNamespace(get_booster=lambda: booster))
    score = {"slice": "all", "mape": 0.1, "median_ape": 0.05, "source_mape": 0.2}
    scores = pd.DataFrame([score | {"method": name} for name in ("hybrid", "constant MFU")])
    return SimpleNamespace(
        evaluation=SimpleNamespace(predictions=predictions(), scores=scores),
        predictor=SimpleNamespace(step_time=SimpleNamespace(residual_=residual)),
        manifest=SimpleNamespace(name="surrogate-test"),
    )


def test_errors_are_grouped_by_scale():
    table = errors_by_scale(predictions())
    assert table["accelerators"].tolist() == ["1 to 7", "8 to 15", "64 to 255", "1,024 to 4,095", "4,096+"]
    assert table["rows"].tolist() == [1, 2, 2, 1, 2]
    assert table["p50"].iloc[1] == pytest.approx(np.log(0.9) / 2.0)


def test_coverage_is_of_families_with_enough_rows():
    """Of the six rows of family a, those 20 % off lie outside an interval of 15 %."""
    table = coverage_by_family(predictions())
    assert table["publisher_family"].tolist() == ["a"]
    assert table["coverage"].tolist() == [pytest.approx(4 / 6)]


def test_importance_is_a_share_by_name():
    data = accuracy_data(result())  # type: ignore[arg-type]
    assert data is not None
    assert data.importance["share"].tolist() == [0.5, 0.375, 0.125]
    assert data.importance["feature"].tolist()[1:] == list(FEATURES[:2])


def test_every_picture_is_drawn_and_the_page_needs_no_network():
    files = accuracy_artifacts(result())  # type: ignore[arg-type]
    pictures = {name: content for name, content in files.items() if name.endswith(".png")}
    assert len(pictures) == 5
    assert all(isinstance(content, bytes) and content.startswith(b"\x89PNG") for content in pictures.values())
    page = files["plots/accuracy.html"]
    assert isinstance(page, str)
    assert "r7" in page
    assert 'src="http' not in page


def test_a_training_without_figures_has_no_pictures():
    assert accuracy_artifacts(SimpleNamespace(evaluation=None)) == {}  # type: ignore[arg-type]
