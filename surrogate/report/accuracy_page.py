"""One interactive page on a training's accuracy: every run can be pointed at."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from surrogate.report.accuracy_data import AccuracyData

_HOVER: Final = ["run_id", "source", "accelerator", "num_gpus"]


def accuracy_page(data: AccuracyData, title: str) -> str:
    """Return an HTML page that needs no network."""
    import plotly.io

    figures = [_scatter(data), _errors(data)]
    parts = [
        plotly.io.to_html(figure, include_plotlyjs=position == 0, full_html=False, div_id=f"figure-{position}")
        for position, figure in enumerate(figures)
    ]
    style = "body{font-family:sans-serif;margin:2rem auto;max-width:1100px}"
    head = f'<meta charset="utf-8"><title>{title}</title><style>{style}</style>'
    return f"<!doctype html><html><head>{head}</head><body><h1>{title}</h1>{''.join(parts)}</body></html>"


def _scatter(data: AccuracyData) -> Any:
    import plotly.graph_objects as go

    rows = data.rows
    times = rows[["measured_step_time_s", "step_time_s"]].to_numpy(dtype=np.float64)
    limits = [float(times.min()), float(times.max())]
    figure = go.Figure(go.Scatter(x=limits, y=limits, mode="lines", line={"color": "#999"}, showlegend=False))
    for family, part in rows.groupby(rows["publisher_family"].fillna("unknown")):
        figure.add_trace(_points(part, str(family), part["measured_step_time_s"], part["step_time_s"]))
    figure.update_xaxes(type="log", title="measured step time [s]")
    figure.update_yaxes(type="log", title="predicted out of sample [s]")
    return figure.update_layout(title="Measured against predicted", template="plotly_white", height=650)


def _errors(data: AccuracyData) -> Any:
    import plotly.graph_objects as go

    figure = go.Figure()
    for family, part in data.rows.groupby(data.rows["publisher_family"].fillna("unknown")):
        figure.add_trace(_points(part, str(family), part["num_gpus"], 100.0 * np.expm1(part["log_error"])))
    figure.add_hline(y=0.0, line_color="#999")
    figure.update_xaxes(type="log", title="accelerators")
    figure.update_yaxes(title="error [%], positive when predicted too slow")
    return figure.update_layout(title="Error by scale", template="plotly_white", height=550)


def _points(part: Any, name: str, x: Any, y: Any) -> Any:
    import plotly.graph_objects as go

    texts = part[_HOVER].astype(str).agg("<br>".join, axis=1)
    return go.Scattergl(
        x=x.to_numpy(dtype=np.float64),
        y=y.to_numpy(dtype=np.float64),
        mode="markers",
        name=name,
        text=texts,
        marker={"size": 5, "opacity": 0.6},
        hovertemplate="%{text}<br>%{x:.4g}, %{y:.4g}<extra></extra>",
    )
