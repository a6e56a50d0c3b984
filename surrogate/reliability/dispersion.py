"""Tests of what a Poisson model takes for granted: nodes alike, events independent, a rate that does not drift.

Notation: phi is variance over mean of counts (1 for Poisson); the index of dispersion (m - 1) phi is chi-square
with m - 1 degrees of freedom under Poisson (R. A. Fisher, Statistical Methods for Research Workers).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from surrogate.errors import InputError
from surrogate.reliability.arrays import FloatArray, real
from surrogate.reliability.events import FailureLog

MIN_BLOCKS: Final = 12
"""Calendar blocks a dispersion is estimated from: fewer are too noisy, more blind it to slow clusters."""
_REJECT_BELOW: Final = 0.01
_WORST_SHARE: Final = 0.05


@dataclass(frozen=True, kw_only=True, slots=True)
class NodeDispersion:
    """How unequal nodes are.

    Parameters
    ----------
    dispersion : float
        Variance over mean of the counts per node.
    p_value : float
        Probability of such counts if all nodes were alike.
    frailty_shape : float
        Shape of the Gamma (mean 1) by which node rates differ; infinite when nodes are alike.
    worst_share : float
        Share of the failures on the worst 5 % of nodes.
    lemon_nodes : tuple of str
        Nodes that fail too often to be chance (1 % for the whole cluster), worst first.
    """

    dispersion: float
    p_value: float
    frailty_shape: float
    worst_share: float
    lemon_nodes: tuple[str, ...]

    @property
    def rejects_poisson(self) -> bool:
        """Whether nodes differ by more than chance (1 %)."""
        return self.p_value < _REJECT_BELOW


@dataclass(frozen=True, kw_only=True, slots=True)
class TimeDispersion:
    """How unequal stretches of time are.

    Parameters
    ----------
    block_days : float
        Length of the calendar blocks.
    dispersion : float
        Variance over mean of the counts per block, at least 1.
    p_value : float
        Probability of such counts at a constant rate.
    gap_cv : float
        Coefficient of variation of the gaps between events; 1 for Poisson.
    trend_p_value : float
        Laplace test of a rate that rises or falls.
    """

    block_days: float
    dispersion: float
    p_value: float
    gap_cv: float
    trend_p_value: float

    @property
    def rejects_poisson(self) -> bool:
        """Whether events cluster or drift by more than chance (1 %)."""
        return min(self.p_value, self.trend_p_value) < _REJECT_BELOW


def node_dispersion(log: FailureLog) -> NodeDispersion | None:
    """Test whether the nodes of a log fail alike.

    Parameters
    ----------
    log : FailureLog
        Failures with node names; nodes that never failed count through the exposure window.

    Returns
    -------
    NodeDispersion or None
        None when no event names its node.

    Raises
    ------
    InputError
        When more nodes failed than were watched.
    """
    named, seen = np.unique([node for node in log.node if node], return_counts=True)
    if not named.size:
        return None
    num_nodes = log.window.num_nodes
    if named.size > num_nodes:
        raise InputError("nodes", f"must cover the {named.size} nodes that failed", num_nodes, "give all nodes watched")
    counts = np.zeros(num_nodes)
    counts[: named.size] = seen
    phi, p_value = dispersion_index(counts)
    mean = counts.mean()
    worst = np.sort(counts)[::-1][: max(1, round(_WORST_SHARE * num_nodes))].sum()
    # P(count >= seen) below 1 % / number of nodes: a Bonferroni bound over the cluster
    lemons = (special.gammainc(seen, mean) < _REJECT_BELOW / num_nodes) & (seen > 1)
    order = np.argsort(-seen, kind="stable")
    return NodeDispersion(
        dispersion=phi,
        p_value=p_value,
        frailty_shape=float(mean / (phi - 1.0)) if phi > 1.0 else float("inf"),
        worst_share=float(worst / counts.sum()),
        lemon_nodes=tuple(str(named[row]) for row in order if lemons[row]),
    )


def time_dispersion(log: FailureLog, *, block_days: float | None = None) -> TimeDispersion | None:
    """Test whether failures come at a constant rate, independently.

    Parameters
    ----------
    log : FailureLog
        Failures.
    block_days : float, optional
        Length of the calendar blocks; a twelfth of the window when absent.

    Returns
    -------
    TimeDispersion or None
        None below three events.
    """
    if len(log) < 3:
        return None
    days = log.window.days
    blocks = MIN_BLOCKS if block_days is None else max(2, int(days / block_days))
    counts, _ = np.histogram(log.start_day, bins=blocks, range=(0.0, days))
    phi, p_value = dispersion_index(counts)
    gaps = np.diff(log.start_day)
    centred = (log.start_day / days - 0.5).sum() * np.sqrt(12.0 / len(log))
    return TimeDispersion(
        block_days=days / blocks,
        dispersion=max(1.0, phi),
        p_value=p_value,
        gap_cv=float(gaps.std() / gaps.mean()),
        trend_p_value=float(2.0 * special.ndtr(-abs(centred))),
    )


def dispersion_index(counts: ArrayLike) -> tuple[float, float]:
    """Return variance over mean of counts, and the chi-square probability of as much or more under Poisson.

    Examples
    --------
    >>> phi, p_value = dispersion_index([0, 0, 12, 0])
    >>> phi, p_value < 1e-6
    (12.0, True)
    """
    values: FloatArray = real("counts", counts)
    if values.size < 2 or values.sum() == 0.0:
        raise InputError("counts", "must hold at least two blocks and one event", values.size)
    phi = float(values.var(ddof=1) / values.mean())
    freedom = values.size - 1
    return phi, float(special.chdtrc(freedom, freedom * phi))
