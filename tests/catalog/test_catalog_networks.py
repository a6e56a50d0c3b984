"""Interconnects and clusters."""

from __future__ import annotations

import pytest

from surrogate.catalog import (
    fast_link_bytes_per_s,
    find_entries,
    load_accelerators,
    load_clusters,
    load_interconnects,
    load_kind,
    match_cluster,
    publisher_families,
    resolve_accelerator,
    resolve_interconnect,
)
from surrogate.errors import UnknownNameError

FABRICS_IN_THE_RUNS = [
    *("IB HDR", "RoCE", "IB NDR", "OPA", "ICI + DCN", "IB XDR", "RoCE v2", "EFA", "IB or RoCE (not stated)"),
    *("RDMA (type not stated)", "Spectrum-X or IB XDR (not stated)", "RDMA (ConnectX-7)"),
    "RoCE v2 on die (3 of 24 ports per card)",
]


@pytest.mark.parametrize("fabric", FABRICS_IN_THE_RUNS)
def test_every_fabric_of_the_runs_is_known(fabric: str) -> None:
    assert resolve_interconnect(fabric).scope == "network"


@pytest.mark.parametrize("link", load_interconnects().values(), ids=lambda link: link.name)
def test_interconnect_is_cited_and_positive(link: object) -> None:
    assert link.sources
    assert link.bytes_per_s > 0
    assert link.scope in ("intra-node", "host", "network")


@pytest.mark.parametrize(
    ("intra_node", "accelerator", "gbytes_per_s"),
    [
        ("NVLink3-600GBps", "A100", 300),
        ("NVLink4-900GBps", "H100", 450),
        ("NVLink5-1800GBps", "B200", 900),
        ("NVL72", "GB200", 900),
        ("NVLink", "H800", 200),
        (None, "V100", 150),
        ("PCIe4 64 GB/s", "A100", 32),
    ],
)
def test_fast_link_is_half_of_the_marketed_rate(intra_node: str | None, accelerator: str, gbytes_per_s: float) -> None:
    assert fast_link_bytes_per_s(intra_node, accelerator) == gbytes_per_s * 1e9


@pytest.mark.parametrize(
    ("link", "accelerator"),
    [("NVLink3", "A100"), ("NVLink4", "H100"), ("NVLink5", "B200"), ("NVL72", "GB200"), ("ICI TPUv5p", "TPUv5p")],
)
def test_link_and_accelerator_agree(link: str, accelerator: str) -> None:
    assert resolve_interconnect(link).bytes_per_s == resolve_accelerator(accelerator).fast_link_bytes_per_s


def test_clusters_use_catalogue_accelerators_and_nominal_rates_add_up() -> None:
    for cluster in load_clusters():
        assert cluster.accelerator in load_accelerators()
        assert cluster.source_ref
        if cluster.nics_per_node and cluster.nic_bytes_per_s and cluster.inter_node_bytes_per_s:
            assert cluster.nics_per_node * cluster.nic_bytes_per_s == cluster.inter_node_bytes_per_s


def test_cluster_of_a_publication() -> None:
    selene = match_cluster(source="megatron-lm-sc21", accelerator="A100-80GB", framework="megatron-lm")
    assert selene is not None
    assert selene.cluster == "Selene"
    assert selene.inter_node_bytes_per_s == 8 * 200e9 / 8
    assert match_cluster(source="nobody", accelerator="A100-80GB") is None


def test_source_reference_tells_submitters_of_one_source_apart() -> None:
    where = "mlcommons/training_results_v3.0 {}/results/x"
    common = {"source": "mlperf-training-v3.0", "accelerator": "H100-80GB", "framework": "nemo"}
    nvidia = match_cluster(**common, source_ref=where.format("NVIDIA"))
    coreweave = match_cluster(**common, source_ref=where.format("NVIDIA_CoreWeave"))
    assert (nvidia.publisher_family, coreweave.publisher_family) == ("mlperf-nvidia", "mlperf-coreweave")
    assert set(publisher_families("mlperf-training-v3.0")) >= {"mlperf-nvidia", "mlperf-coreweave"}


def test_there_are_thirty_five_publisher_families() -> None:
    assert len({cluster.publisher_family for cluster in load_clusters()}) == 35


def test_find_entries_over_all_tables() -> None:
    assert find_entries("H200")[0].name == "H200-141GB"
    assert find_entries("llama2-70b")[0].name == "llama2-70b"
    assert find_entries("EFA")[0].name == "EFA"
    assert {cluster.source for cluster in find_entries("vtrain")} == {"vtrain-ground-truth"}
    with pytest.raises(UnknownNameError, match="did you mean"):
        find_entries("H20000")


def test_kinds() -> None:
    assert [len(load_kind(kind)) for kind in ("accelerators", "models", "clusters")] == [39, 140, 128]
    with pytest.raises(UnknownNameError, match="accelerators"):
        load_kind("gpus")
