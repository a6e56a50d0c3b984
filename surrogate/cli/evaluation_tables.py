"""An evaluation on the terminal: figures by protocol, baselines beside them, parts of the runs, memory."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import TYPE_CHECKING, Any, Final

import pandas as pd

from surrogate.cli.output import console, plain_table

if TYPE_CHECKING:
    from rich.table import Table

    from surrogate.evaluation import Evaluation

Record = Mapping[Hashable, Any]
UNKNOWN: Final = "-"
_WORST_SOURCES: Final = 3
_MARKS: Final = {"better": "+", "not worse": " ", "worse": "!"}
_SHORT_SLICES: Final = {
    "A100 sweeps": "sweeps",
    "without the sweeps": "others",
    "H100 and newer": "H100+",
    ">= 1,024 accelerators": ">=1024",
    "settings known": "known",
    "settings unknown": "unknown",
}
_SHORT: Final = {
    "analytic, calibrated": "analytic",
    "analytic, textbook": "textbook",
    "XGBoost on time/roofline": "XGB/roof",
    "XGBoost on raw knobs": "XGB raw",
    "nearest own run's MFU": "own MFU",
    "constant MFU": "MFU",
}


def print_evaluation(evaluation: Evaluation) -> None:
    """Print what the first method reaches, how the baselines compare, and its error by part of the runs."""
    screen = console()
    first = str(evaluation.scores["method"].iloc[0])
    screen.print(f"{first}: errors in percent over rows, then with equal weight per source")
    screen.print(error_table(evaluation, first))
    screen.print(f"{first}: 90 % intervals, and rankings of layouts")
    screen.print(interval_table(evaluation, first))
    if not evaluation.comparisons.empty:
        screen.print("MAPE over rows")
        screen.print(comparison_table(evaluation, "mape"))
        screen.print("MAPE with equal weight per source")
        screen.print(comparison_table(evaluation, "source_mape"))
        screen.print(f"+ {first} is better, ! worse: beyond a 95 % bootstrap over publisher families, on shared rows\n")
    screen.print(f"{first}: MAPE over rows by part of the runs")
    screen.print(slice_table(evaluation, first))
    screen.print(f"{first}: sources with the largest mean |log error|")
    screen.print(largest_errors_table(evaluation, first))


def error_table(evaluation: Evaluation, method: str) -> Table:
    """Return the table of one method's errors by protocol."""
    header = ("protocol", "rows", "MAPE", "median", "P90", "sources", "MAPE", "|log|", "bias")
    rows = [
        [
            question(record["protocol"], record["variant"]),
            f"{record['rows']:,}",
            fraction(record["mape"]),
            fraction(record["median_ape"]),
            fraction(record["p90_ape"]),
            str(record["sources"]),
            f"{fraction(record['source_mape'])} ±{fraction(record['source_mape_se'])}",
            number(record["source_mean_abs_log_error"]),
            number(record["source_mean_log_error"], "{:+.3f}"),
        ]
        for record in _whole(evaluation, method)
    ]
    return plain_table(header, rows)


def interval_table(evaluation: Evaluation, method: str) -> Table:
    """Return the table of one method's 90 % intervals and rankings by protocol."""
    header = ("protocol", "inside", "by source", "ln width", "score", "by source", "groups", "rho", "regret")
    groups = evaluation.rankings.set_index(["protocol", "variant", "method"])["groups"].to_dict()
    rows = [
        [
            question(record["protocol"], record["variant"]),
            fraction(record["coverage"]),
            fraction(record["source_coverage"]),
            number(record["mean_log_width"], "{:.2f}"),
            number(record["interval_score"], "{:.2f}"),
            number(record["source_interval_score"], "{:.2f}"),
            str(groups.get((record["protocol"], record["variant"], method), 0)),
            number(record["spearman"], "{:.2f}"),
            fraction(record["regret"]),
        ]
        for record in _whole(evaluation, method)
    ]
    return plain_table(header, rows)


def _whole(evaluation: Evaluation, method: str) -> list[dict[Hashable, Any]]:
    """Return one method's figures over all rows."""
    table = evaluation.to_frame()
    return table[table["method"] == method].to_dict(orient="records")


def comparison_table(evaluation: Evaluation, figure: str) -> Table:
    """Return the table that sets the first method beside each baseline, on the rows that both predict."""
    table = evaluation.comparisons[evaluation.comparisons["figure"] == figure]
    baselines = list(dict.fromkeys(table["baseline"]))
    first = str(table["method"].iloc[0])
    rows = []
    for (protocol, variant), part in table.groupby(["protocol", "variant"], sort=False):
        by_baseline = {record["baseline"]: record for record in part.to_dict(orient="records")}
        cells = [_comparison_cell(by_baseline.get(name)) for name in baselines]
        widest = max(by_baseline.values(), key=lambda record: int(record["rows"]))
        rows.append([question(protocol, variant), fraction(widest["figure_value"]), *cells])
    return plain_table(("protocol", first, *(_SHORT.get(name, name) for name in baselines)), rows)


def _comparison_cell(record: Record | None) -> str:
    if record is None:
        return UNKNOWN
    return f"{fraction(record['baseline_value'])} {_MARKS[str(record['verdict'])]}"


def slice_table(evaluation: Evaluation, method: str) -> Table:
    """Return the table of MAPE over rows by protocol and part of the runs."""
    table = evaluation.scores[evaluation.scores["method"] == method]
    parts = [name for name in dict.fromkeys(table["slice"]) if name != "all"]
    wide = table.pivot_table(index=["protocol", "variant"], columns="slice", values="mape", sort=False)
    rows = [
        [question(*key), *(fraction(record.get(name)) for name in parts)]
        for key, record in zip(wide.index, wide.to_dict(orient="records"), strict=True)
    ]
    header = ("protocol", *(_SHORT_SLICES.get(name, name) for name in parts))
    return plain_table(header, rows)


def largest_errors_table(evaluation: Evaluation, method: str) -> Table:
    """Return the table of the sources that a method errs most on, by protocol."""
    worst = evaluation.largest_errors(method, _WORST_SOURCES)
    rows = []
    for key, part in worst.groupby(["protocol", "variant"], sort=False):
        sources = part.to_dict(orient="records")
        shown = [f"{source['source']} {number(source['mean_abs_log_error'], '{:.2f}')}" for source in sources]
        rows.append([question(*key), ", ".join(shown)])
    return plain_table(("protocol", "worst first"), rows, texts=2)


def question(protocol: object, variant: object) -> str:
    """Return a protocol with its variant."""
    return f"{protocol} {variant}".strip()


def fraction(value: float | None, *, digits: int = 1) -> str:
    """Return a fraction in percent without the sign for it, or a dash.

    Examples
    --------
    >>> fraction(0.0456), fraction(None), fraction(0.9, digits=0)
    ('4.6', '-', '90')
    """
    return number(value, f"{{:.{digits}f}}", scale=100.0)


def number(value: float | None, form: str = "{:.3f}", *, scale: float = 1.0) -> str:
    """Return a formatted number, or a dash where there is none."""
    return UNKNOWN if value is None or pd.isna(value) else form.format(value * scale)
