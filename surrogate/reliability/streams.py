"""Failure times for the simulation: one renewal clock per unit, or the Poisson stream they add up to.

Notation: k Weibull shape (1 exponential), theta scale, H horizon; all times in seconds of wall clock.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import special

from surrogate.errors import InputError
from surrogate.reliability.arrays import FloatArray, IntArray, real
from surrogate.units import SECONDS_PER_DAY


@dataclass(frozen=True, kw_only=True, slots=True)
class FailureClass:
    """One kind of failure and the units whose clocks run it.

    Parameters
    ----------
    name : str
        For reports.
    units : int
        Clocks of this kind in the job.
    failures_per_unit_day : float
        One over the mean life, in days.
    weibull_shape : float
        1 for a constant rate; below 1 early deaths, above 1 wear.
    age_days : float
        Age of the units when the run begins; of no effect at a constant rate.
    lemon_shape : float
        Shape of the Gamma (mean 1) by which units differ in rate; infinite when they are alike.
    nodes_lost : int
        Nodes each failure takes out for repair: 0 for software, 1 for a part of a node, a group for a switch.
    repair_s : float
        How long they are out, exponential with this mean.
    rollback_s : float
        Work thrown away beyond the last checkpoint, for corruption noticed late.
    """

    name: str
    units: int
    failures_per_unit_day: float
    weibull_shape: float = 1.0
    age_days: float = 0.0
    lemon_shape: float = float("inf")
    nodes_lost: int = 0
    repair_s: float = 0.0
    rollback_s: float = 0.0

    def __post_init__(self) -> None:
        for name in ("units", "failures_per_unit_day", "age_days", "nodes_lost", "repair_s", "rollback_s"):
            real(f"{self.name}.{name}", getattr(self, name))
        real(f"{self.name}.weibull_shape", self.weibull_shape, strict=True)
        if not self.lemon_shape > 0.0:
            raise InputError(f"{self.name}.lemon_shape", "must be positive", self.lemon_shape)


@dataclass(frozen=True, kw_only=True, slots=True)
class FailureStreams:
    """Failures of every replication in order of time, arrays of shape (replications, most failures).

    Rows end in times of infinity; ``kind`` is the index of the failure class.
    """

    time_s: FloatArray
    kind: IntArray


def draw_failure_streams(
    classes: tuple[FailureClass, ...], *, horizon_s: float, replications: int, rng: np.random.Generator
) -> FailureStreams:
    """Draw every failure up to a horizon.

    Parameters
    ----------
    classes : tuple of FailureClass
        Independent of each other.
    horizon_s : float
        Wall clock to cover.
    replications : int
        Independent copies.
    rng : numpy.random.Generator
        Source of randomness.

    Returns
    -------
    FailureStreams
    """
    drawn = [_draw_class(cls, horizon_s, replications, rng) for cls in classes]
    rows = np.concatenate([row for row, _ in drawn])
    times = np.concatenate([time for _, time in drawn])
    kinds = np.repeat(np.arange(len(classes)), [len(time) for _, time in drawn])
    order = np.lexsort((times, rows))
    rows, times, kinds = rows[order], times[order], kinds[order]
    counts = np.bincount(rows, minlength=replications)
    place = np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts)
    width = int(counts.max(initial=0)) + 1
    time_s = np.full((replications, width), np.inf)
    kind = np.zeros((replications, width), dtype=np.int64)
    time_s[rows, place], kind[rows, place] = times, kinds
    return FailureStreams(time_s=time_s, kind=kind)


def _draw_class(
    cls: FailureClass, horizon_s: float, replications: int, rng: np.random.Generator
) -> tuple[IntArray, FloatArray]:
    """Return (replication, time) of the failures of one class, unordered."""
    if cls.units == 0 or cls.failures_per_unit_day == 0.0:
        return np.empty(0, dtype=np.int64), np.empty(0)
    if cls.weibull_shape == 1.0:
        return _draw_poisson(cls, horizon_s, replications, rng)
    return _draw_renewals(cls, horizon_s, replications, rng)


def _draw_poisson(
    cls: FailureClass, horizon_s: float, replications: int, rng: np.random.Generator
) -> tuple[IntArray, FloatArray]:
    """Exponential clocks merge into one Poisson stream; the sum of unit frailties is Gamma(units * shape)."""
    mean = cls.units * cls.failures_per_unit_day * horizon_s / SECONDS_PER_DAY
    frailty = np.ones(replications)
    if np.isfinite(cls.lemon_shape):
        total = cls.units * cls.lemon_shape
        frailty = rng.gamma(total, 1.0 / total, replications)
    counts = rng.poisson(mean * frailty)
    return np.repeat(np.arange(replications), counts), rng.uniform(0.0, horizon_s, counts.sum())


def _draw_renewals(
    cls: FailureClass, horizon_s: float, replications: int, rng: np.random.Generator
) -> tuple[IntArray, FloatArray]:
    """One clock per unit: only those that fail within the horizon are drawn again."""
    k = cls.weibull_shape
    scale = SECONDS_PER_DAY / cls.failures_per_unit_day / special.gamma(1.0 + 1.0 / k)
    unit_scale = np.full((replications, cls.units), scale)
    if np.isfinite(cls.lemon_shape):
        unit_scale /= rng.gamma(cls.lemon_shape, 1.0 / cls.lemon_shape, unit_scale.shape)
    age = cls.age_days * SECONDS_PER_DAY / unit_scale
    # a unit of age A fails at A' with (A' / theta)^k = (A / theta)^k + E, E exponential
    life = unit_scale * ((age**k + rng.standard_exponential(unit_scale.shape)) ** (1.0 / k) - age)
    row, unit = np.nonzero(life < horizon_s)
    time = life[row, unit]
    rows, times = [row], [time]
    while row.size:
        time = time + unit_scale[row, unit] * rng.standard_exponential(row.size) ** (1.0 / k)
        alive = time < horizon_s
        row, unit, time = row[alive], unit[alive], time[alive]
        rows.append(row)
        times.append(time)
    return np.concatenate(rows), np.concatenate(times)
