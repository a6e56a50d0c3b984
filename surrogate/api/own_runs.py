"""The site that plans of an unknown publisher share."""

from __future__ import annotations

from surrogate.api.predictor import Site

HYPOTHETICAL_SITE = "(this site)"
"""Where plans of an unknown site are measured in thought, so that they share its habits."""


def shared_site(site: Site | None) -> Site:
    """Return the site, or a nameless one for plans of which nothing is known."""
    if site is not None and site.source is not None:
        return site
    family = site.family if site is not None else None
    return Site(name=HYPOTHETICAL_SITE, source=HYPOTHETICAL_SITE, family=family or HYPOTHETICAL_SITE)
