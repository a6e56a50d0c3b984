"""Failure rates as Gamma distributions per component, their update by own events, and counts they predict.

Notation
--------
a, b    shape and exposure (unit-days) of a Gamma rate: mean a / b per unit and day
n, T    events seen and unit-days watched; the update is a + n, b + T (conjugate to Poisson counts)
phi     dispersion, variance over mean of counts; 1 for a Poisson process
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from surrogate.errors import InputError, UnknownNameError
from surrogate.reliability.arrays import FloatArray, real
from surrogate.reliability.hardware import COMPONENTS, HardwareCounts


@dataclass(frozen=True, kw_only=True, slots=True)
class ComponentRates:
    """One Gamma distribution of failures per unit-day for each of `hardware.COMPONENTS`.

    Parameters
    ----------
    shape : ndarray, shape (c,)
        Gamma shapes, dimensionless.
    exposure_unit_days : ndarray, shape (c,)
        Gamma rates: how many unit-days of watching the knowledge is worth.
    dispersion : float
        Variance over mean of counts, 1 for Poisson; widens predictions, and weakens later updates.
    """

    shape: FloatArray
    exposure_unit_days: FloatArray
    dispersion: float = 1.0

    def __post_init__(self) -> None:
        expected = (len(COMPONENTS),)
        if self.shape.shape != expected or self.exposure_unit_days.shape != expected:
            raise InputError("shape", f"must have one value per component {expected}", self.shape.shape)
        real("shape", self.shape)
        real("exposure_unit_days", self.exposure_unit_days, strict=True)
        real("dispersion", self.dispersion, minimum=1.0)

    @property
    def mean_per_unit_day(self) -> FloatArray:
        """Expected failures per unit and day, shape (c,)."""
        return self.shape / self.exposure_unit_days

    def interval_per_unit_day(self, level: float = 0.9) -> tuple[FloatArray, FloatArray]:
        """Return the equal-tailed credible limits of each rate, both of shape (c,)."""
        tail = (1.0 - level) / 2.0
        low = special.gammaincinv(self.shape, tail) / self.exposure_unit_days
        high = special.gammaincinv(self.shape, 1.0 - tail) / self.exposure_unit_days
        return low, high

    def updated(
        self, *, events: Mapping[str, int], counts: HardwareCounts, days: float, dispersion: float = 1.0
    ) -> ComponentRates:
        """Return the rates after seeing ``events`` on ``counts`` during ``days``.

        Parameters
        ----------
        events : mapping of str to int
            Failures seen per component; a component left out had none.
        counts : HardwareCounts
            Hardware watched, arrays of length 1.
        days : float
            Length of the watch.
        dispersion : float
            Variance over mean of the counts. Clustered events say less: the evidence is divided by it.

        Returns
        -------
        ComponentRates

        Raises
        ------
        UnknownNameError
            For a component that is not in `hardware.COMPONENTS`.
        InputError
            For no exposure or a negative count.

        Notes
        -----
        Gamma(a + n / phi, b + T / phi): the conjugate update with a quasi-Poisson (tempered) likelihood.
        """
        seen = np.zeros(len(COMPONENTS))
        for component, count in events.items():
            seen[component_index(component)] += float(real(f"events[{component}]", count))
        phi = float(real("dispersion", dispersion, minimum=1.0))
        if not days > 0.0:
            raise InputError("exposure", "must be longer than zero", days, "give the days that were watched")
        watched = counts.per_component()[0] * days
        if (seen[watched == 0.0] > 0).any():
            bad = COMPONENTS[int(np.flatnonzero((watched == 0.0) & (seen > 0))[0])]
            raise InputError("exposure", f"must be positive for a component with events ({bad})", 0.0)
        return ComponentRates(
            shape=self.shape + seen / phi, exposure_unit_days=self.exposure_unit_days + watched / phi, dispersion=phi
        )

    def to_dict(self) -> dict[str, object]:
        """Return plain values for JSON."""
        pairs = zip(COMPONENTS, self.shape.tolist(), self.exposure_unit_days.tolist(), strict=True)
        table = {name: {"shape": shape, "exposure_unit_days": exposure} for name, shape, exposure in pairs}
        return {"components": table, "dispersion": self.dispersion}


def component_index(component: str) -> int:
    """Return a component's column.

    Raises
    ------
    UnknownNameError
        With the nearest names.
    """
    if component not in COMPONENTS:
        near = get_close_matches(component, COMPONENTS)
        raise UnknownNameError("component", component, near, f"one of {', '.join(COMPONENTS)}")
    return COMPONENTS.index(component)


def rates_from_dict(values: Mapping[str, object]) -> ComponentRates:
    """Return the rates that `ComponentRates.to_dict` wrote.

    Raises
    ------
    InputError
        When a component or a key is missing.
    """
    try:
        table = values["components"]
        rows = [table[name] for name in COMPONENTS]  # type: ignore[index]
        shape = np.array([float(row["shape"]) for row in rows])
        exposure = np.array([float(row["exposure_unit_days"]) for row in rows])
        dispersion = float(values.get("dispersion", 1.0))  # type: ignore[arg-type]
    except (KeyError, TypeError, ValueError) as error:
        way_out = "write the file with `surrogate reliability fit`"
        raise InputError("rates", "must hold shape and exposure of every component", str(error), way_out) from error
    return ComponentRates(shape=shape, exposure_unit_days=exposure, dispersion=dispersion)


def expected_failures_per_day(*, rates: ComponentRates, counts: HardwareCounts) -> FloatArray:
    """Return the expected job-stopping failures per day.

    Parameters
    ----------
    rates : ComponentRates
        Failures per unit and day.
    counts : HardwareCounts
        Units under each job, shape (n,).

    Returns
    -------
    ndarray, shape (n,)
        Failures per day: sum over components of units times rate.
    """
    return counts.per_component() @ rates.mean_per_unit_day


def job_rate_gamma(*, rates: ComponentRates, counts: HardwareCounts) -> tuple[FloatArray, FloatArray]:
    """Return the Gamma distribution of a job's failures per day.

    Parameters
    ----------
    rates : ComponentRates
        Failures per unit and day.
    counts : HardwareCounts
        Units under each job, shape (n,).

    Returns
    -------
    shape, exposure_days : ndarray, shape (n,)
        Mean ``shape / exposure_days``. Exact when all components are known equally well (a sum of Gammas with one
        scale), otherwise the Gamma with the same mean and variance.
    """
    units = counts.per_component()
    mean = units @ rates.mean_per_unit_day
    variance = units**2 @ (rates.shape / rates.exposure_unit_days**2)
    if (mean <= 0.0).any():
        raise InputError("rates", "must give every job a positive failure rate", 0.0)
    return mean**2 / variance, mean / variance


def count_interval(
    *, shape: ArrayLike, exposure: ArrayLike, ahead: ArrayLike, dispersion: ArrayLike = 1.0, level: float = 0.9
) -> tuple[FloatArray, FloatArray]:
    """Return predictive limits of a future count.

    Parameters
    ----------
    shape, exposure : array_like, shape (n,)
        Gamma distribution of the rate, exposure in the unit of ``ahead``.
    ahead : array_like, shape (n,)
        Exposure to come.
    dispersion : array_like, shape (n,)
        Variance over mean of counts at a known rate.
    level : float
        Probability inside.

    Returns
    -------
    low, high : ndarray, shape (n,)
        Counts; the interval includes both.

    Notes
    -----
    Negative binomial with mean m = ahead * shape / exposure and variance phi m + m^2 / shape: the Poisson-Gamma
    mixture for phi = 1, its moment-matched widening otherwise.

    Examples
    --------
    >>> low, high = count_interval(shape=400.0, exposure=100.0, ahead=25.0)
    >>> int(low), int(high)
    (82, 119)
    """
    from scipy import stats  # half a second of import that predictions of step time do not need

    mean = real("ahead", ahead) * real("shape", shape, strict=True) / real("exposure", exposure, strict=True)
    size = negative_binomial_size(mean=mean, shape=shape, dispersion=dispersion)
    law = stats.nbinom(size, size / (size + mean))
    tail = (1.0 - level) / 2.0
    return law.ppf(tail), law.ppf(1.0 - tail)


def negative_binomial_size(*, mean: ArrayLike, shape: ArrayLike, dispersion: ArrayLike = 1.0) -> FloatArray:
    """Return the negative-binomial size r with variance ``dispersion * mean + mean**2 / shape``: m + m^2 / r."""
    mean = np.maximum(real("mean", mean), np.finfo(np.float64).tiny)
    excess = real("dispersion", dispersion, minimum=1.0) - 1.0
    return 1.0 / (1.0 / real("shape", shape, strict=True) + excess / mean)


def probability_of_failure(*, units: ArrayLike, failures_per_unit_day: ArrayLike, days: ArrayLike = 1.0) -> FloatArray:
    """Return the probability that at least one of ``units`` fails within ``days``.

    Examples
    --------
    >>> round(float(probability_of_failure(units=1000, failures_per_unit_day=0.0027)), 3)
    0.933
    """
    expected = real("units", units) * real("failures_per_unit_day", failures_per_unit_day) * real("days", days)
    chance: FloatArray = -np.expm1(-expected)
    return chance
