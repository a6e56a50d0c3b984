"""Scores of memory as tables: the peak's errors, and the verdict whether a run fits, beside the rule of thumb."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from surrogate.cli.evaluation_tables import fraction, number
from surrogate.cli.output import console, plain_table

if TYPE_CHECKING:
    import pandas as pd

    from surrogate.evaluation.memory_protocol import MemoryEvaluation

_MODEL = "model"
_LEGEND = "rule: 16 bytes per parameter; right in %, by even odds and at 5 % risk"


def print_memory_scores(memory: MemoryEvaluation) -> None:
    """Print one table of peaks and one of verdicts per split, in percent where nothing else is said."""
    screen = console()
    for split, peaks in memory.peaks.groupby("protocol", sort=False):
        screen.print(plain_table(*peak_rows(peaks), title=f"peak memory, {split}: errors in %, the bias in logs"))
    if memory.outcomes.empty:
        return
    for split, outcomes in memory.outcomes.groupby("protocol", sort=False):
        screen.print(plain_table(*outcome_rows(outcomes), title=f"does it fit? {split}; {_LEGEND}"))


def peak_rows(peaks: pd.DataFrame) -> tuple[Sequence[str], list[list[str]]]:
    """Return header and rows of the peaks' errors of one split."""
    header = ("part", "runs", "MAPE", "median", "90th", "bias", "in 90 %", "rule")
    rows = [
        [
            str(record["slice"]),
            str(record["rows"]),
            fraction(record["mape"]),
            fraction(record["median_ape"]),
            fraction(record["p90_ape"]),
            number(record["mean_log"], "{:+.3f}"),
            fraction(record["coverage_90"], digits=0),
            fraction(record["naive_mape"], digits=0),
        ]
        for record in peaks.to_dict(orient="records")
    ]
    return header, rows


def outcome_rows(outcomes: pd.DataFrame) -> tuple[Sequence[str], list[list[str]]]:
    """Return header and rows of the verdicts of one split, the model's and the rule's side by side."""
    header = ("part", "runs", "out", "AUC, rule", "Brier, rule", "right, rule", "at 5 %", "missed")
    model = outcomes[outcomes["method"] == _MODEL].to_dict(orient="records")
    naive = {record["slice"]: record for record in outcomes[outcomes["method"] != _MODEL].to_dict(orient="records")}
    return header, [_outcome_row(record, naive[record["slice"]]) for record in model]


def _outcome_row(model: Mapping[Any, Any], naive: Mapping[Any, Any]) -> list[str]:
    pairs = (("roc_auc", number), ("brier", number), ("accuracy", fraction))
    return [
        str(model["slice"]),
        str(model["rows"]),
        str(model["out_of_memory"]),
        *(f"{form(model[figure])} {form(naive[figure])}" for figure, form in pairs),
        fraction(model["accuracy_at_5_percent_risk"]),
        str(model["missed_at_5_percent_risk"]),
    ]
