"""Sites: who measures. A known source or publisher family, or a team's own runs over the shipped predictor."""

from __future__ import annotations

from surrogate.api.predictor import Predictor, Site
from surrogate.api.site_files import SitePack, load_site, site_file
from surrogate.estimators.ratio_spread import HYPOTHETICAL_SITE


def choose_site(predictor: Predictor, name: str) -> Predictor:
    """Return the predictor for plans of a site.

    Parameters
    ----------
    predictor : Predictor
        As trained.
    name : str
        A site file or its name, a source, or a publisher family; anything else means the population.

    Raises
    ------
    FileFormatError
        If a site file cannot be read.
    """
    path = site_file(name)
    if path.is_file() or name.endswith(".json"):
        return with_pack(predictor, load_site(path))
    known = predictor.manifest.sites
    if name in known:
        family = known[name][0] if known[name] else None
        return predictor.at_site(Site(name=name, source=name, family=family))
    families = {family for names in known.values() for family in names}
    return predictor.at_site(Site(name=name, source=None, family=name if name in families else None))


def shared_site(site: Site | None) -> Site:
    """Return the site, or a nameless one for plans of which nothing is known."""
    if site is not None and site.source is not None:
        return site
    family = site.family if site is not None else None
    return Site(name=HYPOTHETICAL_SITE, source=HYPOTHETICAL_SITE, family=family or HYPOTHETICAL_SITE)


def with_pack(predictor: Predictor, pack: SitePack) -> Predictor:
    """Return the predictor with a site's own runs, if they are fit to be used."""
    site = Site(name=pack.name, source=pack.name, family=pack.family, own_runs=len(pack.runs) if pack.conditions else 0)
    conditioned = predictor.with_runs(pack.runs) if pack.conditions else predictor
    return conditioned.at_site(site)
