"""Evaluations as markdown for the READMEs of experiments."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import pandas as pd

from surrogate.evaluation import Evaluation
from surrogate.experiments.goals import goal_table

_MARKS: Final = {"better": " +", "not worse": "", "worse": " !"}
_IN_PERCENT: Final = ("mape", "median_ape", "p90_ape", "source_mape", "coverage", "source_coverage", "regret")


def evaluation_markdown(evaluation: Evaluation, method: str) -> str:
    """Return the figures of one method, beside baselines and goals, with its largest errors."""
    parts = [
        f"Errors of the {method}, out of sample:",
        figures_table(evaluation, method),
        "MAPE with equal weight per source (+ the method is better, ! worse: beyond a 95 % paired bootstrap over "
        "publisher families on shared rows):",
        baselines_table(evaluation, "source_mape"),
        "The same over rows:",
        baselines_table(evaluation, "mape"),
        "MAPE over rows by part of the runs:",
        parts_table(evaluation, method),
        "Sources with the largest mean error:",
        largest_errors_table(evaluation, method),
    ]
    goals = goal_table(evaluation)
    if not goals.empty:
        parts += ["Goals:", goals_table(goals)]
    return "\n\n".join(parts)


def figures_table(evaluation: Evaluation, method: str) -> str:
    """Return a method's figures by protocol."""
    header = ("protocol", "rows", "MAPE", "median", "P90", "sources", "MAPE by source", "mean abs log", "bias of log",
              "in 90 % interval, by source", "interval score", "Spearman", "top-1 regret")  # fmt: skip
    table = evaluation.to_frame()
    rows = [
        (
            question(row),
            f"{row['rows']:,}",
            percent(row["mape"]),
            percent(row["median_ape"]),
            percent(row["p90_ape"]),
            str(row["sources"]),
            f"{percent(row['source_mape'])} ± {percent(row['source_mape_se'])}",
            decimal(row["source_mean_abs_log_error"]),
            decimal(row["source_mean_log_error"], sign="+"),
            percent(row["source_coverage"]),
            decimal(row["source_interval_score"]),
            decimal(row["spearman"]),
            percent(row["regret"]),
        )
        for row in table[table["method"] == method].to_dict(orient="records")
    ]
    return markdown_table(header, rows)


def baselines_table(evaluation: Evaluation, figure: str) -> str:
    """Return a figure of the first method beside that of each baseline on the rows that both predict."""
    table = evaluation.comparisons[evaluation.comparisons["figure"] == figure]
    baselines = list(dict.fromkeys(table["baseline"]))
    rows = []
    for (protocol, variant), part in table.groupby(["protocol", "variant"], sort=False):
        cells = {row["baseline"]: row for row in part.to_dict(orient="records")}
        widest = max(cells.values(), key=lambda row: int(row["rows"]))
        shown = [
            f"{percent(cells[name]['baseline_value'])}{_MARKS[cells[name]['verdict']]}" if name in cells else "-"
            for name in baselines
        ]
        rows.append((f"{protocol} {variant}".strip(), percent(widest["figure_value"]), *shown))
    return markdown_table(("protocol", str(table["method"].iloc[0]), *baselines), rows)


def parts_table(evaluation: Evaluation, method: str) -> str:
    """Return a method's MAPE over rows by part of the runs."""
    table = evaluation.scores[evaluation.scores["method"] == method]
    wide = table.pivot_table(index=["protocol", "variant"], columns="slice", values="mape", sort=False)
    names = list(dict.fromkeys(table["slice"]))
    rows = [
        (" ".join(map(str, key)).strip(), *(percent(row.get(name)) for name in names))
        for key, row in zip(wide.index, wide.to_dict(orient="records"), strict=True)
    ]
    return markdown_table(("protocol", *names), rows)


def largest_errors_table(evaluation: Evaluation, method: str) -> str:
    """Return the sources with the largest mean absolute log error by protocol, and their bias."""
    worst = evaluation.largest_errors(method)
    rows = []
    for (protocol, variant), part in worst.groupby(["protocol", "variant"], sort=False):
        names = [
            f"{row['source']} {row['mean_abs_log_error']:.2f} ({row['mean_log_error']:+.2f})"
            for row in part.to_dict(orient="records")
        ]
        rows.append((f"{protocol} {variant}".strip(), ", ".join(names)))
    return markdown_table(("protocol", "source: mean abs log error (bias)"), rows)


def goals_table(goals: pd.DataFrame) -> str:
    """Return goals with what was reached."""
    rows = []
    for row in goals.to_dict(orient="records"):
        form = percent if row["figure"] in _IN_PERCENT else decimal
        bound = f"{'>=' if row['at_least'] else '<='} {form(row['limit'])}"
        rows.append(
            (row["protocol"], row["part"], row["figure"], form(row["value"]), bound, "yes" if row["met"] else "no")
        )
    return markdown_table(("protocol", "rows", "figure", "reached", "goal", "met"), rows)


def markdown_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a markdown table."""
    lines = ["| " + " | ".join(cells) + " |" for cells in (header, *rows)]
    return "\n".join([lines[0], "|" + "---|" * len(header), *lines[1:]])


def question(row: Any) -> str:
    """Return a row's protocol and variant."""
    return f"{row['protocol']} {row['variant']}".strip()


def percent(value: float | None) -> str:
    """Return a fraction in percent, or a dash."""
    return "-" if value is None or pd.isna(value) else f"{100.0 * value:.1f} %"


def decimal(value: float | None, *, sign: str = "") -> str:
    """Return a number with three decimals, or a dash."""
    return "-" if value is None or pd.isna(value) else format(value, f"{sign}.3f")
