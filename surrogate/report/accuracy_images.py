"""Still pictures of a training's accuracy, for a glance in MLflow's list of artifacts."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

import numpy as np

from surrogate.report.accuracy_data import AccuracyData

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_BLUE, _ORANGE, _GREY = "#2563a8", "#d9822b", "#8a8f98"


def accuracy_images(data: AccuracyData) -> dict[str, bytes]:
    """Return PNG files by name: measured against predicted, error by scale, methods, coverage, importance."""
    drawings = {
        "measured_vs_predicted": _draw_scatter,
        "error_by_scale": _draw_scale,
        "methods": _draw_methods,
        "coverage_by_family": _draw_coverage,
        "importance": _draw_importance,
    }
    return {f"plots/{name}.png": _rendered(draw, data) for name, draw in drawings.items()}


def _rendered(draw: Any, data: AccuracyData) -> bytes:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure: Figure = Figure(figsize=(7.0, 5.0), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    axes.spines[["top", "right"]].set_visible(False)
    draw(axes, data)
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=110)
    return buffer.getvalue()


def _draw_scatter(axes: Axes, data: AccuracyData) -> None:
    measured = data.rows["measured_step_time_s"].to_numpy(dtype=np.float64)
    predicted = data.rows["step_time_s"].to_numpy(dtype=np.float64)
    limits = [min(measured.min(), predicted.min()), max(measured.max(), predicted.max())]
    axes.loglog(limits, limits, color=_GREY, linewidth=1.0)
    axes.loglog(measured, predicted, ".", color=_BLUE, markersize=3.0, alpha=0.5)
    error = np.median(np.abs(predicted / measured - 1.0))
    axes.set(
        xlabel="measured step time [s]",
        ylabel="predicted out of sample [s]",
        title=f"{len(measured):,} runs, half of them within {error:.1%}",
    )


def _draw_scale(axes: Axes, data: AccuracyData) -> None:
    table, place = data.by_scale, np.arange(len(data.by_scale))
    middle = np.expm1(table["p50"])
    low, high = middle - np.expm1(table["p10"]), np.expm1(table["p90"]) - middle
    axes.axhline(0.0, color=_GREY, linewidth=1.0)
    axes.errorbar(place, 100.0 * middle, 100.0 * np.array([low, high]), fmt="o", color=_BLUE, capsize=4.0)
    labels = [f"{label}\n{rows:,} runs" for label, rows in zip(table["accelerators"], table["rows"], strict=True)]
    axes.set_xticks(place, labels, fontsize=8)
    axes.set(xlabel="accelerators", ylabel="error [%]: median, 10th to 90th percentile", title="Error by scale")


def _draw_methods(axes: Axes, data: AccuracyData) -> None:
    table = data.by_method.iloc[::-1]
    place = np.arange(len(table))
    for shift, column, colour, label in (
        (0.2, "mape", _BLUE, "mean over runs"),
        (-0.2, "source_mape", _ORANGE, "mean over sources"),
    ):
        bars = axes.barh(place + shift, 100.0 * table[column], 0.38, color=colour, label=label)
        axes.bar_label(bars, fmt="%.1f", fontsize=8, padding=2)
    axes.set_yticks(place, table["method"])
    axes.set(xlabel="absolute error [%]", title="Against the baselines, same runs")
    axes.legend(frameon=False)


def _draw_coverage(axes: Axes, data: AccuracyData) -> None:
    table = data.by_family
    place = np.arange(len(table))
    axes.barh(place, 100.0 * table["coverage"], 0.7, color=_BLUE)
    axes.axvline(90.0, color=_ORANGE, linewidth=1.5)
    labels = [f"{name} ({rows})" for name, rows in zip(table["publisher_family"], table["rows"], strict=True)]
    axes.set_yticks(place, labels, fontsize=7)
    axes.set(xlabel="measured times inside the 90 % interval [%]", title="Coverage by publisher family (runs)")


def _draw_importance(axes: Axes, data: AccuracyData) -> None:
    table = data.importance.iloc[::-1]
    place = np.arange(len(table))
    axes.barh(place, 100.0 * table["share"], 0.7, color=_BLUE)
    axes.set_yticks(place, table["feature"], fontsize=8)
    axes.set(xlabel="share of the trees' gain [%]", title="What the residual looks at")
