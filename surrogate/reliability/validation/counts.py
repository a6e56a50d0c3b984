"""Counts of failures predicted ahead: from other clusters, or from a trace's own past."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import numpy as np

from surrogate.reliability.dispersion import node_dispersion, time_dispersion
from surrogate.reliability.events import ExposureWindow, FailureLog, load_failure_log
from surrogate.reliability.failures import count_interval, job_rate_gamma
from surrogate.reliability.hardware import hardware_counts
from surrogate.reliability.priors import between_cluster_rate, published_prior, published_rates
from surrogate.reliability.validation.case import CaseResult, within

LLAMA3: Final = "llama3-405b"
_LLAMA3_DAYS: Final = 54.0
TRACE_FIRST_DAY: Final = 0.9
"""The trace's last day is 348.9; its 348 watched days end there."""
TRACE_DAYS: Final = 348.0
_TRACE_NODES: Final = 400


def llama3_interruptions() -> tuple[float, float, float]:
    """Return mean and 90 % predictive limits of Llama 3's interruptions, from every other cluster."""
    counts = hardware_counts(num_gpus=16384, gpus_per_node=8)
    rates = published_prior("hopper", "tuned", (LLAMA3,))
    shape, exposure = job_rate_gamma(rates=rates, counts=counts)
    low, high = count_interval(shape=shape, exposure=exposure, ahead=_LLAMA3_DAYS)
    return float(shape[0] / exposure[0] * _LLAMA3_DAYS), float(low[0]), float(high[0])


def trace_halves(data: Path) -> tuple[FailureLog, FailureLog]:
    """Return the two halves of the outage trace, overlapping outages of one node joined."""
    window = ExposureWindow(days=TRACE_FIRST_DAY + TRACE_DAYS + 1.0, num_nodes=_TRACE_NODES)
    log = load_failure_log(data / "infinitehbd_outages.csv", window, merge_overlaps=True)
    middle = TRACE_FIRST_DAY + TRACE_DAYS / 2.0
    return log.between(TRACE_FIRST_DAY, middle), log.between(middle, TRACE_FIRST_DAY + TRACE_DAYS)


def predict_from_log(log: FailureLog, ahead_days: float) -> tuple[float, float, float, float]:
    """Return mean, 90 % predictive limits and dispersion of the failures that follow a log, from the log alone."""
    over_time = time_dispersion(log)
    phi = over_time.dispersion if over_time is not None else 1.0
    days = log.window.days
    low, high = count_interval(shape=len(log) / phi, exposure=days / phi, ahead=ahead_days, dispersion=phi)
    return len(log) / days * ahead_days, float(low), float(high), phi


def count_cases(data: Path) -> tuple[CaseResult, ...]:
    """Return the counts predicted ahead, each judged by its 90 % interval."""
    mean, low, high = llama3_interruptions()
    llama = within(
        "counts",
        "Llama 3, 54 days on 16,384 H100, unexpected interruptions, from the other clusters",
        predicted=mean,
        low=low,
        high=high,
        published=419,
    )
    return (llama, *_trace_cases(data), _leave_one_cluster_out(), _rolling_blocks(data))


def _trace_cases(data: Path) -> tuple[CaseResult, ...]:
    first, second = trace_halves(data)
    mean, low, high, phi = predict_from_log(first, second.window.days)
    widened = within(
        "counts",
        f"InfiniteHBD second half from its first, dispersion {phi:.1f} of the first half",
        predicted=mean,
        low=low,
        high=high,
        published=len(second),
    )
    low_poisson, high_poisson = count_interval(
        shape=float(len(first)), exposure=first.window.days, ahead=second.window.days
    )
    poisson = CaseResult(
        group="counts",
        case="the same as a Poisson process, for comparison",
        predicted=f"{mean:.0f} [{float(low_poisson):.0f}, {float(high_poisson):.0f}]",
        published=f"{len(second)}",
        verdict="shown",
        remark="inside" if float(low_poisson) <= len(second) <= float(high_poisson) else "outside: too narrow",
    )
    return widened, poisson, _departures(first)


def _departures(log: FailureLog) -> CaseResult:
    nodes, over_time = node_dispersion(log), time_dispersion(log)
    if nodes is None or over_time is None:
        raise ValueError("the trace names its nodes and has events")
    return CaseResult(
        group="counts",
        case="InfiniteHBD first half: departures from Poisson",
        predicted="1 (Poisson)",
        published=f"nodes {nodes.dispersion:.1f}, time {over_time.dispersion:.1f}, gaps CV {over_time.gap_cv:.2f}",
        verdict="shown",
        remark=f"p = {nodes.p_value:.0e} and {over_time.p_value:.0e}; {len(nodes.lemon_nodes)} lemon nodes",
    )


def _leave_one_cluster_out() -> CaseResult:
    rows = [
        row for row in published_rates() if row.role == "prior" and row.level == "total" and row.maturity == "tuned"
    ]
    inside = []
    for row in rows:
        spread = between_cluster_rate("tuned", (row.cluster,))
        low, high = count_interval(shape=spread.shape, exposure=spread.exposure_node_days, ahead=row.node_days)
        inside.append(bool(low <= row.events <= high))
    missed = ", ".join(row.cluster for row, hit in zip(rows, inside, strict=True) if not hit) or "none"
    return CaseResult(
        group="counts",
        case="each published cluster from the others: share inside the 90 % interval",
        predicted="90 %",
        published=f"{sum(inside)} of {len(inside)}",
        verdict="shown",
        remark=f"outside: {missed}",
    )


def _rolling_blocks(data: Path) -> CaseResult:
    """Predict each fortnight of the second half from everything before it."""
    first, second = trace_halves(data)
    starts = np.concatenate([first.start_day, second.start_day + first.window.days])
    edges = np.linspace(first.window.days, 2.0 * first.window.days, 13)
    hits = 0
    for begin, end in zip(edges[:-1], edges[1:], strict=True):
        seen = starts[starts < begin]
        counts, _ = np.histogram(seen, bins=12, range=(0.0, begin))
        phi = max(1.0, float(counts.var(ddof=1) / counts.mean()))
        low, high = count_interval(shape=seen.size / phi, exposure=begin / phi, ahead=end - begin, dispersion=phi)
        hits += bool(low <= np.sum((starts >= begin) & (starts < end)) <= high)
    return CaseResult(
        group="counts",
        case="InfiniteHBD: each fortnight of the second half from all before it, share inside the 90 % interval",
        predicted="90 %",
        published=f"{hits} of 12",
        verdict="shown",
    )
