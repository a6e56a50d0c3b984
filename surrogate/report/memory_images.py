"""Pictures of how well memory and its risk are predicted out of sample."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from surrogate.units import GIB

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

    from surrogate.evaluation.memory_protocol import MemoryEvaluation

_BLUE, _ORANGE, _GREY, _BAND = "#2563a8", "#d9822b", "#8a8f98", "#e6edf5"
_PART_COLOURS: Final = ("#2a9d8f", "#9b5de5")
_TICKS_GIB: Final = (1, 2, 5, 10, 20, 50, 100, 200, 500)
_GOAL_GAP: Final = 0.07
"""Predicted and observed frequency should agree as well."""
_FEWEST_ROWS: Final = 50
_NORMAL_95: Final = 1.96
_TITLES: Final = {
    "grouped": "five folds, configurations kept whole",
    "leave-one-source-out": "source never seen",
}


def memory_artifacts(evaluation: MemoryEvaluation) -> dict[str, bytes]:
    """Return PNG files by path: the reliability diagram (where runs went out of memory) and the peaks.

    Parameters
    ----------
    evaluation : MemoryEvaluation
        From `surrogate.evaluation.memory_protocol.evaluate_memory`.
    """
    files = {}
    if not evaluation.reliability.empty:
        files["plots/memory_reliability.png"] = _drawn(evaluation, _draw_reliability, 2)
    if not evaluation.peaks.empty:
        files["plots/memory_peak.png"] = _drawn(evaluation, _draw_peaks, 1)
    return files


def wilson_interval(hits: float, total: float) -> tuple[float, float]:
    """Return the 95 % interval of a frequency (Wilson 1927).

    Examples
    --------
    >>> low, high = wilson_interval(5, 10)
    >>> round(low, 3), round(high, 3)
    (0.237, 0.763)
    """
    z2, share = _NORMAL_95**2, hits / total
    middle = (share + z2 / (2.0 * total)) / (1.0 + z2 / total)
    half = _NORMAL_95 * np.sqrt(share * (1.0 - share) / total + z2 / (4.0 * total**2)) / (1.0 + z2 / total)
    return float(max(0.0, middle - half)), float(min(1.0, middle + half))


def _drawn(evaluation: MemoryEvaluation, draw: Any, rows: int) -> bytes:
    """Draw one column of axes per split: the upper one tall, a lower one (if any) flat."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    splits = list(dict.fromkeys(evaluation.rows["protocol"]))
    figure = Figure(figsize=(6.4 * len(splits), 5.6 + 1.6 * (rows - 1)), layout="constrained")
    FigureCanvasAgg(figure)
    grid = figure.subplots(rows, len(splits), squeeze=False, height_ratios=[5.2, 1.6][:rows])
    for column, split in enumerate(splits):
        for axes in grid[:, column]:
            axes.spines[["top", "right"]].set_visible(False)
        draw(grid[:, column], evaluation, split)
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=110)
    return buffer.getvalue()


def _draw_reliability(grid: Any, evaluation: MemoryEvaluation, split: str) -> None:
    table = evaluation.reliability
    slices = dict(iter(table[table["protocol"] == split].groupby("slice", sort=False)))
    if "all" not in slices:
        return
    upper, lower = grid
    _draw_diagonal(upper)
    fifths = slices.pop("all")
    for colour, (name, part) in zip(_PART_COLOURS, slices.items(), strict=False):
        upper.plot(part["mean_risk"], part["observed_frequency"], ".--", color=colour, linewidth=0.9, label=name)
    _draw_fifths(upper, fifths)
    _draw_rule_of_thumb(upper, evaluation.rows[evaluation.rows["protocol"] == split])
    upper.set(xlim=(-0.03, 1.03), ylim=(-0.03, 1.24), ylabel="share that did run out", yticks=np.linspace(0.0, 1.0, 6))
    upper.set_title(f"{_TITLES.get(split, split)}\n{_verdict(evaluation.outcomes, split)}", fontsize=9)
    upper.legend(frameon=False, loc="upper left", fontsize=8, ncols=2)
    middle = 0.5 * (fifths["from_risk"] + fifths["to_risk"])
    bars = lower.bar(middle, fifths["rows"], 0.19, color=_BLUE)
    lower.bar_label(bars, fmt="{:,.0f}", fontsize=8)
    lower.margins(y=0.25)
    lower.set(xlim=(-0.03, 1.03), xlabel="predicted risk of running out of memory", ylabel="runs")


def _draw_diagonal(axes: Axes) -> None:
    ends = np.array([0.0, 1.0])
    axes.fill_between(ends, ends - _GOAL_GAP, ends + _GOAL_GAP, color=_BAND, label=f"within {_GOAL_GAP:g}")
    axes.plot(ends, ends, color=_GREY, linewidth=1.0)


def _draw_fifths(axes: Axes, fifths: pd.DataFrame) -> None:
    """Draw observed against predicted frequency with its 95 % interval; hollow where runs are too few to judge."""
    risk, share = fifths["mean_risk"].to_numpy(), fifths["observed_frequency"].to_numpy()
    rows = fifths["rows"].to_numpy()
    limits = np.array([wilson_interval(hits, total) for hits, total in zip(share * rows, rows, strict=True)])
    axes.vlines(risk, limits[:, 0], limits[:, 1], color=_BLUE, linewidth=1.2)
    enough = rows >= _FEWEST_ROWS
    axes.plot(risk, share, "-", color=_BLUE, linewidth=0.8, alpha=0.5)
    axes.plot(risk[enough], share[enough], "o", color=_BLUE, label="model, by fifth of risk; bar: 95 % interval")
    if not enough.all():
        axes.plot(
            risk[~enough], share[~enough], "o", color=_BLUE, markerfacecolor="white", label=f"below {_FEWEST_ROWS} runs"
        )


def _draw_rule_of_thumb(axes: Axes, rows: pd.DataFrame) -> None:
    """Draw how often runs went out of memory that 16 bytes per parameter call safe (at 0), or too large (at 1)."""
    reporting = rows.groupby("source")["out_of_memory"].transform("any")
    judged = rows[reporting]
    refused = judged["naive_fill_fraction"] > 1.0
    for risk, part, verdict in ((0.0, judged[~refused], "fits"), (1.0, judged[refused], "does not fit")):
        if len(part):
            label = f"16 bytes per parameter: {len(part):,} times `{verdict}`"
            axes.plot(risk, part["out_of_memory"].mean(), "D", color=_ORANGE, markersize=6, label=label)


def _verdict(outcomes: pd.DataFrame, split: str) -> str:
    whole = outcomes[(outcomes["protocol"] == split) & (outcomes["slice"] == "all")].set_index("method")
    model, naive = whole.loc["model"], whole.drop(index="model").iloc[0]
    return (
        f"AUC {model['roc_auc']:.3f}, Brier {model['brier']:.3f}, "
        f"right {model['accuracy']:.1%}, at 5 % risk {model['accuracy_at_5_percent_risk']:.1%}\n"
        f"(16 bytes per parameter: AUC {naive['roc_auc']:.3f}, Brier {naive['brier']:.3f}, "
        f"right {naive['accuracy']:.1%})"
    )


def _draw_peaks(grid: Any, evaluation: MemoryEvaluation, split: str) -> None:
    from matplotlib.ticker import FixedLocator, NullLocator

    (axes,) = grid
    rows = evaluation.rows[(evaluation.rows["protocol"] == split) & evaluation.rows["measured_peak_bytes"].notna()]
    scores = evaluation.peaks[(evaluation.peaks["protocol"] == split) & (evaluation.peaks["slice"] == "all")].iloc[0]
    measured, predicted, naive = (
        rows[name].to_numpy() / GIB for name in ("measured_peak_bytes", "predicted_peak_bytes", "naive_bytes")
    )
    limits = np.array([min(measured.min(), predicted.min()), max(measured.max(), predicted.max())])
    axes.loglog(limits, limits, color=_GREY, linewidth=1.0)
    axes.loglog(measured, naive, ".", color=_ORANGE, markersize=3.0, alpha=0.4, label="16 bytes per parameter")
    axes.loglog(measured, predicted, ".", color=_BLUE, markersize=4.0, alpha=0.6, label="model")
    axes.set(xlabel="measured peak [GiB]", ylabel="predicted out of sample [GiB]")
    axes.set_ylim(limits[0] / 2.0, limits[1] * 1.5)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(FixedLocator(_TICKS_GIB))
        axis.set_major_formatter("{x:g}")
        axis.set_minor_locator(NullLocator())
    title = f"{len(rows):,} runs, off by {scores['mape']:.1%} on average (rule {scores['naive_mape']:.0%})"
    axes.set_title(f"{_TITLES.get(split, split)}\n{title}", fontsize=9)
    axes.legend(frameon=False, loc="upper left", fontsize=8, markerscale=2.0)
