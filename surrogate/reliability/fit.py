"""A site's failure rates from its own log: prior, update, credible intervals, and what departs from Poisson."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import special

from surrogate.reliability.arrays import FloatArray
from surrogate.reliability.dispersion import NodeDispersion, TimeDispersion, node_dispersion, time_dispersion
from surrogate.reliability.events import FailureLog
from surrogate.reliability.failures import ComponentRates, job_rate_gamma
from surrogate.reliability.hardware import COMPONENTS, HardwareCounts
from surrogate.reliability.priors import Maturity, accelerator_family, published_prior


@dataclass(frozen=True, kw_only=True, slots=True)
class RateFit:
    """Failure rates after a site's own events.

    Parameters
    ----------
    prior, posterior : ComponentRates
        Before and after.
    counts : HardwareCounts
        The cluster watched, arrays of length 1.
    events : dict
        Failures per component.
    days : float
        Length of the watch.
    nodes : NodeDispersion or None
        Whether nodes fail alike; None when the log names none.
    time : TimeDispersion or None
        Whether failures cluster in time; None below three events.
    mean_repair_hours : float
        NaN when the log has no ends.
    """

    prior: ComponentRates
    posterior: ComponentRates
    counts: HardwareCounts
    events: dict[str, int]
    days: float
    nodes: NodeDispersion | None
    time: TimeDispersion | None
    mean_repair_hours: float

    def failures_per_day(self, level: float = 0.9) -> tuple[float, float, float]:
        """Return mean, lower and upper credible limit of the cluster's failures per day."""
        shape, exposure = job_rate_gamma(rates=self.posterior, counts=self.counts)
        low, high = (special.gammaincinv(shape, tail) / exposure for tail in ((1 - level) / 2, (1 + level) / 2))
        return float(shape[0] / exposure[0]), float(low[0]), float(high[0])

    def departures(self) -> tuple[str, ...]:
        """Return one sentence for each way the log departs from a constant, independent rate."""
        found = []
        if self.nodes is not None and self.nodes.rejects_poisson:
            worst = f"the worst 5 % of nodes hold {self.nodes.worst_share:.0%} of the failures"
            lemons = f"; look at {', '.join(self.nodes.lemon_nodes[:5])}" if self.nodes.lemon_nodes else ""
            found.append(f"nodes differ: variance/mean {self.nodes.dispersion:.2f} (Poisson 1), {worst}{lemons}")
        if self.time is not None and self.time.rejects_poisson:
            block = (
                f"variance/mean {self.time.dispersion:.1f} over blocks of {self.time.block_days:.1f} days (Poisson 1)"
            )
            found.append(
                f"failures cluster or drift in time: {block}, trend p = {self.time.trend_p_value:.2g}; "
                f"intervals are widened, and the evidence is weighed down, by that factor"
            )
        return tuple(found)

    def to_dict(self) -> dict[str, object]:
        """Return plain values for JSON; `failures.rates_from_dict` reads its ``rates``."""
        mean, low, high = self.failures_per_day()
        return {
            "failures_per_day": {"mean": mean, "p5": low, "p95": high},
            "events": self.events,
            "exposure_days": self.days,
            "rates": self.posterior.to_dict(),
            "components": component_table(self.posterior, self.counts),
            "mean_repair_hours": None if np.isnan(self.mean_repair_hours) else self.mean_repair_hours,
            "departures_from_poisson": list(self.departures()),
        }


def fit_rates(
    log: FailureLog, *, counts: HardwareCounts, accelerator: str = "", maturity: Maturity = "tuned"
) -> RateFit:
    """Update published rates by a site's own failures.

    Parameters
    ----------
    log : FailureLog
        Failures and what was watched; planned stops are left out.
    counts : HardwareCounts
        The cluster watched, arrays of length 1.
    accelerator : str
        Catalogue name; chooses the family of the prior.
    maturity : {"tuned", "young"}
        Which published clusters to start from.

    Returns
    -------
    RateFit

    Raises
    ------
    InputError
        When the log contradicts the exposure.
    """
    failures = log.failures()
    prior = published_prior(accelerator_family(accelerator), maturity)
    over_time = time_dispersion(failures)
    dispersion = over_time.dispersion if over_time is not None and over_time.rejects_poisson else 1.0
    events = failures.component_counts()
    posterior = prior.updated(events=events, counts=counts, days=log.window.days, dispersion=dispersion)
    return RateFit(
        prior=prior,
        posterior=posterior,
        counts=counts,
        events=events,
        days=log.window.days,
        nodes=node_dispersion(failures),
        time=over_time,
        mean_repair_hours=failures.mean_repair_hours(),
    )


def component_table(rates: ComponentRates, counts: HardwareCounts) -> list[dict[str, float | str]]:
    """Return failures per day of each component of a cluster, with 90 % credible limits."""
    low, high = rates.interval_per_unit_day()
    units: FloatArray = counts.per_component()[0]
    columns = (rates.mean_per_unit_day * units, low * units, high * units)
    rows = zip(COMPONENTS, *(column.tolist() for column in columns), strict=True)
    return [{"component": name, "per_day": mean, "per_day_p5": p5, "per_day_p95": p95} for name, mean, p5, p95 in rows]
