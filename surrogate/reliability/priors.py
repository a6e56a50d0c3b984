"""Failure rates of clusters nobody has measured yet: Gamma priors pooled from published tables.

Each row of `data/failure_rates.csv` is one published count or rate with its citation. Three questions are asked of it:
how much total rates differ between clusters (a Gamma distribution, fitted by maximum likelihood of the negative
binomial counts), how a total divides between components (pooled shares), and how far an accelerator family's own
components depart from the pool (shrunk towards it).
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from typing import Final, Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from surrogate.errors import UnknownNameError
from surrogate.reliability.arrays import FloatArray
from surrogate.reliability.failures import ComponentRates, component_index
from surrogate.reliability.hardware import COMPONENTS, UNIT_OF_COMPONENT, hardware_counts, switch_count

Maturity = Literal["tuned", "young"]

ACCELERATOR_COMPONENTS: Final = ("gpu", "hbm", "nvlink", "sdc")
_REFERENCE_GPUS: Final = 16384
_REFERENCE_GPUS_PER_NODE: Final = 8
_FAMILY_PATTERNS: Final = {
    "ampere": r"^(A100|A800|A40|A30|A10)\b",
    "hopper": r"^(H100|H800|H200|H20|GH200)\b",
    "blackwell": r"^(B100|B200|B300|GB200|GB300)\b",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class PublishedRate:
    """One row of the table of published failure rates."""

    cluster: str
    accelerator_family: str
    maturity: str
    level: str
    component: str
    events: float
    node_days: float
    role: str
    provenance: str
    citation: str


@dataclass(frozen=True, kw_only=True, slots=True)
class BetweenClusterRate:
    """Total failures per node-day over clusters: Gamma with this shape and exposure."""

    shape: float
    exposure_node_days: float
    num_clusters: int

    @property
    def mean_per_node_day(self) -> float:
        """Expected failures per node and day of a cluster drawn at random."""
        return self.shape / self.exposure_node_days


def accelerator_family(accelerator: str) -> str:
    """Return ``ampere``, ``hopper``, ``blackwell`` or ``other``.

    Examples
    --------
    >>> accelerator_family("H100-80GB"), accelerator_family("GB200"), accelerator_family("MI300X")
    ('hopper', 'blackwell', 'other')
    """
    name = accelerator.upper()
    return next((family for family, pattern in _FAMILY_PATTERNS.items() if re.search(pattern, name)), "other")


@lru_cache(maxsize=1)
def published_rates() -> tuple[PublishedRate, ...]:
    """Return the published table; a stated rate becomes the count it implies on the stated node-days."""
    text = files("surrogate.reliability").joinpath("data/failure_rates.csv").read_text(encoding="utf-8")
    return tuple(_published_rate(row) for row in csv.DictReader(text.splitlines()))


def _published_rate(row: dict[str, str]) -> PublishedRate:
    node_days = float(row["node_days"])
    events = float(row["events"]) if row["events"] else float(row["rate_per_node_day"]) * node_days
    names = ("cluster", "accelerator_family", "maturity", "level", "component", "role", "provenance", "citation")
    return PublishedRate(events=events, node_days=node_days, **{name: row[name] for name in names})


def between_cluster_rate(maturity: Maturity = "tuned", exclude: Iterable[str] = ()) -> BetweenClusterRate:
    """Fit the spread of total failure rates between clusters.

    Parameters
    ----------
    maturity : {"tuned", "young"}
        Clusters past their teething troubles, or new and cloud clusters.
    exclude : iterable of str
        Cluster names left out, as in a leave-one-out test.

    Returns
    -------
    BetweenClusterRate

    Raises
    ------
    UnknownNameError
        For an excluded cluster that is not in the table.

    Notes
    -----
    Maximum of sum log NB(n_i; shape k, mean k T_i / b), the marginal of Poisson counts with Gamma(k, b) rates.
    """
    return _between_cluster_rate(maturity, frozenset(exclude))


@lru_cache(maxsize=64)
def _between_cluster_rate(maturity: Maturity, left_out: frozenset[str]) -> BetweenClusterRate:
    from scipy import optimize  # slow to import

    known = {row.cluster for row in published_rates()}
    for cluster in sorted(left_out - known):
        raise UnknownNameError("exclude", cluster, sorted(known)[:3], f"one of {', '.join(sorted(known))}")
    rows = [row for row in published_rates() if row.role == "prior" and row.level == "total"]
    rows = [row for row in rows if row.maturity == maturity and row.cluster not in left_out]
    events = np.array([row.events for row in rows])
    exposure = np.array([row.node_days for row in rows])
    start = [0.0, float(np.log(exposure.mean() / events.mean()))]
    best = optimize.minimize(_negative_log_marginal, start, args=(events, exposure), method="Nelder-Mead")
    shape = float(np.exp(best.x[0]))
    return BetweenClusterRate(shape=shape, exposure_node_days=shape * float(np.exp(best.x[1])), num_clusters=len(rows))


def _negative_log_marginal(log_parameters: FloatArray, events: FloatArray, exposure: FloatArray) -> float:
    shape, mean_gap = np.exp(log_parameters)
    rate = shape * mean_gap
    terms = special.gammaln(shape + events) - special.gammaln(shape) + shape * np.log(rate)
    return float(-np.sum(terms - (shape + events) * np.log(rate + exposure) + events * np.log(exposure)))


@lru_cache(maxsize=64)
def published_prior(
    family: str = "other", maturity: Maturity = "tuned", exclude: tuple[str, ...] = ()
) -> ComponentRates:
    """Return the prior failure rates of a cluster with accelerators of one family.

    Parameters
    ----------
    family : str
        As from `accelerator_family`.
    maturity : {"tuned", "young"}
        Which clusters the total rate is pooled from.
    exclude : tuple of str
        Clusters left out.

    Returns
    -------
    ComponentRates
        Every component is worth the same node-days of watching, so that totals spread as clusters do.
    """
    spread = between_cluster_rate(maturity, exclude)
    share = component_shares(exclude)
    factor = np.ones(len(COMPONENTS))
    accelerator = [component_index(name) for name in ACCELERATOR_COMPONENTS]
    factor[accelerator] = _family_factor(family, share[accelerator].sum(), exclude)
    exposure = spread.exposure_node_days * reference_units_per_node()
    return ComponentRates(shape=spread.shape * share * factor, exposure_unit_days=exposure)


def component_shares(exclude: Iterable[str] = ()) -> FloatArray:
    """Return each component's share of failures, pooled over the clusters that publish a full breakdown, shape (c,)."""
    seen = np.zeros(len(COMPONENTS))
    for row in published_rates():
        if row.role == "prior" and row.level == "component" and row.cluster not in exclude:
            seen[component_index(row.component)] += row.events
    shares: FloatArray = seen / seen.sum()
    return shares


def reference_units_per_node() -> FloatArray:
    """Return the units per node of the clusters behind the table (8 GPUs, 8 NICs, three switch levels), shape (c,)."""
    switches = float(switch_count(num_nics=_REFERENCE_GPUS)) / (_REFERENCE_GPUS / _REFERENCE_GPUS_PER_NODE)
    per_unit = {"gpu": 8.0, "nic": 8.0, "node": 1.0, "switch": switches}
    return np.array([per_unit[unit] for unit in UNIT_OF_COMPONENT.values()])


def _family_factor(family: str, accelerator_share: float, exclude: Iterable[str]) -> float:
    """Return a family's accelerator failures over the pool's, each cluster counting at most one prior's worth."""
    spread = between_cluster_rate("tuned", exclude)
    pool, prior_days = spread.mean_per_node_day * accelerator_share, spread.exposure_node_days
    clusters: dict[str, tuple[float, float]] = {}
    for row in published_rates():
        usable = row.role in ("prior", "accelerator") and row.level == "component" and row.cluster not in exclude
        if usable and row.accelerator_family == family and family != "other":
            events, _ = clusters.get(row.cluster, (0.0, 0.0))
            counted = row.events if row.component in ACCELERATOR_COMPONENTS else 0.0
            clusters[row.cluster] = (events + counted, row.node_days)
    weights = [days * prior_days / (days + prior_days) for _, days in clusters.values()]
    rates = [events / days for events, days in clusters.values()]
    weighted = sum(weight * rate for weight, rate in zip(weights, rates, strict=True))
    return (pool * prior_days + weighted) / (prior_days + sum(weights)) / pool


def prior_failures_per_day(
    *, num_gpus: ArrayLike, gpus_per_node: ArrayLike, accelerator: str | Sequence[str]
) -> FloatArray:
    """Return expected failures per day from published rates alone: a feature of every prediction.

    Parameters
    ----------
    num_gpus, gpus_per_node : array_like, shape (n,)
        Accelerators in the job and per node.
    accelerator : str or sequence of str, length n
        Catalogue names; an unknown one gets the pooled rate.

    Returns
    -------
    ndarray, shape (n,)
        Failures per day of job-stopping kind.
    """
    counts = hardware_counts(num_gpus=num_gpus, gpus_per_node=gpus_per_node)
    names = np.broadcast_to(np.asarray(accelerator, dtype=object), counts.gpu.shape)
    distinct, inverse = np.unique(names.astype(str), return_inverse=True)
    families = np.array([accelerator_family(name) for name in distinct])[inverse]
    failures = np.empty(counts.gpu.shape)
    units = counts.per_component()
    for family in np.unique(families):
        rows = families == family
        failures[rows] = units[rows] @ published_prior(str(family)).mean_per_unit_day
    return failures
