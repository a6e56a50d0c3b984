"""The trace report as one self-contained HTML page: breakdown by step, kernel classes, critical path."""

from __future__ import annotations

import html
from collections.abc import Sequence
from typing import Final

import plotly.graph_objects as go
from plotly.offline import get_plotlyjs

from surrogate.traces.critical_path import PathPart
from surrogate.traces.replay import Replay
from surrogate.traces.report import RankReport, TraceReport
from surrogate.units import MILLI

MAX_PATH_BARS: Final = 3000
"""Bars a browser draws without delay; of a longer path the shortest parts are left out, and said so."""
PARTS: Final = (
    ("exposed compute", "exposed_compute_s", "#2f6f9f"),
    ("overlapped", "overlapped_s", "#7aa6c2"),
    ("exposed communication", "exposed_communication_s", "#d1793b"),
    ("idle", "idle_s", "#d9d9d9"),
)
_COLOURS: Final = {
    "host": "#8c8c8c",
    "communication": "#d1793b",
    "matmul": "#2f6f9f",
    "attention": "#4c9f70",
    "convolution": "#355f8d",
    "norm": "#9c6fb0",
    "softmax": "#b07aa1",
    "embedding": "#c9a227",
    "optimizer": "#b5495b",
    "reduction": "#6b8e9e",
    "elementwise": "#59a5a5",
    "copy": "#a0a060",
    "memset": "#c0c090",
}
_OTHER_COLOUR: Final = "#bbbbbb"
_STYLE: Final = (
    "body{font:15px/1.5 system-ui,sans-serif;max-width:1100px;margin:2rem auto;padding:0 1rem;color:#222}"
    "table{border-collapse:collapse;margin:1rem 0}"
    "td,th{padding:.25rem .8rem;text-align:right;border-bottom:1px solid #ddd}"
    "td:first-child,th:first-child{text-align:left}h1{font-size:1.5rem}h2{font-size:1.15rem;margin-top:2rem}"
    ".note{color:#8a4b00}"
)


def render_trace_page(report: TraceReport, title: str = "Trace report") -> str:
    """Return the page as HTML text; it needs no network.

    Parameters
    ----------
    report : TraceReport
        From `surrogate.traces.analyse_traces`; the critical path is drawn when it was replayed.
    title : str
        Heading.
    """
    figures = [("Where the steps go", breakdown_figure(report.ranks)), ("Kernel classes", class_figure(report.ranks))]
    figures.append(("Share of time with a running device event", busy_figure(report.ranks)))
    if report.path:
        figures.append(("Critical path of one step, replayed", path_figure(report.path)))
    body = [f"<h1>{html.escape(title)}</h1>", _summary(report)]
    body += [f'<p class="note">{html.escape(note)}</p>' for note in report.notes]
    for heading, figure in figures:
        body.append(f"<h2>{heading}</h2>{figure.to_html(full_html=False, include_plotlyjs=False)}")
    if report.stragglers:
        rows = [
            (str(each.rank), f"{each.mean_lateness_s / MILLI:.3f} ms", f"{each.last_fraction:.0%}")
            for each in report.stragglers
        ]
        body.append("<h2>Stragglers</h2>" + _table(("rank", "mean lateness", "last to arrive"), rows))
    return (
        f'<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><title>{html.escape(title)}</title>'
        f"<style>{_STYLE}</style><script>{get_plotlyjs()}</script></head><body>{''.join(body)}</body></html>"
    )


def breakdown_figure(ranks: Sequence[RankReport]) -> go.Figure:
    """Return stacked bars of the four exclusive parts, ms, one bar per step and rank."""
    bars = [
        (f"rank {rank.rank if rank.rank is not None else '?'} · step {step.number}", step.window)
        for rank in ranks
        for step in rank.steps
    ] or [(f"rank {rank.rank if rank.rank is not None else '?'}", rank.whole) for rank in ranks]
    figure = go.Figure()
    for label, field, colour in PARTS:
        lengths = [getattr(occupancy, field) / MILLI for _, occupancy in bars]
        figure.add_bar(name=label, y=[name for name, _ in bars], x=lengths, orientation="h", marker_color=colour)
    figure.update_layout(barmode="stack", xaxis_title="ms", height=140 + 26 * len(bars), margin={"t": 20, "l": 140})
    figure.update_yaxes(autorange="reversed")
    return figure


def class_figure(ranks: Sequence[RankReport]) -> go.Figure:
    """Return device time by kernel class over the whole trace, ms, one bar series per rank."""
    figure = go.Figure()
    for rank in ranks:
        figure.add_bar(
            name=f"rank {rank.rank if rank.rank is not None else '?'}",
            x=[each.kernel_class for each in rank.classes],
            y=[each.total_s / MILLI for each in rank.classes],
        )
    figure.update_layout(yaxis_title="ms", height=360, margin={"t": 20}, showlegend=len(ranks) > 1)
    return figure


def busy_figure(ranks: Sequence[RankReport]) -> go.Figure:
    """Return the busy share over time, one line per rank; it says that something runs, not how well."""
    figure = go.Figure()
    for rank in ranks:
        width, shares = rank.busy_share
        figure.add_scatter(
            name=f"rank {rank.rank if rank.rank is not None else '?'}",
            x=[(place + 0.5) * width / MILLI for place in range(len(shares))],
            y=list(shares),
            mode="lines",
            line={"width": 1, "shape": "hvh"},
        )
    figure.update_layout(xaxis_title="ms", height=260, margin={"t": 20}, showlegend=len(ranks) > 1)
    figure.update_yaxes(range=[0, 1.02], tickformat=".0%")
    return figure


def path_figure(path: Sequence[PathPart]) -> go.Figure:
    """Return the critical path as a timeline: one row per thread or stream, one bar per task."""
    begin = path[0].start_s
    drawn = sorted(path, key=lambda part: part.start_s - part.end_s)[:MAX_PATH_BARS]
    figure = go.Figure()
    for kind in dict.fromkeys(part.kind for part in drawn):
        own = [part for part in drawn if part.kind == kind]
        figure.add_bar(
            name=kind,
            orientation="h",
            y=[f"rank {part.rank} · {part.lane}" for part in own],
            base=[(part.start_s - begin) / MILLI for part in own],
            x=[(part.end_s - part.start_s) / MILLI for part in own],
            text=[part.name[:80] for part in own],
            textposition="none",
            hovertemplate="%{text}<br>%{x:.3f} ms from %{base:.3f} ms<extra></extra>",
            marker={"color": _COLOURS.get(kind, _OTHER_COLOUR), "line": {"width": 0}},
        )
    lanes = len({(part.rank, part.lane) for part in drawn})
    left_out = f" · {len(path) - len(drawn)} shortest parts not drawn" if len(drawn) < len(path) else ""
    figure.update_layout(
        barmode="overlay", xaxis_title=f"ms{left_out}", height=180 + 45 * lanes, margin={"t": 20, "l": 160}, bargap=0.25
    )
    return figure


def _summary(report: TraceReport) -> str:
    rows = [("step time", f"{report.step_time_s / MILLI:.3f} ms")]
    if report.replay:
        rows += _replay_rows(report.replay)
        rows.append(("from dependencies alone", f"{(report.dependencies_only_step_s or 0.0) / MILLI:.3f} ms"))
    if report.what_if:
        edits = html.escape(", ".join(report.what_if.edits))
        rows.append(
            (f"with {edits}", f"{report.what_if.predicted_step_s / MILLI:.3f} ms ({report.what_if.speed_up:.3f} x)")
        )
    rows += [
        (f"on the critical path: {kind}", f"{time / MILLI:.3f} ms") for kind, time in (report.path_time_s or {}).items()
    ]
    return _table(("quantity", "value"), rows)


def _replay_rows(replayed: Replay) -> list[tuple[str, str]]:
    return [
        ("replayed", f"{replayed.replayed_step_s / MILLI:.3f} ms ({replayed.relative_error:+.2%})"),
        ("device waits without recorded cause", f"{replayed.unexplained_wait_fraction:.1%}"),
        ("long host gaps without recorded cause", f"{replayed.unexplained_gap_fraction:.1%}"),
    ]


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    head = "".join(f"<th>{cell}</th>" for cell in header)
    body = "".join("<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table><tr>{head}</tr>{body}</table>"
