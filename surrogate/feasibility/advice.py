"""Which item of memory to attack, and with what: only settings that are still open in the configuration."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from surrogate.analytic.memory import MemoryBreakdown
from surrogate.analytic.workload import Offload, Recompute, Workload
from surrogate.feasibility.candidates import is_partly_recomputed

NO_SETTING: Final = "no setting: more or larger accelerators"

MIN_TOKENS_PER_RANK: Final = 1024
"""Context parallelism is not proposed below it: shorter pieces do not keep a device busy."""

HALF_PRECISION_BYTES: Final = 2.0

IsOpen = Callable[[Workload], bool]


@dataclass(frozen=True, kw_only=True, slots=True)
class Remedy:
    """One setting that lowers an item."""

    verb: str
    setting: str
    is_open: IsOpen
    """Whether a configuration of one row does not have it yet and could."""


def _remedy(verb: str, setting: str, is_open: IsOpen = lambda _: True) -> Remedy:
    return Remedy(verb=verb, setting=setting, is_open=is_open)


def _can_shard(stage: int) -> IsOpen:
    """Whether ZeRO `stage` is above the present one and possible: from 2 on a pipeline keeps whole gradients."""
    return lambda w: bool(w.zero_stage[0] < stage and w.dp[0] * w.cp[0] > 1 and (stage == 1 or w.pp[0] == 1))


_SMALLER_BATCH: Final = _remedy("lower", "micro_batch_size", lambda w: bool(w.micro_batch_size[0] > 1))
_TP: Final = _remedy(
    "raise", "tp", lambda w: bool(2 * w.tp[0] <= w.fast_domain_gpus[0] and w.num_heads[0] % (2 * w.tp[0]) == 0)
)
_PP: Final = _remedy("raise", "pp", lambda w: bool(2 * w.pp[0] <= w.num_layers[0]))
_CP: Final = _remedy("raise", "cp", lambda w: bool(w.seq_len[0] >= 2 * w.cp[0] * MIN_TOKENS_PER_RANK))
_EP: Final = _remedy("raise", "ep", lambda w: bool(w.num_experts[0] > 0 and w.num_experts[0] % (2 * w.ep[0]) == 0))
_SEQUENCE_PARALLEL: Final = _remedy(
    "set", "sequence_parallel", lambda w: bool(w.tp[0] > 1 and not w.sequence_parallel[0])
)
_FLASH: Final = _remedy("set", "flash_attention", lambda w: not w.flash_attention[0])
_SELECTIVE: Final = _remedy(
    "set", "recompute selective", lambda w: bool(w.recompute[0] == Recompute.NONE and not w.flash_attention[0])
)
_FULL: Final = _remedy("set", "recompute full", lambda w: bool(w.recompute[0] != Recompute.FULL))
_EVERY_LAYER: Final = _remedy("drop", "recompute_layers", is_partly_recomputed)
_NORMS: Final = _remedy(
    "set",
    "recompute_modules layernorm",
    lambda w: bool(w.recompute[0] in (Recompute.NONE, Recompute.SELECTIVE) and not w.recompute_norm[0]),
)
_SHORT_GRADIENTS: Final = _remedy(
    "set", "grad_reduce_dtype bf16", lambda w: bool(w.grad_bytes[0] > HALF_PRECISION_BYTES)
)
_LONG_GRADIENTS: Final = _remedy(
    "set", "grad_reduce_dtype fp32", lambda w: bool(w.grad_bytes[0] <= HALF_PRECISION_BYTES)
)
_OPTIMIZER_AWAY: Final = _remedy("set", "cpu_offload optimizer", lambda w: bool(w.offload[0] == Offload.NONE))
_CAPACITY: Final = _remedy(
    "set", "moe_capacity_factor", lambda w: bool(w.num_experts[0] > 0 and w.capacity_factor[0] == 0)
)
_ZERO_1, _ZERO_2, _ZERO_3 = (_remedy("set", f"zero_stage {stage}", _can_shard(stage)) for stage in (1, 2, 3))
_FEWER_GROUPS: Final = tuple(
    _remedy("set to 1", size, lambda w, size=size: bool(getattr(w, size)[0] > 1))  # type: ignore[misc]
    for size in ("tp", "pp", "cp", "ep")
)

REMEDIES: Final[dict[str, tuple[Remedy, ...]]] = {
    "weights_bytes": (_TP, _PP, _EP, _ZERO_3),
    "gradients_bytes": (_TP, _PP, _EP, _ZERO_2, _ZERO_3, _SHORT_GRADIENTS),
    "optimizer_bytes": (_TP, _PP, _EP, _ZERO_1, _OPTIMIZER_AWAY),
    "optimizer_step_bytes": (_LONG_GRADIENTS, _ZERO_1),
    "norm_activations_bytes": (_SMALLER_BATCH, _CP, _SEQUENCE_PARALLEL, _NORMS, _FULL, _EVERY_LAYER),
    "attention_activations_bytes": (_SMALLER_BATCH, _TP, _CP, _FLASH, _SELECTIVE, _FULL, _EVERY_LAYER),
    "mlp_activations_bytes": (_SMALLER_BATCH, _TP, _CP, _FULL, _EVERY_LAYER),
    "expert_activations_bytes": (_SMALLER_BATCH, _CP, _CAPACITY, _FULL, _EVERY_LAYER),
    "gathered_inputs_bytes": (_SMALLER_BATCH, _CP, _FULL),
    "recomputation_bytes": (_SMALLER_BATCH, _CP, _SEQUENCE_PARALLEL),
    "embedding_bytes": (_SMALLER_BATCH, _CP, _SEQUENCE_PARALLEL),
    "logits_bytes": (_SMALLER_BATCH, _TP, _CP, _remedy("use", "a fused loss")),
    "transient_bytes": (_SMALLER_BATCH, _TP, _CP),
    "communication_bytes": (_SMALLER_BATCH, _CP, _remedy("lower", "the framework's gradient bucket")),
    "gathered_parameters_bytes": (_TP, _remedy("lower", "zero_stage", lambda w: bool(w.zero_stage[0] > 0))),
    "fragmentation_bytes": (_SMALLER_BATCH, _remedy("use", "expandable segments of the allocator")),
    "context_bytes": _FEWER_GROUPS,
}
"""What lowers each item, the cheapest kinds first."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ItemAdvice:
    """One item of the worst stage's memory."""

    item: str
    bytes: float
    share: float
    """Of the whole device's peak."""
    remedy: str


def items_to_attack(
    breakdown: MemoryBreakdown, row: int = 0, *, limit: int = 3, workload: Workload | None = None
) -> list[ItemAdvice]:
    """Rank one row's items by size and say what lowers each.

    Parameters
    ----------
    breakdown : MemoryBreakdown
        n rows.
    row : int
        Which of them.
    limit : int
        Items to return at most.
    workload : Workload of n rows, optional
        The configurations: settings that are on already, or impossible, are then not named.
    """
    total = float(breakdown.device_bytes[row])
    sizes = {name: float(values[row]) for name, values in breakdown.items().items()}
    largest = sorted(sizes, key=lambda name: sizes[name], reverse=True)[:limit]
    one = None if workload is None else workload.take(slice(row, row + 1))
    return [
        ItemAdvice(item=name, bytes=sizes[name], share=sizes[name] / total, remedy=_advice(name, one))
        for name in largest
    ]


def _advice(item: str, configuration: Workload | None) -> str:
    """Return the open remedies of an item in words: settings of one verb together."""
    by_verb: dict[str, list[str]] = {}
    for remedy in REMEDIES[item]:
        if configuration is None or remedy.is_open(configuration):
            by_verb.setdefault(remedy.verb, []).append(remedy.setting)
    parts = [f"{verb} {_either(settings)}" for verb, settings in by_verb.items()]
    return "; ".join(parts) if parts else NO_SETTING


def _either(settings: list[str]) -> str:
    *first, last = settings
    return f"{', '.join(first)} or {last}" if first else last
