"""The plot of `surrogate forecast --plot`: when the run ends, where time goes, what matters most."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from surrogate.errors import InputError

if TYPE_CHECKING:
    from surrogate.forecast import Forecast


def write_figure(answer: Forecast, path: Path, *, deadline_days: float | None = None) -> None:
    """Write the plot as one HTML page that needs no network.

    Parameters
    ----------
    answer : Forecast
        What to draw.
    path : Path
        File ending in ``.html``.
    deadline_days : float, optional
        Marked when given.

    Raises
    ------
    InputError
        For another ending.
    FileWriteError
        When the file cannot be written.
    """
    from surrogate.files import replaced_atomically  # noqa: PLC0415

    if path.suffix.lower() not in (".html", ".htm"):
        raise InputError("plot", "must be an HTML file", str(path), "for example --plot forecast.html")
    with replaced_atomically(path) as temporary:
        temporary.write_text(forecast_figure(answer, deadline_days=deadline_days).to_html(), encoding="utf-8")


def forecast_figure(answer: Forecast, *, deadline_days: float | None = None) -> Any:  # noqa: ANN401
    """Return a plotly figure of three panels."""
    from plotly.subplots import make_subplots  # noqa: PLC0415

    titles = ("probability of being done", "share of wall time", "expected days with one input moved")
    figure = make_subplots(rows=1, cols=3, subplot_titles=titles)
    percentiles = [rank / 100 for rank in range(1, 100)]
    figure.add_scatter(x=answer.days_percentiles, y=percentiles, mode="lines", row=1, col=1, showlegend=False)
    if deadline_days is not None:
        figure.add_vline(x=deadline_days, line_dash="dash", annotation_text="deadline", row=1, col=1)
    shares = {"useful": answer.ettr, **answer.losses}
    names = [name.replace("_", " ") for name in shares]
    figure.add_bar(x=names, y=list(shares.values()), row=1, col=2, showlegend=False)
    effects = answer.sensitivity[::-1]
    figure.add_bar(
        y=[effect.name for effect in effects],
        x=[effect.days_high - effect.days_low for effect in effects],
        base=[effect.days_low for effect in effects],
        customdata=[(effect.low, effect.high) for effect in effects],
        hovertemplate="%{y}: %{customdata[0]} to %{customdata[1]}<extra></extra>",
        orientation="h",
        row=1,
        col=3,
        showlegend=False,
    )
    figure.update_xaxes(title_text="days", row=1, col=1)
    figure.update_xaxes(title_text="days", row=1, col=3)
    return figure
