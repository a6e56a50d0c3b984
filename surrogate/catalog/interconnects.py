"""Links inside a node and networks between nodes: kinds and nominal rates, in one direction."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache

from surrogate.catalog.accelerators import resolve_accelerator
from surrogate.catalog.files import flag, read_table, scaled, split_list
from surrogate.catalog.names import NameIndex, build_index
from surrogate.units import BYTES_PER_S_PER_GBIT_PER_S, GIGA

_MARKETED_RATE = re.compile(r"(\d+(?:\.\d+)?)\s*GB(?:ps|/s)", re.IGNORECASE)
_DIRECTIONS_MARKETED = 2  # vendors print the sum of both directions


@dataclass(frozen=True, kw_only=True, slots=True)
class Interconnect:
    """One kind of link; `bytes_per_s` is per accelerator inside a node and per port or adapter on a network."""

    name: str
    aliases: tuple[str, ...]
    scope: str
    """intra-node, host or network."""
    kind: str
    """What shares an efficiency: NVLink, PCIe, ICI, Infinity Fabric, IB, RoCE, EFA, OPA, ..."""
    bytes_per_s: float
    """Nominal, one direction."""
    all_to_all: bool
    date: str
    verified: str
    sources: tuple[str, ...]
    notes: str


@cache
def load_interconnects() -> dict[str, Interconnect]:
    """Return every interconnect by name."""
    return {
        row["name"]: Interconnect(
            name=row["name"],
            aliases=split_list(row["aliases"]),
            scope=row["scope"],
            kind=row["kind"],
            bytes_per_s=scaled(row["gbit_per_s_one_direction"], BYTES_PER_S_PER_GBIT_PER_S),
            all_to_all=flag(row["all_to_all"]),
            date=row["date"],
            verified=row["verified"],
            sources=split_list(row["sources"]),
            notes=row["notes"],
        )
        for row in read_table("interconnects")
    }


@cache
def interconnect_index() -> NameIndex:
    """Return the index of interconnect names and aliases."""
    return build_index("interconnect", {name: link.aliases for name, link in load_interconnects().items()})


def resolve_interconnect(name: str) -> Interconnect:
    """Return the interconnect a name or alias means.

    Raises
    ------
    UnknownNameError
        With near matches.

    Examples
    --------
    >>> resolve_interconnect("RoCE v2").kind, resolve_interconnect("NVLink4").bytes_per_s
    ('RoCE', 450000000000.0)
    """
    return load_interconnects()[interconnect_index().resolve(name)]


def fast_link_bytes_per_s(intra_node: str | None, accelerator: str) -> float:
    """Return the one-direction rate of the fast link of one accelerator.

    Parameters
    ----------
    intra_node : str or None
        The runs table's text. A printed rate (``"NVLink3-600GBps"``) is the marketed sum of both directions; without a
        rate, or without text, the accelerator's own link counts.
    accelerator : str
        Name or alias.

    Returns
    -------
    float
        Bytes per second.

    Raises
    ------
    UnknownNameError
        For an unknown accelerator.

    Examples
    --------
    >>> fast_link_bytes_per_s("NVLink3-600GBps", "A100"), fast_link_bytes_per_s("NVLink", "H100")
    (300000000000.0, 450000000000.0)
    """
    printed = _MARKETED_RATE.search(intra_node or "")
    if printed:
        return float(printed.group(1)) * GIGA / _DIRECTIONS_MARKETED
    return resolve_accelerator(accelerator).fast_link_bytes_per_s
