"""How often each plan's job fails: from a site's own rates, or the published ones of its accelerators."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from surrogate.forecast.inputs import RunPolicy, TrainingPlans
from surrogate.reliability.arrays import FloatArray, IntArray, real
from surrogate.reliability.failures import ComponentRates, component_index, job_rate_gamma
from surrogate.reliability.hardware import COMPONENTS, NODE_REMOVING_COMPONENTS, HardwareCounts, hardware_counts
from surrogate.reliability.priors import accelerator_family, published_prior


@dataclass(frozen=True, kw_only=True, slots=True)
class FailureLaw:
    """A job's failures: Gamma rate per day, and how they divide; arrays of shape (n,).

    ``silent_share`` corrupts without stopping, ``switch_share`` takes a group of nodes, ``removed_per_node_day`` sends
    nodes to repair one at a time.
    """

    shape: FloatArray
    exposure_days: FloatArray
    silent_share: FloatArray
    switch_share: FloatArray
    removed_per_node_day: FloatArray
    dispersion: float

    @property
    def per_day(self) -> FloatArray:
        """Expected failures per day."""
        return self.shape / self.exposure_days


def failure_law(plans: TrainingPlans, policy: RunPolicy) -> FailureLaw:
    """Return the failures of each plan: its own rates, or the published ones of its accelerator's family."""
    plans = plans.broadcast()
    counts = hardware_counts(num_gpus=plans.num_gpus, gpus_per_node=plans.gpus_per_node)
    names, inverse = np.unique(np.asarray(plans.accelerator).astype(str), return_inverse=True)
    families = np.array([accelerator_family(name) if policy.rates is None else "own" for name in names])[inverse]
    columns = np.empty((5, len(families)))
    for family in np.unique(families):
        rows = np.flatnonzero(families == family)
        rates = policy.rates or published_prior(str(family), policy.maturity)
        columns[:, rows] = _law_columns(rates, _rows(counts, rows))
    shape, exposure, silent, switch, removed = columns
    factor = real("failure_rate_factor", policy.failure_rate_factor, strict=True)
    dispersion = 1.0 if policy.rates is None else policy.rates.dispersion
    return FailureLaw(
        shape=shape,
        exposure_days=exposure / factor,
        silent_share=silent,
        switch_share=switch,
        removed_per_node_day=removed * factor,
        dispersion=dispersion,
    )


def plan_rates(accelerator: str, policy: RunPolicy) -> ComponentRates:
    """Return the failure rates behind a plan's law, before ``failure_rate_factor``."""
    return policy.rates or published_prior(accelerator_family(accelerator), policy.maturity)


def _law_columns(rates: ComponentRates, counts: HardwareCounts) -> FloatArray:
    shape, exposure = job_rate_gamma(rates=rates, counts=counts)
    per_component = counts.per_component() * rates.mean_per_unit_day
    removing = [COMPONENTS.index(name) for name in NODE_REMOVING_COMPONENTS]
    shares = per_component / per_component.sum(axis=1, keepdims=True)
    silent, switch = shares[:, component_index("sdc")], shares[:, component_index("switch")]
    return np.stack([shape, exposure, silent, switch, per_component[:, removing].sum(axis=1) / counts.node])


def _rows(counts: HardwareCounts, rows: IntArray) -> HardwareCounts:
    return HardwareCounts(
        gpu=counts.gpu[rows], node=counts.node[rows], nic=counts.nic[rows], switch=counts.switch[rows]
    )
