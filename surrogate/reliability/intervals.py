"""How often to checkpoint.

Notation
--------
M     mean time between failures of the job, s
w     stall per checkpoint, s
dt    useful training time between checkpoints, s (`interval_s`)
t_p   time a checkpoint needs after its stall until it is usable, s (`persist_s`)
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from surrogate.errors import InputError
from surrogate.reliability.arrays import FloatArray, real

_SERIES_BELOW = 1e-2


def young_interval(*, mtbf_s: ArrayLike, stall_s: ArrayLike) -> FloatArray:
    """Return Young's interval, sqrt(2 w M) (J. W. Young, CACM 17 (9), 1974).

    Examples
    --------
    >>> round(float(young_interval(mtbf_s=10008, stall_s=60)), 1)
    1095.9
    """
    return np.sqrt(2.0 * real("stall_s", stall_s) * real("mtbf_s", mtbf_s, strict=True))


def daly_interval(*, mtbf_s: ArrayLike, stall_s: ArrayLike) -> FloatArray:
    """Return Daly's higher-order interval; the mean time between failures where w >= 2 M.

    References
    ----------
    J. T. Daly, Future Generation Computer Systems 22 (2006), eq. 37.

    Examples
    --------
    >>> round(float(daly_interval(mtbf_s=10008, stall_s=60)), 1)
    1056.2
    """
    mtbf, stall = real("mtbf_s", mtbf_s, strict=True), real("stall_s", stall_s)
    ratio = stall / (2.0 * mtbf)
    higher = np.sqrt(2.0 * stall * mtbf) * (1.0 + np.sqrt(ratio) / 3.0 + ratio / 9.0) - stall
    return np.where(stall < 2.0 * mtbf, higher, mtbf)


def exact_interval(*, mtbf_s: ArrayLike, stall_s: ArrayLike) -> FloatArray:
    """Return the interval that minimises the renewal form of `goodput`, without constraints.

    Parameters
    ----------
    mtbf_s, stall_s : array_like, shape (n,)
        Mean time between failures and stall per checkpoint.

    Returns
    -------
    ndarray, shape (n,)
        Seconds of training between checkpoints.

    Notes
    -----
    d(phi)/d(dt) = 0 is (1 - dt / M) exp((dt + w) / M) = 1, solved by dt = M (1 + W0(-exp(-1 - w / M))). Near the
    branch point the series of W0 in p = sqrt(2 (1 - exp(-w / M))) keeps the digits that 1 + W0 cancels.

    References
    ----------
    R. M. Corless et al., On the Lambert W function, Adv. Comput. Math. 5 (1996), eq. 4.22.

    Examples
    --------
    >>> round(float(exact_interval(mtbf_s=900, stall_s=300)), 1)
    550.0
    """
    mtbf, stall = real("mtbf_s", mtbf_s, strict=True), real("stall_s", stall_s)
    ratio = stall / mtbf
    p = np.sqrt(-2.0 * np.expm1(-ratio))
    series = p * (1.0 - p * (1.0 / 3.0 - p * (11.0 / 72.0 - p * (43.0 / 540.0 - p * 769.0 / 17280.0))))
    direct = 1.0 + special.lambertw(-np.exp(-1.0 - ratio)).real
    return mtbf * np.where(p < _SERIES_BELOW, series, direct)


def interval_with_recovery(*, save_s: ArrayLike, mtbf_s: ArrayLike, recovery_s: ArrayLike) -> FloatArray:
    """Return the checkpoint period (save included) that maximises availability with a recovery time.

    Notes
    -----
    Ts + sqrt(2 (Tf + Tr) Ts + Ts^2), the maximum of (1 - Ts / Tc) Tf / (Tf + Tr + Tc / 2).

    References
    ----------
    arXiv:2410.18124, abstract.

    Examples
    --------
    >>> round(float(interval_with_recovery(save_s=60, mtbf_s=10000, recovery_s=600)), 2)
    1189.42
    """
    save = real("save_s", save_s)
    return save + np.sqrt(2.0 * (real("mtbf_s", mtbf_s) + real("recovery_s", recovery_s)) * save + save**2)


def shortest_interval(
    *, stall_s: ArrayLike, persist_s: ArrayLike, step_time_s: ArrayLike, storage_duty_fraction: ArrayLike = 1.0
) -> FloatArray:
    """Return the shortest interval that can be kept up.

    Parameters
    ----------
    stall_s, persist_s, step_time_s : array_like, shape (n,)
        Seconds.
    storage_duty_fraction : array_like
        Share of the time the storage may be busy with checkpoints, in (0, 1].

    Returns
    -------
    ndarray, shape (n,)
        A whole number of steps, at least one, with ``persist_s`` over before the next checkpoint ends.
    """
    step = real("step_time_s", step_time_s, strict=True)
    persist, stall = real("persist_s", persist_s), real("stall_s", stall_s)
    duty = real("storage_duty_fraction", storage_duty_fraction, strict=True)
    needed = np.where(persist > 0.0, persist / duty - stall, stall / duty - stall)
    return step * np.maximum(1.0, np.ceil(needed / step - 1e-9))


def best_interval(
    *, mtbf_s: ArrayLike, stall_s: ArrayLike, shortest_s: ArrayLike, step_time_s: ArrayLike
) -> FloatArray:
    """Return the best feasible interval, a whole number of steps.

    Parameters
    ----------
    mtbf_s, stall_s, shortest_s, step_time_s : array_like, shape (n,)
        Seconds; ``shortest_s`` as from `shortest_interval`.

    Returns
    -------
    ndarray, shape (n,)
        The exact interval rounded to steps, or ``shortest_s`` where that is longer (the renewal form has a single
        minimum, so the nearest feasible point is the best one).
    """
    step = real("step_time_s", step_time_s, strict=True)
    wanted = exact_interval(mtbf_s=mtbf_s, stall_s=stall_s)
    return np.maximum(step * np.maximum(1.0, np.round(wanted / step)), real("shortest_s", shortest_s))


def checkpoints_to_keep(*, detection_latency_s: ArrayLike, interval_s: ArrayLike) -> FloatArray:
    """Return how many checkpoints to keep so that one is older than an error noticed late: ceil(Te / dt) + 1."""
    late = real("detection_latency_s", detection_latency_s)
    return np.ceil(late / real("interval_s", interval_s, strict=True)) + 1.0


def check_interval(*, interval_s: ArrayLike, save_s: ArrayLike) -> None:
    """Refuse an interval that cannot be kept up.

    Raises
    ------
    InputError
        When a checkpoint would be due before the one before it is usable.
    """
    interval, save = np.broadcast_arrays(real("interval_s", interval_s, strict=True), np.asarray(save_s))
    short = interval < save * (1.0 - 1e-9)
    if short.any():
        way_out = f"checkpoint no more often than every {save[short].flat[0]:.6g} s, or make saving faster"
        got = float(interval[short].flat[0])
        raise InputError("checkpoint_interval_s", "must not be shorter than a save", got, way_out)
