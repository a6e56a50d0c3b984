"""The shipped table thinned out by source, and a hybrid fitted to it once."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from surrogate.derive import load_runs
from surrogate.estimators import HybridPredictor
from surrogate.estimators.hybrid import PreparedTable, prepare_table, site_data
from surrogate.estimators.site_data import SiteData
from surrogate.estimators.site_effects import SiteEffects
from surrogate.estimators.training_rows import noise_sd

RUNS = Path(__file__).parents[2] / "data" / "runs.parquet"
ROWS_PER_SOURCE = 6


@pytest.fixture(scope="session")
def measured_runs() -> pd.DataFrame:
    """Return at most six measured rows of each source, spread over its table; split groups are kept as they are."""
    runs = load_runs(RUNS)
    runs = runs[runs.measured_step_time_s.notna()]
    place = runs.groupby("source").cumcount()
    size = runs.groupby("source")["run_id"].transform("size")
    spread = np.ceil(size / ROWS_PER_SOURCE)
    return runs[place % spread == 0].reset_index(drop=True)


@pytest.fixture(scope="session")
def hybrid(measured_runs: pd.DataFrame) -> HybridPredictor:
    """Return a predictor fitted to `measured_runs`; tests must not change it."""
    return HybridPredictor(num_threads=1).fit(measured_runs)


@pytest.fixture(scope="session")
def plans(measured_runs: pd.DataFrame) -> pd.DataFrame:
    """Return one configuration per source, without what was measured and who measured it."""
    rows = measured_runs.groupby("source").head(1)
    inputs = [
        name for name in rows.columns if not name.startswith(("measured", "step_time", "tokens_per_s", "time_from"))
    ]
    return rows[inputs].drop(columns=["source", "publisher_family"]).reset_index(drop=True)


@pytest.fixture(scope="session")
def table(measured_runs: pd.DataFrame) -> PreparedTable:
    """Return `measured_runs` as the stages of the hybrid see them."""
    return prepare_table(measured_runs)


@pytest.fixture(scope="session")
def site_rows(table: PreparedTable) -> SiteData:
    """Return `measured_runs` as site effects take them."""
    seconds = table.runs.measured_step_time_s.to_numpy(dtype=np.float64)
    return site_data(table, np.log(seconds), noise_sd(table.runs))


@pytest.fixture(scope="session")
def effects(site_rows: SiteData) -> SiteEffects:
    """Return site effects fitted to `site_rows`; tests must not change them."""
    return SiteEffects().fit(site_rows)
