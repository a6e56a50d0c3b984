"""One page on one or several plans: figures, where the time goes, evidence. HTML that needs nothing else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING, Final

from surrogate.units import GIB

if TYPE_CHECKING:
    from surrogate.api import Explanation, Prediction, Predictor

_COLOURS: Final = (
    "#2563a8", "#7fa7d1", "#b7791f", "#d9822b", "#c05640", "#8f4a86", "#5b5ea6", "#3a8f8f", "#4d9a51", "#a3b545",
    "#8a8f98", "#5a6270", "#c9a24b", "#b56576", "#6b7f4e",
)  # fmt: skip
_SMALLEST_LABELLED: Final = 0.005
_MAX_CHANGES: Final = 8
_STYLE: Final = """
body { font: 15px/1.5 system-ui, sans-serif; color: #1c2430; margin: 2rem auto; max-width: 62rem; padding: 0 1rem }
h1 { font-size: 1.5rem } h2 { font-size: 1.2rem; margin-top: 2.5rem; border-top: 1px solid #d8dce3; padding-top: 1rem }
table { border-collapse: collapse; margin: .8rem 0 } td, th { padding: .2rem .9rem .2rem 0; text-align: left }
td.n, th.n { text-align: right; font-variant-numeric: tabular-nums } th { color: #5a6270; font-weight: 500 }
.bar { display: flex; height: 1.6rem; border-radius: 3px; overflow: hidden; margin: .6rem 0 } .bar i { display: block }
.dot { display: inline-block; width: .8em; height: .8em; border-radius: 2px; margin-right: .5em }
.no { color: #b3261e } .yes { color: #2f7d32 } .quiet { color: #5a6270 }
"""


def plan_page(
    predictions: Sequence[Prediction],
    explanations: Sequence[Explanation],
    predictor: Predictor,
    causes: Mapping[str, str],
) -> str:
    """Return an HTML page on plans.

    Parameters
    ----------
    predictions, explanations
        One of each per plan.
    predictor : Predictor
        Where they come from.
    causes : mapping of part to words
        Names of the parts of a step.
    """
    colours = dict(zip(causes, _COLOURS, strict=False))
    sections = [
        _section(prediction, explanation, causes, colours)
        for prediction, explanation in zip(predictions, explanations, strict=True)
    ]
    overview = _overview(predictions) if len(predictions) > 1 else ""
    title = "Predicted training performance"
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
        f'<meta name="viewport" content="width=device-width"><style>{_STYLE}</style></head><body>'
        f"<h1>{title}</h1>{overview}{''.join(sections)}"
        f'<p class="quiet">Predictor: {escape(predictor.describe())}</p></body></html>\n'
    )


def _overview(predictions: Sequence[Prediction]) -> str:
    rows = [
        [
            escape(item.run_id),
            f"{item.step_time_s:.3g}",
            f"{item.step_time_lower_s:.3g} to {item.step_time_upper_s:.3g}",
            f"{item.tokens_per_s_per_gpu:,.0f}",
            f"{100.0 * item.mfu:.1f}",
            f"{item.peak_memory_bytes / GIB:.1f}",
            f"{100.0 * item.oom_probability:.1f}",
        ]
        for item in sorted(predictions, key=lambda item: -item.tokens_per_s_per_gpu)
    ]
    header = ["plan", "step [s]", "interval [s]", "tokens/s per accelerator", "MFU [%]", "memory [GiB]", "risk [%]"]
    return _table(header, rows)


def _section(item: Prediction, explanation: Explanation, causes: Mapping[str, str], colours: Mapping[str, str]) -> str:
    fits = '<span class="yes">fits</span>' if item.feasible else '<span class="no">does not fit safely</span>'
    interval = f"{item.step_time_lower_s:.3g} to {item.step_time_upper_s:.3g} s"
    figures = [
        ["step time", f"<b>{item.step_time_s:.3g} s</b>, interval {interval}"],
        ["throughput", f"{item.tokens_per_s_per_gpu:,.0f} tokens/s per accelerator, MFU {100.0 * item.mfu:.1f} %"],
        ["memory", f"{item.peak_memory_bytes / GIB:.1f} GiB, risk {100.0 * item.oom_probability:.1f} %: {fits}"],
        ["failures", f"{item.expected_failures_per_day:.2g} per day expected"],
        ["domain", escape("; ".join(item.out_of_domain_reasons)) or "inside what was measured"],
        ["not said, filled by rule", escape(", ".join(item.imputed)) or "nothing"],
    ]
    return (
        f"<h2>{escape(item.run_id)}</h2>{_table([], figures)}{_bar(explanation, colours)}"
        f"{_terms(explanation, causes, colours)}{_changes(explanation)}{_evidence(item)}"
    )


def _bar(explanation: Explanation, colours: Mapping[str, str]) -> str:
    parts = "".join(
        f'<i style="width:{100.0 * term.share:.2f}%;background:{colours.get(term.cause, "#999")}"></i>'
        for term in explanation.terms
    )
    return f'<div class="bar">{parts}</div>'


def _terms(explanation: Explanation, causes: Mapping[str, str], colours: Mapping[str, str]) -> str:
    rows = [
        [
            f'<span class="dot" style="background:{colours.get(term.cause, "#999")}"></span>'
            + escape(causes.get(term.cause, term.cause)),
            f"{term.seconds:.3g}",
            f"{100.0 * term.share:.1f}",
        ]
        for term in explanation.terms
        if term.share >= _SMALLEST_LABELLED
    ]
    return _table(["where the time goes", "seconds", "share [%]"], rows)


def _changes(explanation: Explanation) -> str:
    effects = [*explanation.changes]
    if len(effects) > _MAX_CHANGES:
        effects = effects[: _MAX_CHANGES // 2] + effects[-_MAX_CHANGES // 2 :]
    rows = [
        [
            escape(e.change),
            f"{e.step_time_s:.3g}",
            f"{100.0 * (e.ratio - 1.0):+.1f}",
            f"{e.peak_memory_bytes / GIB:.1f}",
        ]
        for e in effects
    ]
    return _table(["if", "step [s]", "change [%]", "memory [GiB]"], rows)


def _evidence(item: Prediction) -> str:
    rows = [
        [
            escape(str(run["run_id"])),
            f"{float(str(run['distance'])):.2f}",
            f"{float(str(run['measured_step_time_s'])):.3g}",
            f"{float(str(run['predicted_step_time_s'])):.3g}",
        ]
        for run in item.nearest_runs
    ]
    return _table(["nearest measured runs", "distance", "measured [s]", "predicted without it [s]"], rows)


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    numeric = len(header) > 0

    def cells(values: Sequence[str], tag: str) -> str:
        return "".join(
            f'<{tag} class="n">{value}</{tag}>' if numeric and position else f"<{tag}>{value}</{tag}>"
            for position, value in enumerate(values)
        )

    head = f"<tr>{cells(header, 'th')}</tr>" if header else ""
    body = "".join(f"<tr>{cells(row, 'td')}</tr>" for row in rows)
    return f"<table>{head}{body}</table>"
