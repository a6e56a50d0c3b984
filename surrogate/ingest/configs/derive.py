"""What follows from the settings of a configuration: accelerators, data parallelism, batch sizes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from surrogate.ingest.configs.scalars import Value


@dataclass(frozen=True, kw_only=True, slots=True)
class BatchRule:
    """Batch settings that only become batch sizes with the data-parallel size.

    Parameters
    ----------
    per_rank_batch_size : int, optional
        Sequences that one data-parallel rank trains on per optimizer step.
    accumulation_steps : int, optional
        Micro-batches per optimizer step and data-parallel rank.
    """

    per_rank_batch_size: int | None = None
    accumulation_steps: int | None = None


def with_derived(values: Mapping[str, Value], rule: BatchRule) -> dict[str, Value]:
    """Return `values` with `num_gpus`, `dp`, `global_batch_size` and `micro_batch_size` filled where they follow.

    Notes
    -----
    num_gpus = dp * tp * pp * cp;  global_batch_size = per_rank_batch_size * dp;
    global_batch_size = micro_batch_size * accumulation_steps * dp.
    """
    known = dict(values)
    _derive_layout(known, rule)
    dp = _size(known, "dp")
    if dp is None:
        return known
    if "global_batch_size" not in known and rule.per_rank_batch_size:
        known["global_batch_size"] = rule.per_rank_batch_size * dp
    batch, steps = _size(known, "global_batch_size"), rule.accumulation_steps
    if "micro_batch_size" not in known and batch and steps and batch % (dp * steps) == 0:
        known["micro_batch_size"] = batch // (dp * steps)
    return known


def layout_conflict(values: Mapping[str, object]) -> str | None:
    """Return why the number of accelerators cannot be right for the layout, or None."""
    num_gpus, per_replica = _size(values, "num_gpus"), _model_parallel_size(values)
    if num_gpus is None or per_replica is None:
        return None
    if num_gpus % per_replica:
        return f"the file says {num_gpus}, which tp * pp * cp = {per_replica} does not divide (a placeholder?)"
    ep, expert_tp = _size(values, "ep") or 1, _size(values, "expert_tp") or 1
    expert_ranks = ep * expert_tp * (_size(values, "pp") or 1)
    if ep > 1 and num_gpus % expert_ranks and num_gpus < expert_ranks:
        return f"the file says {num_gpus}, fewer than pp * ep * expert_tp = {expert_ranks} (a placeholder?)"
    return None


def _derive_layout(known: dict[str, Value], rule: BatchRule) -> None:
    per_replica = _model_parallel_size(known)
    batch = _size(known, "global_batch_size")
    is_open = "dp" not in known and "num_gpus" not in known
    if is_open and batch and rule.per_rank_batch_size and batch % rule.per_rank_batch_size == 0:
        known["dp"] = batch // rule.per_rank_batch_size
    if per_replica is None:
        return
    num_gpus, dp = _size(known, "num_gpus"), _size(known, "dp")
    if num_gpus is None and dp is not None:
        known["num_gpus"] = dp * per_replica
    elif num_gpus is not None and num_gpus % per_replica == 0:
        known["dp"] = num_gpus // per_replica


def _model_parallel_size(values: Mapping[str, object]) -> int | None:
    tp, pp = _size(values, "tp"), _size(values, "pp")
    return None if tp is None or pp is None else tp * pp * (_size(values, "cp") or 1)


def _size(values: Mapping[str, object], column: str) -> int | None:
    value = values.get(column)
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None
