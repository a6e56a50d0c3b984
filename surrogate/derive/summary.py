"""What a table of runs covers: counts, ranges and what is missing."""

from __future__ import annotations

from typing import Final, NamedTuple

import pandas as pd

from surrogate.schema import INPUT_COLUMNS, table_digest

RANGE_COLUMNS: Final = (
    "num_params",
    "seq_len",
    "num_gpus",
    "tp",
    "pp",
    "cp",
    "dp",
    "ep",
    "micro_batch_size",
    "global_batch_size",
    "measured_step_time_s",
    "mfu_computed",
    "peak_memory_bytes",
)
COUNT_COLUMNS: Final = ("accelerator", "precision", "framework", "stack", "publisher_family", "quality", "time_from")


class RunsSummary(NamedTuple):
    """Coverage of one table."""

    rows: int
    measured: int
    """Rows with a step time."""
    oom: int
    duplicates: int
    split_groups: int
    dates: tuple[str, str] | None
    """First and last month."""
    digest: str
    """SHA-256 of names and values."""
    models: int
    """Distinct model names."""
    counts: dict[str, dict[str, int]]
    """Rows by value, most frequent first, for `COUNT_COLUMNS` and `source`."""
    ranges: dict[str, dict[str, float]]
    """Smallest, median and largest value of `RANGE_COLUMNS`, SI units; absent where all values are missing."""
    missing_fraction: dict[str, float]
    """Share of rows without a value, for input columns that some row has, largest first."""


def summarise_runs(runs: pd.DataFrame) -> RunsSummary:
    """Return what a table covers.

    Parameters
    ----------
    runs : DataFrame of shape (n, columns)
        With derived columns, as `load_runs` returns them.
    """
    dates = runs["date"].dropna()
    missing = runs[list(INPUT_COLUMNS)].isna().mean().sort_values(ascending=False, kind="stable")
    return RunsSummary(
        rows=len(runs),
        measured=int(runs["measured_step_time_s"].notna().sum()),
        oom=int((runs["status"] == "oom").sum()),
        duplicates=int(runs["duplicate_of"].notna().sum()),
        split_groups=runs["split_group"].nunique(),
        dates=(dates.min(), dates.max()) if len(dates) else None,
        digest=table_digest(runs),
        models=runs["model_name"].nunique(),
        counts={name: _counts(runs[name]) for name in ("source", *COUNT_COLUMNS)},
        ranges={name: _range(runs[name]) for name in RANGE_COLUMNS if runs[name].notna().any()},
        missing_fraction={str(name): float(share) for name, share in missing[missing < 1.0].items() if share > 0.0},
    )


def _counts(values: pd.Series) -> dict[str, int]:
    return {str(value): int(rows) for value, rows in values.value_counts().items()}


def _range(values: pd.Series) -> dict[str, float]:
    quantiles = values.dropna().astype("float64").quantile([0.0, 0.5, 1.0])
    return dict(zip(("min", "median", "max"), quantiles.tolist(), strict=True))
