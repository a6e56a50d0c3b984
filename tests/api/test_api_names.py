"""The public names: all there; and predicting does not wait for what it does not need."""

from __future__ import annotations

import subprocess
import sys

import pytest

from surrogate import api

PREDICTING = """
import sys
from surrogate import api
api.load_predictor, api.predict, api.read_plans
unwanted = ("surrogate.evaluation", "surrogate.feasibility", "surrogate.ingest", "plotly", "mlflow")
print(*(name for name in unwanted if name in sys.modules))
"""


@pytest.mark.parametrize("name", api.__all__)
def test_every_public_name_exists(name: str):
    assert getattr(api, name).__module__.startswith("surrogate.api.")


def test_predicting_imports_no_evaluation_and_no_plots():
    done = subprocess.run([sys.executable, "-c", PREDICTING], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""


def test_any_other_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="nobody"):
        _ = api.nobody
