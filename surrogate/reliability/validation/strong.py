"""Cases whose inputs and truth are both published: each has a tolerance and must meet it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

from surrogate.reliability.checkpointing import (
    CheckpointLayout,
    checkpoint_size,
    stalled_throughput_fraction,
    wasted_per_failure_s,
)
from surrogate.reliability.failures import probability_of_failure
from surrogate.reliability.goodput import first_order_ettr, job_mtbf_s
from surrogate.reliability.spares import node_unavailability
from surrogate.reliability.validation.case import CaseResult, PublishedCase, Verdict, read_published_cases
from surrogate.units import (
    BYTES_PER_S_PER_GBIT_PER_S,
    GIB,
    GIGA,
    KILO,
    SECONDS_PER_HOUR,
    SECONDS_PER_MINUTE,
)

_RSC_RATE: Final = 6.5e-3
_TIB_IN_GIB: Final = 1024.0


def strong_cases(data: Path) -> tuple[CaseResult, ...]:
    """Return every strong case, predicted and judged.

    Parameters
    ----------
    data : Path
        Folder of `validation_cases.csv`.
    """
    cases = read_published_cases(data / "validation_cases.csv")
    results = []
    for identity, case in cases.items():
        predicted = PREDICTIONS[identity]()
        miss = predicted / case.published - 1.0
        results.append(
            CaseResult(
                group="strong" if case.gate else "strong, second-hand",
                case=f"{identity}: {case.case}",
                predicted=f"{predicted:.4g} {case.unit}",
                published=f"{case.published:.4g} {case.unit}",
                verdict=_verdict(case, abs(miss) <= case.relative_tolerance),
                remark=f"{miss:+.2%}, tolerance {case.relative_tolerance:.2g}",
            )
        )
    return tuple(results)


def _verdict(case: PublishedCase, met: bool) -> Verdict:
    if case.gate:
        return "pass" if met else "fail"
    return "within" if met else "outside"


def _mtbf_hours(num_nodes: float) -> float:
    return float(job_mtbf_s(num_nodes=num_nodes, failures_per_node_day=_RSC_RATE)) / SECONDS_PER_HOUR


def _scaled_mtbf_hours() -> float:
    per_node_day = 1.0 / 47.7
    return float(job_mtbf_s(num_nodes=1024 / 8, failures_per_node_day=per_node_day)) / SECONDS_PER_HOUR


def _rsc_ettr() -> float:
    rate = 1.0 / job_mtbf_s(num_nodes=2048, failures_per_node_day=_RSC_RATE)
    minutes = 5.0 * SECONDS_PER_MINUTE
    return float(first_order_ettr(failures_per_s=rate, interval_s=minutes, stall_s=0.0, outage_s=minutes))


def _checkpoint_bytes(num_params: float, weight_bytes: float = 2.0) -> float:
    layout = CheckpointLayout(
        num_params=num_params, num_gpus=384, gpus_per_node=8, tp=4, pp=12, dp=8, weight_bytes=weight_bytes
    )
    return float(checkpoint_size(layout).total_bytes)


def _kept(step_time_s: float, stall_s: float, steps: float = 1.0) -> float:
    return float(stalled_throughput_fraction(step_time_s=step_time_s, steps=steps, stall_s=stall_s))


def _overhead_of_saving() -> float:
    return 1.0 / _kept(105.0, 40.0, steps=100.0) - 1.0


def _trace_unavailability() -> float:
    repair_s = 132.84 * SECONDS_PER_HOUR
    return float(node_unavailability(failures_per_node_day=584 / (400 * 348), repair_s=repair_s))


def _mt_nlg_save_minutes() -> float:
    return _checkpoint_bytes(530 * GIGA, weight_bytes=0.0) / (20 * BYTES_PER_S_PER_GBIT_PER_S) / SECONDS_PER_MINUTE


PREDICTIONS: Final[dict[str, Callable[[], float]]] = {
    "V01": lambda: _mtbf_hours(2048),
    "V02": lambda: _mtbf_hours(16384),
    "V03": _scaled_mtbf_hours,
    "V04": _rsc_ettr,
    "V05": lambda: float(probability_of_failure(units=KILO, failures_per_unit_day=0.0027)),
    "V06": lambda: float(wasted_per_failure_s(save_s=42.0, interval_s=42.0, load_s=42.0)),
    "V07": lambda: _checkpoint_bytes(176 * GIGA) / GIB / _TIB_IN_GIB,
    "V08-2048": lambda: _kept(4.48, 1.84),
    "V08-4096": lambda: _kept(4.59, 1.69),
    "V08-8192": lambda: _kept(9.85, 0.22),
    "V08-16384": lambda: _kept(9.71, 0.18),
    "V09": _overhead_of_saving,
    "V10": _trace_unavailability,
    "V11": _mt_nlg_save_minutes,
}
"""What predicts each case of `validation_cases.csv`."""
