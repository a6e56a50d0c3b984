"""What goes into the site effects: prior scales, measured rows, and the points around which they are linearised."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from surrogate.analytic.coefficients import LOG_SD, LOG_TEXTBOOK
from surrogate.analytic.step_terms import StepTerms
from surrogate.analytic.workload import FloatArray
from surrogate.features.knobs import KNOBS
from surrogate.features.levels import SiteLevels

_LARGEST_SHIFT = 3.0
"""Linearisation points stay within three prior standard deviations."""


@dataclass(frozen=True, kw_only=True, slots=True)
class EffectScales:
    """How far coefficients (relative to their own prior) and offsets (log time) vary at each level.

    Round values to start from; `scale_selection` halves or doubles those that training rows want otherwise.
    """

    coefficients: dict[str, float] = field(
        default_factory=lambda: {
            "global": 1.0,
            "stack": 0.5,
            "accelerator_family": 0.7,
            "expert_shape": 0.3,
            "publisher_family": 0.25,
            "release": 0.25,
        }
    )
    offsets: dict[str, float] = field(
        default_factory=lambda: {
            "global": 0.10,
            "stack": 0.05,
            "accelerator_family": 0.09,
            "expert_shape": 0.07,
            "publisher_family": 0.045,
            "release": 0.045,
        }
    )
    smooth: float = 0.25
    smooth_length: float = 5.0
    smooth_factors: dict[str, float] = field(
        default_factory=lambda: {
            "num_experts": 2.5,
            "fused_dispatch": 2.5,
            "selective_recompute": 2.5,
            "peak_flops_per_s": 2.5,
            "micro_batch_size": 0.5,
            "num_microbatches": 0.5,
            "vp": 0.0,
            "fp8": 0.0,
            "fp4": 0.0,
            "mxfp8": 0.0,
        }
    )
    """What knobs count in distances between publishers, where not 1: what the physics gets wrong is shared by models,
    kernels and generations of accelerators, hardly by batches."""
    site_smooth: float = 0.1
    site_smooth_length: float = 2.0
    stack_memory_years: float = 3.0
    noise_factor: float = 0.7
    largest_width: float = 9.0
    """Of a publisher's variances: three times their standard deviation."""
    publisher_width: dict[str, float] = field(default_factory=dict)
    """Factor on the variances of publisher and release of families that lie farther out than others; learnt."""

    @property
    def knob_factors(self) -> FloatArray:
        """The `smooth_factors` of all knobs, shape (d,)."""
        return np.array([self.smooth_factors.get(name, 1.0) for name in KNOBS])

    def widths(self, families: NDArray[np.object_]) -> FloatArray:
        """Return the `publisher_width` of each family, 1 where it has none, shape (n,)."""
        return np.array([self.publisher_width.get(name, 1.0) for name in families])


@dataclass(frozen=True, kw_only=True, slots=True)
class SiteData:
    """Measured rows as the model sees them."""

    terms: StepTerms
    levels: SiteLevels
    knobs: FloatArray
    """Shape (n, d)."""
    log_time: FloatArray
    noise_sd: FloatArray
    """Standard deviation of log time between repeats, shape (n,)."""

    def __len__(self) -> int:
        return len(self.log_time)

    def take(self, rows: NDArray[np.int64] | NDArray[np.bool_]) -> SiteData:
        """Return the selected rows."""
        return SiteData(
            terms=self.terms.take(rows),
            levels=self.levels.take(rows),
            knobs=self.knobs[rows],
            log_time=self.log_time[rows],
            noise_sd=self.noise_sd[rows],
        )


def concatenated(one: StepTerms | SiteLevels, other: StepTerms | SiteLevels) -> dict[str, Any]:
    """Return every column of both, one after the other."""
    return {f.name: np.concatenate([getattr(one, f.name), getattr(other, f.name)]) for f in fields(one)}


@dataclass(frozen=True, kw_only=True, slots=True)
class SharedPoints:
    """Linearisation points: a population vector with shifts by stack and accelerator family, each of shape (k,)."""

    population: FloatArray
    by_stack: dict[str, FloatArray]
    by_family: dict[str, FloatArray]

    @classmethod
    def textbook(cls) -> SharedPoints:
        """Return the prior means, without shifts."""
        return cls(population=LOG_TEXTBOOK.copy(), by_stack={}, by_family={})

    def towards(self, target: SharedPoints, share: float) -> SharedPoints:
        """Return the points moved by `share` of the way to `target`."""
        nothing = np.zeros_like(self.population)

        def mix(now: dict[str, FloatArray], then: dict[str, FloatArray]) -> dict[str, FloatArray]:
            return {name: (1.0 - share) * now.get(name, nothing) + share * value for name, value in then.items()}

        return SharedPoints(
            population=(1.0 - share) * self.population + share * target.population,
            by_stack=mix(self.by_stack, target.by_stack),
            by_family=mix(self.by_family, target.by_family),
        )

    def at(self, levels: SiteLevels) -> FloatArray:
        """Return one point per row, within `_LARGEST_SHIFT` prior standard deviations, shape (m, k)."""
        points = np.tile(self.population, (len(levels), 1))
        for names, table in ((levels.stack, self.by_stack), (levels.accelerator_family, self.by_family)):
            codes, distinct = pd.factorize(names)
            shifts = np.array([table.get(str(name), np.zeros_like(self.population)) for name in distinct])
            points += shifts[codes]
        reach = _LARGEST_SHIFT * LOG_SD
        return LOG_TEXTBOOK + np.clip(points - LOG_TEXTBOOK, -reach, reach)
