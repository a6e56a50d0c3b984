"""Measured runs of one's own as rows that a predictor can be conditioned on."""

from __future__ import annotations

import pandas as pd

from surrogate.api.predictor import Site
from surrogate.derive import derive_columns
from surrogate.schema import validate_runs

HYPOTHETICAL_SITE = "(this site)"
"""Where plans of an unknown site are measured in thought, so that they share its habits."""


def as_measured(plan: pd.DataFrame, step_time_s: float, site: Site) -> pd.DataFrame:
    """Return plans as if each had been measured at a site, with derived columns.

    Parameters
    ----------
    plan : DataFrame of n rows
        Canonical columns.
    step_time_s : float
        The time taken as measured.
    site : Site
        Where.
    """
    given = plan.assign(
        step_time_s=step_time_s, status="ok", quality="a", source=site.source, publisher_family=site.family
    )
    return derive_columns(validate_runs(given.drop(columns=["mfu", "tokens_per_s_per_gpu"], errors="ignore"), "plan"))


def shared_site(site: Site | None) -> Site:
    """Return the site, or a nameless one for plans of which nothing is known."""
    if site is not None and site.source is not None:
        return site
    family = site.family if site is not None else None
    return Site(name=HYPOTHETICAL_SITE, source=HYPOTHETICAL_SITE, family=family or HYPOTHETICAL_SITE)
