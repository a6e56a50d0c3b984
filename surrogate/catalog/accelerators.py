"""Accelerators: what one device computes, holds and moves, in SI units, each row with its public source."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from surrogate.catalog.files import Row, optional_float, optional_int, read_table, scaled, split_list
from surrogate.catalog.names import NameIndex, build_index
from surrogate.catalog.user_files import user_catalog_path, with_user_rows
from surrogate.units import BYTES_PER_S_PER_GBIT_PER_S, GIB, GIGA, MEGA, TERA

_MAKER_WORDS = ("nvidia", "tesla", "geforce", "amd", "instinct", "intel", "habana", "google", "cloud", "aws", "gpu")
_FORM_WORDS = ("sxm", "sxm2", "sxm3", "sxm4", "sxm5", "sxm6", "oam", "dgx", "hgx", "hbm2", "hbm2e", "hbm3", "hbm3e")


@dataclass(frozen=True, kw_only=True, slots=True)
class Accelerator:
    """One device as the framework counts it (an MI250X is two, a TPU chip is one).

    Rates are dense (no structured sparsity) and links are in one direction: half of the marketed figure.
    None means unsupported or not published.
    """

    name: str
    aliases: tuple[str, ...]
    vendor: str
    architecture: str
    """Generation that shares kernels and habits: Volta, Ampere, Hopper, Blackwell, CDNA3, TPU, ..."""
    form: str
    hbm_bytes: float
    """Usable device memory as the driver reports it."""
    hbm_bytes_per_s: float
    fp32_flops_per_s: float | None
    """Vector (non-tensor) rate."""
    tf32_flops_per_s: float | None
    bf16_flops_per_s: float | None
    fp16_flops_per_s: float | None
    fp8_flops_per_s: float | None
    fp4_flops_per_s: float | None
    """NVFP4 on NVIDIA, MXFP4 on AMD."""
    int8_flops_per_s: float | None
    """Integer operations per second."""
    fast_link: str
    fast_topology: str
    """switch and mesh are all-to-all at the full rate; cube-mesh, partial-mesh and torus are not; host is PCIe."""
    fast_link_bytes_per_s: float
    fast_domain_gpus: int
    """Accelerators that can share the fast link."""
    gpus_per_node: int
    """Typical node size."""
    nic_bytes_per_s: float
    """Typical inter-node network per accelerator: a property of the site, so let a plan override it."""
    host_link: str
    host_link_bytes_per_s: float
    host_link_source: str
    """Where the host link's rate was read, or on what it is assumed."""
    sm_count: int | None
    boost_hz: float | None
    tdp_w: float | None
    release: str
    """Month of public announcement, yyyy-mm."""
    verified: str
    sources: tuple[str, ...]
    notes: str


def accelerator_from_row(row: Row) -> Accelerator:
    """Build an accelerator from a row of a catalogue table."""
    return Accelerator(
        name=row["name"],
        aliases=split_list(row["aliases"]),
        vendor=row["vendor"],
        architecture=row["architecture"],
        form=row["form"],
        hbm_bytes=scaled(row["hbm_gib_usable"], GIB),
        hbm_bytes_per_s=scaled(row["hbm_gbytes_per_s"], GIGA),
        fp32_flops_per_s=optional_float(row["fp32_tflops_per_s"], TERA),
        tf32_flops_per_s=optional_float(row["tf32_tflops_per_s"], TERA),
        bf16_flops_per_s=optional_float(row["bf16_tflops_per_s"], TERA),
        fp16_flops_per_s=optional_float(row["fp16_tflops_per_s"], TERA),
        fp8_flops_per_s=optional_float(row["fp8_tflops_per_s"], TERA),
        fp4_flops_per_s=optional_float(row["fp4_tflops_per_s"], TERA),
        int8_flops_per_s=optional_float(row["int8_tops_per_s"], TERA),
        fast_link=row["fast_link"],
        fast_topology=row["fast_topology"],
        fast_link_bytes_per_s=scaled(row["fast_link_gbytes_per_s"], GIGA),
        fast_domain_gpus=int(row["fast_domain_gpus"]),
        gpus_per_node=int(row["gpus_per_node"]),
        nic_bytes_per_s=scaled(row["nic_gbit_per_s"], BYTES_PER_S_PER_GBIT_PER_S),
        host_link=row["host_link"],
        host_link_bytes_per_s=scaled(row["host_link_gbytes_per_s"], GIGA),
        host_link_source=row["host_link_source"],
        sm_count=optional_int(row["sm_count"]),
        boost_hz=optional_float(row["boost_mhz"], MEGA),
        tdp_w=optional_float(row["tdp_w"]),
        release=row["release"],
        verified=row["verified"],
        sources=split_list(row["sources"]),
        notes=row["notes"],
    )


def load_accelerators() -> dict[str, Accelerator]:
    """Return every accelerator by canonical name, the user's own included."""
    return _load_accelerators(user_catalog_path())


def accelerator_index() -> NameIndex:
    """Return the index of accelerator names and aliases."""
    return _accelerator_index(user_catalog_path())


def resolve_accelerator(name: str) -> Accelerator:
    """Return the accelerator a name or alias means, whatever its case.

    Parameters
    ----------
    name : str
        ``"H100"``, ``"NVIDIA H100 80GB HBM3"``, ``"tpu v5p"``, ...

    Raises
    ------
    UnknownNameError
        With near matches.

    Examples
    --------
    >>> resolve_accelerator("h100").name, resolve_accelerator("NVIDIA H20").name
    ('H100-80GB', 'H20-96GB')
    """
    return load_accelerators()[accelerator_index().resolve(name)]


@cache
def _load_accelerators(user_path: str) -> dict[str, Accelerator]:
    rows = with_user_rows("accelerators", read_table("accelerators"), user_path)
    return {row["name"]: accelerator_from_row(row) for row in rows}


@cache
def _accelerator_index(user_path: str) -> NameIndex:
    aliases = {name: accelerator.aliases for name, accelerator in _load_accelerators(user_path).items()}
    return build_index("accelerator", aliases, noise=_MAKER_WORDS + _FORM_WORDS)
