"""The whole catalogue at once: tables by kind, and entries by any name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from surrogate.catalog.accelerators import Accelerator, accelerator_index, load_accelerators
from surrogate.catalog.clusters import Cluster, load_clusters
from surrogate.catalog.interconnects import Interconnect, interconnect_index, load_interconnects
from surrogate.catalog.models import ModelPreset, load_models, model_index
from surrogate.catalog.names import MAX_NEAR_MATCHES, NameIndex, name_key
from surrogate.errors import UnknownNameError

Entry = Accelerator | ModelPreset | Interconnect | Cluster
KINDS: Final = ("accelerators", "models", "interconnects", "clusters")


def load_kind(kind: str) -> tuple[Entry, ...]:
    """Return every entry of one table, in its order.

    Parameters
    ----------
    kind : {"accelerators", "models", "interconnects", "clusters"}
        Which table.

    Raises
    ------
    UnknownNameError
        For another kind.
    """
    if kind == "accelerators":
        return tuple(load_accelerators().values())
    if kind == "models":
        return tuple(load_models().values())
    if kind == "interconnects":
        return tuple(load_interconnects().values())
    if kind == "clusters":
        return load_clusters()
    raise UnknownNameError("kind", kind, KINDS)


def find_entries(name: str) -> tuple[Entry, ...]:
    """Return the entries a name means: one accelerator, model or link, or the clusters of a publication.

    Parameters
    ----------
    name : str
        Name or alias; for clusters the publication, its publisher family or the cluster's own name.

    Raises
    ------
    UnknownNameError
        With near matches from all tables.

    Examples
    --------
    >>> [entry.name for entry in find_entries("h100")]
    ['H100-80GB']
    """
    indexes = (accelerator_index(), model_index(), interconnect_index())
    tables: tuple[Mapping[str, Entry], ...] = (load_accelerators(), load_models(), load_interconnects())
    for index, table in zip(indexes, tables, strict=True):
        entry = _named(name, index, table)
        if entry is not None:
            return (entry,)
    key = name_key(name)
    clusters = tuple(
        cluster
        for cluster in load_clusters()
        if key in (name_key(cluster.source), name_key(cluster.publisher_family), name_key(cluster.cluster))
    )
    if clusters:
        return clusters
    near = [candidate for index in indexes for candidate in index.near(name)[:2]]
    raise UnknownNameError("name", name, near[:MAX_NEAR_MATCHES], "see `surrogate catalog list`")


def _named(name: str, index: NameIndex, table: Mapping[str, Entry]) -> Entry | None:
    try:
        return table[index.resolve(name)]
    except UnknownNameError:
        return None
