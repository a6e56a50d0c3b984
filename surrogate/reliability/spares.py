"""Nodes out for repair and the spares that stand in for them.

Notation: N job nodes, S spares, q probability that a node is out at a given moment; the number out of N + S is
Binomial(N + S, q), valid while repairs are independent and there are hands for all of them.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from surrogate.errors import InputError
from surrogate.reliability.arrays import FloatArray, fraction, real
from surrogate.units import SECONDS_PER_DAY


def node_unavailability(*, failures_per_node_day: ArrayLike, repair_s: ArrayLike) -> FloatArray:
    """Return the share of time a node is out: failures per calendar day times repair time, at most 1.

    Examples
    --------
    >>> round(float(node_unavailability(failures_per_node_day=584 / 139200, repair_s=132.84 * 3600)), 5)
    0.02322
    """
    rate = real("failures_per_node_day", failures_per_node_day)
    return np.minimum(rate * real("repair_s", repair_s) / SECONDS_PER_DAY, 1.0)


def probability_short(*, num_nodes: ArrayLike, spares: ArrayLike, unavailability: ArrayLike) -> FloatArray:
    """Return the probability that more nodes are out than there are spares.

    Parameters
    ----------
    num_nodes, spares, unavailability : array_like, shape (n,)
        N, S and q.

    Returns
    -------
    ndarray, shape (n,)
        P(Binomial(N + S, q) > S).
    """
    nodes, extra = real("num_nodes", num_nodes, strict=True), real("spares", spares)
    short: FloatArray = special.betainc(extra + 1.0, nodes, fraction("unavailability", unavailability))
    return short


def expected_shortfall_nodes(*, num_nodes: ArrayLike, spares: ArrayLike, unavailability: ArrayLike) -> FloatArray:
    """Return the expected nodes missing beyond the spares, E[max(K - S, 0)] for K out of N + S.

    Notes
    -----
    E[K; K > S] = n q P(Binomial(n - 1, q) >= S) with n = N + S.
    """
    nodes, extra = real("num_nodes", num_nodes, strict=True), real("spares", spares)
    out = fraction("unavailability", unavailability)
    # P(Binomial(n - 1, q) >= S) as an incomplete beta function; certain for S = 0
    at_least = np.where(extra > 0.0, special.betainc(np.maximum(extra, 1.0), nodes, out), 1.0)
    short = special.betainc(extra + 1.0, nodes, out)
    shortfall: FloatArray = np.maximum((nodes + extra) * out * at_least - extra * short, 0.0)
    return shortfall


def spares_for_window(
    *, num_nodes: ArrayLike, failures_per_node_day: ArrayLike, window_s: ArrayLike, risk: float = 0.01
) -> FloatArray:
    """Return the spares that cover the failures of one replenishment window.

    Parameters
    ----------
    num_nodes, failures_per_node_day, window_s : array_like, shape (n,)
        N, the rate, and how long until spares are replaced.
    risk : float
        Accepted probability of running out in a window.

    Returns
    -------
    ndarray, shape (n,)
        The (1 - risk) quantile of Binomial(N, rate * window).

    References
    ----------
    ByteRobust, arXiv:2509.16293 (P99 of a binomial; its one-day window is inferred from the spares it states).

    Examples
    --------
    >>> spares_for_window(num_nodes=[128, 1024], failures_per_node_day=1.17e-3, window_s=86400).tolist()
    [2.0, 4.0]
    """
    nodes = real("num_nodes", num_nodes, strict=True)
    chance = fraction("failures_per_window", np.asarray(failures_per_node_day) * np.asarray(window_s) / SECONDS_PER_DAY)
    nodes, chance = np.broadcast_arrays(nodes, chance)

    def risk_with(spares: FloatArray) -> FloatArray:
        inside = np.minimum(spares, nodes - 1.0)
        return np.where(spares >= nodes, 0.0, special.betainc(inside + 1.0, nodes - inside, chance))

    return _smallest(risk_with, nodes.shape, _checked_risk(risk))


def spares_for_repair(*, num_nodes: ArrayLike, unavailability: ArrayLike, risk: float = 0.01) -> FloatArray:
    """Return the smallest S with P(Binomial(N + S, q) > S) <= ``risk``.

    Raises
    ------
    InputError
        When nodes are out more often than not: no number of spares is enough.

    Examples
    --------
    >>> spares_for_repair(num_nodes=[128, 1024], unavailability=0.0232).tolist()
    [8.0, 37.0]
    """
    nodes, out = np.broadcast_arrays(
        real("num_nodes", num_nodes, strict=True), fraction("unavailability", unavailability)
    )
    if (out >= 0.5).any():
        way_out = "shorten repairs or lower the failure rate"
        raise InputError("unavailability", "must be below 0.5 for spares to help", float(out.max()), way_out)

    def risk_with(spares: FloatArray) -> FloatArray:
        return probability_short(num_nodes=nodes, spares=spares, unavailability=out)

    return _smallest(risk_with, nodes.shape, _checked_risk(risk))


def _checked_risk(risk: float) -> float:
    if not 0.0 < risk < 1.0:
        raise InputError("risk", "must lie between 0 and 1", risk)
    return risk


def _smallest(risk_with: Callable[[FloatArray], FloatArray], shape: tuple[int, ...], risk: float) -> FloatArray:
    """Return the smallest whole number at which a falling risk is at most ``risk``, by doubling and bisection."""
    low, high = np.full(shape, -1.0), np.zeros(shape)
    while (too_few := risk_with(high) > risk).any():
        low = np.where(too_few, high, low)
        high = np.where(too_few, 2.0 * high + 1.0, high)
    while (high - low > 1.0).any():
        middle = np.floor((low + high) / 2.0)
        enough = risk_with(np.maximum(middle, 0.0)) <= risk
        high, low = np.where(enough & (middle >= 0.0), middle, high), np.where(enough, low, middle)
    return high
