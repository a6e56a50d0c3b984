"""Who keeps the others waiting: arrival of the ranks at their common collectives."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from surrogate.traces.breakdown import seconds
from surrogate.traces.collectives import clock_offsets_ns, matched_calls
from surrogate.traces.columns import Trace


class Straggler(NamedTuple):
    """One rank's lateness at the collectives it shares with other ranks of the traces.

    `mean_lateness_s` is the mean time after the first rank's arrival; `last_fraction` the share of calls at which
    this rank came last.
    """

    rank: int
    num_calls: int
    mean_lateness_s: float
    last_fraction: float


def find_stragglers(traces: Sequence[Trace]) -> list[Straggler]:
    """Return the ranks by lateness, the latest first; empty when no call is shared.

    Notes
    -----
    Arrival is the start of the collective's kernel on a clock on which matched calls end together.
    """
    offsets = clock_offsets_ns(traces)
    lateness: list[list[float]] = [[] for _ in traces]
    last = [0] * len(traces)
    for call in matched_calls(traces):
        arrival = {position: int(traces[position].start_ns[row]) + offsets[position] for position, row in call.items()}
        first, latest = min(arrival.values()), max(arrival, key=arrival.__getitem__)
        last[latest] += 1
        for position, moment in arrival.items():
            lateness[position].append(seconds(moment - first))
    found = [
        Straggler(
            rank=position if trace.info.rank is None else trace.info.rank,
            num_calls=len(own),
            mean_lateness_s=float(np.mean(own)),
            last_fraction=last[position] / len(own),
        )
        for position, (trace, own) in enumerate(zip(traces, lateness, strict=True))
        if own
    ]
    return sorted(found, key=lambda each: -each.mean_lateness_s)
