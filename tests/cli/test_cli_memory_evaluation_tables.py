"""Scores of memory as tables: what stands beside what."""

from __future__ import annotations

import pandas as pd

from surrogate.cli.memory_evaluation_tables import outcome_rows, peak_rows


def test_peaks_stand_beside_the_rule_s_error():
    peaks = pd.DataFrame([{
        "slice": "all", "rows": 280, "mape": 0.067, "median_ape": 0.04, "p90_ape": 0.166, "mean_log": -0.009,
        "coverage_90": 0.871, "naive_mape": 0.778,
    }])  # fmt: skip
    header, (row,) = peak_rows(peaks)
    assert len(header) == len(row)
    assert row == ["all", "280", "6.7", "4.0", "16.6", "-0.009", "87", "78"]


def test_verdicts_of_model_and_rule_share_a_row():
    model = {
        "slice": "all", "rows": 10, "out_of_memory": 4, "roc_auc": 0.9876, "brier": 0.04, "accuracy": 0.947,
        "accuracy_at_5_percent_risk": 0.88, "missed_at_5_percent_risk": 2, "method": "model",
    }  # fmt: skip
    naive = model | {"roc_auc": None, "brier": 0.5, "accuracy": 0.5, "method": "16 bytes per parameter"}
    header, (row,) = outcome_rows(pd.DataFrame([model, naive]))
    assert len(header) == len(row)
    assert row == ["all", "10", "4", "0.988 -", "0.040 0.500", "94.7 50.0", "88.0", "2"]
