"""The clusters behind published runs: where each publication measured, and how sure its network figure is."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from surrogate.catalog.files import Row, optional_float, optional_int, read_table
from surrogate.units import BYTES_PER_S_PER_GBIT_PER_S, GIGA


@dataclass(frozen=True, kw_only=True, slots=True)
class Cluster:
    """One machine of one publication; rates are nominal and in one direction.

    `framework` and `applies_to` narrow which runs of the publication it holds for; empty means all.
    """

    source: str
    publisher_family: str
    """Who measures: the same stack and machines over successive releases."""
    cluster: str
    accelerator: str
    framework: str
    applies_to: str
    """Text that the `source_ref` of the run contains."""
    gpus_per_node: int | None
    intra_node: str
    fast_link_bytes_per_s: float | None
    fast_domain_gpus: int | None
    nics_per_node: int | None
    nic_bytes_per_s: float | None
    inter_node_bytes_per_s: float | None
    """Per node, accelerator fabric only."""
    fabric: str
    storage: str
    software: str
    confidence: str
    """How the network figure is known."""
    source_ref: str
    """Citation of the figures."""
    notes: str

    def holds_for(self, *, framework: str, source_ref: str) -> bool:
        """Return whether a run of this source and accelerator was measured here."""
        return self.framework in ("", framework) and self.applies_to in source_ref


def _cluster(row: Row) -> Cluster:
    return Cluster(
        source=row["source"],
        publisher_family=row["publisher_family"],
        cluster=row["cluster"],
        accelerator=row["accelerator"],
        framework=row["framework"],
        applies_to=row["applies_to"],
        gpus_per_node=optional_int(row["gpus_per_node"]),
        intra_node=row["intra_node"],
        fast_link_bytes_per_s=optional_float(row["fast_link_gbytes_per_s"], GIGA),
        fast_domain_gpus=optional_int(row["fast_domain_gpus"]),
        nics_per_node=optional_int(row["nics_per_node"]),
        nic_bytes_per_s=optional_float(row["nic_gbit_per_s"], BYTES_PER_S_PER_GBIT_PER_S),
        inter_node_bytes_per_s=optional_float(row["inter_node_gbit_per_s"], BYTES_PER_S_PER_GBIT_PER_S),
        fabric=row["fabric"],
        storage=row["storage"],
        software=row["software"],
        confidence=row["confidence"],
        source_ref=row["source_ref"],
        notes=row["notes"],
    )


@cache
def load_clusters() -> tuple[Cluster, ...]:
    """Return the clusters in the order of the table."""
    return tuple(_cluster(row) for row in read_table("clusters"))


def match_cluster(*, source: str, accelerator: str, framework: str = "", source_ref: str = "") -> Cluster | None:
    """Return the cluster a published run was measured on, or None if the publication is not in the table.

    Parameters
    ----------
    source : str
        Slug of the publication.
    accelerator : str
        Canonical accelerator name.
    framework, source_ref : str, optional
        The run's own cells; they decide where one publication used several clusters.

    Examples
    --------
    >>> match_cluster(source="megatron-lm-sc21", accelerator="A100-80GB", framework="megatron-lm").cluster
    'Selene'
    """
    for cluster in load_clusters():
        if (cluster.source, cluster.accelerator) == (source, accelerator) and cluster.holds_for(
            framework=framework, source_ref=source_ref
        ):
            return cluster
    return None


def publisher_families(source: str) -> tuple[str, ...]:
    """Return the publisher families of a source; MLPerf rounds span several.

    Examples
    --------
    >>> publisher_families("vtrain-ground-truth")
    ('vtrain',)
    """
    return tuple(dict.fromkeys(c.publisher_family for c in load_clusters() if c.source == source))
