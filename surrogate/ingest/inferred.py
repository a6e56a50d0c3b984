"""Whole numbers that follow from two printed figures: batch size from rate and time, accelerators from token rates."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from surrogate.ingest.facts import number
from surrogate.ingest.numbers import NAN, is_known
from surrogate.ingest.report import Scalar
from surrogate.ingest.run_data import RunLogData
from surrogate.ingest.series import column

_CLOSE_ENOUGH = 0.012


def nearest_multiple(value: float, unit: float, *, tolerance: float = _CLOSE_ENOUGH) -> int | None:
    """Return the multiple of `unit` that `value` is within the tolerance of, if there is exactly one.

    Examples
    --------
    >>> nearest_multiple(127.9, 8), nearest_multiple(127.9, 1), nearest_multiple(64.09, 1, tolerance=0.003)
    (128, None, 64)
    """
    if not is_known(value) or not is_known(unit):
        return None
    nearest = round(value / unit) * unit
    is_single = value * tolerance * 2 < unit
    return int(nearest) if nearest > 0 and is_single and abs(nearest - value) <= tolerance * value else None


def infer_batch(run: RunLogData, facts: Mapping[str, Scalar], step_time_s: float, samples_per_s: float) -> int | None:
    """Global batch size from samples per second and seconds per step, as a multiple of what one rank takes.

    Micro-batch times accumulation is the unit when they are printed; otherwise 1, which settles small batches only.
    """
    if "global_batch_size" in facts:
        return None
    unit = number(facts, "micro_batch_size") * _accumulation(run)
    if is_known(unit):
        return nearest_multiple(step_time_s * samples_per_s, unit)
    return nearest_multiple(step_time_s * samples_per_s, 1.0, tolerance=_CLOSE_ENOUGH / 4)


def infer_gpus(run: RunLogData, facts: Mapping[str, Scalar], per_gpu: float) -> int | None:
    """Return the number of accelerators, from token rates or from the batch of a plain data-parallel job."""
    if "num_gpus" in facts:
        return None
    with np.errstate(invalid="ignore", divide="ignore"):
        ratio = column(run.records, "tokens_per_s") / column(run.records, "tokens_per_s_per_gpu")
    known = ratio[np.isfinite(ratio)]
    if known.size:
        return nearest_multiple(float(np.median(known)), 1.0)
    batch, micro = number(facts, "global_batch_size"), number(facts, "micro_batch_size") * _accumulation(run)
    if is_known(per_gpu):
        return None
    sharded = [name for name in ("tp", "pp", "cp") if facts.get(name, 1) != 1]
    ranks = batch / micro if is_known(micro) else NAN
    return int(ranks) if not sharded and is_known(ranks) and ranks.is_integer() else None


def _accumulation(run: RunLogData) -> float:
    try:
        return float(run.settings.get("gradient_accumulation_steps", "nan"))
    except ValueError:
        return NAN
