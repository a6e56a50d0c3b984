"""Which item of memory to attack, and with what."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from surrogate.analytic.memory import MemoryBreakdown

REMEDIES: Final[dict[str, str]] = {
    "weights_bytes": "raise tp or pp, or zero_stage to 3",
    "gradients_bytes": "raise zero_stage to 2 or 3, tp or pp, or set grad_reduce_dtype to bf16",
    "optimizer_bytes": "raise zero_stage to 1, dp, tp or pp; or cpu_offload optimizer",
    "optimizer_step_bytes": "set grad_reduce_dtype to fp32, or raise dp with zero_stage 1",
    "norm_activations_bytes": "set sequence_parallel, recompute_modules layernorm, or recompute full",
    "attention_activations_bytes": "set flash_attention, recompute selective, or raise tp or cp",
    "mlp_activations_bytes": "lower micro_batch_size, raise tp or cp, or recompute full",
    "expert_activations_bytes": "lower micro_batch_size, set moe_capacity_factor, or recompute full",
    "gathered_inputs_bytes": "lower micro_batch_size, or use a framework that gathers again in backward",
    "recomputation_bytes": "lower micro_batch_size, set sequence_parallel, or raise cp",
    "embedding_bytes": "lower micro_batch_size, or set sequence_parallel",
    "logits_bytes": "lower micro_batch_size, raise tp or cp, or fuse the loss",
    "transient_bytes": "lower micro_batch_size, or raise tp or cp",
    "communication_bytes": "lower micro_batch_size, or the gradient bucket of the framework",
    "gathered_parameters_bytes": "lower zero_stage, or raise tp",
    "fragmentation_bytes": "let the allocator grow its segments, or lower micro_batch_size",
    "context_bytes": "use fewer communicators: drop one of tp, pp, cp, ep",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class ItemAdvice:
    """One item of the worst stage's memory."""

    item: str
    bytes: float
    share: float
    """Of the whole device's peak."""
    remedy: str


def items_to_attack(breakdown: MemoryBreakdown, row: int = 0, *, limit: int = 3) -> list[ItemAdvice]:
    """Rank one row's items by size and say what lowers each.

    Parameters
    ----------
    breakdown : MemoryBreakdown
        n rows.
    row : int
        Which of them.
    limit : int
        Items to return at most.
    """
    total = float(breakdown.device_bytes[row])
    sizes = {name: float(values[row]) for name, values in breakdown.items().items()}
    largest = sorted(sizes, key=lambda name: sizes[name], reverse=True)[:limit]
    return [
        ItemAdvice(item=name, bytes=sizes[name], share=sizes[name] / total, remedy=REMEDIES[name]) for name in largest
    ]
