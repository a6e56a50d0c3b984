"""Paths of the trace fixtures: one folder per oddity, all written for these tests.

`plain` is three steps of 300 us: a forward product of 60 us, a backward product of 80 us, an all-reduce of 50 us on a
stream of its own after the backward, and an optimizer kernel of 30 us that waits for it.
"""

import os
from pathlib import Path

import pytest

FIXTURES = Path(__file__).parent / "fixtures"


@pytest.fixture
def fixtures() -> Path:
    return FIXTURES


@pytest.fixture
def plain() -> Path:
    return FIXTURES / "plain" / "trace.json"


@pytest.fixture(scope="session")
def real_traces() -> Path:
    """Folder of public traces with their true values, where the environment names it."""
    folder = os.environ.get("SURROGATE_INPUTS")
    if not folder or not (Path(folder) / "traces").is_dir():
        pytest.skip("SURROGATE_INPUTS does not name a folder with traces")
    return Path(folder) / "traces"
