"""The shipped table, built once."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from surrogate.derive import build_runs

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def sources_dir() -> Path:
    return ROOT / "data" / "sources"


@pytest.fixture(scope="session")
def shipped(sources_dir: Path) -> pd.DataFrame:
    return build_runs(sources_dir)
