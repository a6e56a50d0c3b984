"""The nearest measured runs: as an exhaustive comparison finds them, and a measured run at distance 0 from itself."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from surrogate.estimators.evidence import Evidence, nearest_evidence

DEVICES = np.array(["A100-80GB", "H100-80GB"], dtype=object)


def build_evidence(knobs: np.ndarray, device: np.ndarray) -> Evidence:
    rows = len(knobs)
    return Evidence(
        run_id=np.array([f"run-{row}" for row in range(rows)], dtype=object),
        source=np.full(rows, "source", dtype=object),
        accelerator=DEVICES[device],
        publisher_family=np.full(rows, "family", dtype=object),
        knobs=knobs,
        measured_step_time_s=np.arange(rows) + 1.0,
        predicted_step_time_s=np.arange(rows) + 1.5,
    )


def asked_for(device: np.ndarray) -> SimpleNamespace:
    return SimpleNamespace(hardware=SimpleNamespace(accelerator=pd.Categorical(DEVICES[device])))


@pytest.fixture
def known() -> Evidence:
    random = np.random.default_rng(0)
    return build_evidence(random.normal(size=(700, 9)) + 8.0, random.integers(0, 2, 700))


def test_as_an_exhaustive_comparison_finds_them(known: Evidence):
    random = np.random.default_rng(1)
    knobs, device = random.normal(size=(600, 9)) + 8.0, random.integers(0, 2, 600)
    found = nearest_evidence(known, knobs, asked_for(device), 3)
    for row, runs in enumerate(found):
        distance = np.linalg.norm(knobs[row] - known.knobs, axis=1) + 2.0 * (known.accelerator != DEVICES[device[row]])
        nearest = np.argsort(distance)[:3]
        assert [run["run_id"] for run in runs] == [f"run-{position}" for position in nearest]
        np.testing.assert_allclose([run["distance"] for run in runs], distance[nearest], rtol=1e-12)
        assert [run["measured_step_time_s"] for run in runs] == (nearest + 1.0).tolist()


def test_a_measured_run_lies_at_0_from_itself(known: Evidence):
    device = (known.accelerator == DEVICES[1]).astype(int)
    found = nearest_evidence(known, known.knobs, asked_for(device), 1)
    assert [(run[0]["run_id"], run[0]["distance"]) for run in found] == [(f"run-{row}", 0.0) for row in range(700)]


def test_of_equal_runs_the_first_comes_first():
    evidence = build_evidence(np.zeros((4, 2)), np.array([1, 0, 0, 0]))
    found = nearest_evidence(evidence, np.zeros((1, 2)), asked_for(np.array([0])), 3)[0]
    assert [run["run_id"] for run in found] == ["run-1", "run-2", "run-3"]


def test_fewer_runs_than_asked_for():
    evidence = build_evidence(np.zeros((2, 2)), np.array([0, 1]))
    found = nearest_evidence(evidence, np.ones((1, 2)), asked_for(np.array([1])), 5)[0]
    assert [(run["run_id"], round(run["distance"], 3)) for run in found] == [("run-1", 1.414), ("run-0", 3.414)]
