"""Calibration constants of the memory model, at textbook values until an estimator fits them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from surrogate.units import GIB, MIB


@dataclass(frozen=True, kw_only=True, slots=True)
class MemoryCoefficients:
    """What the algebra of memory leaves open: one number per implementation habit."""

    logits_bytes: float = 10.0
    """Live bytes per logit at the loss: bf16 logits 2, fp32 copy 4, softmax kept for the gradient 4 (published
    practice 4 with a fused loss, to 16 without any fusion)."""
    compiled_logits_bytes: float = 6.0
    """The same where a compiler fuses the fp32 copy into the softmax."""
    expert_imbalance: float = 1.2
    """Tokens of the fullest expert rank over the mean, dropless routing."""
    unfused_norm_bytes: float = 6.0
    """Extra saved bytes per token and channel of a norm without its own kernel: fp32 input 4, normed copy 2."""
    operator_selective_saved: float = 0.5
    """Share of matrix products whose output operator-level recomputation keeps (every second one)."""
    fp8_weight_copy_bytes: float = 0.0
    """Bytes per matrix weight that FP8/FP4 training holds beyond two: two are either the 16-bit weight, or an FP8
    weight and its transpose."""
    gathered_input_share: float = 0.0
    """Share of the two block inputs that sequence parallelism leaves gathered until the backward pass (0 where the
    backward gathers them again, 1 where they are saved as they were used)."""
    transient_bytes: float = 4.0
    """Bytes per token and channel of the widest activation that live only inside one backward step."""
    bucket_bytes: float = 400.0 * MIB
    """Gradient bucket of ZeRO-1 and ZeRO-2 (one filled, one in flight)."""
    communicator_bytes: float = 0.25 * GIB
    """Library buffers per communicator; outside the framework's allocator."""
    context_bytes: float = 1.0 * GIB
    """Driver context, kernels and library workspaces; outside the framework's allocator."""
    fragmentation: float = 0.06
    """Reserved but unused memory over the allocated activations and buffers (published 1.02 to 1.10)."""


TEXTBOOK: Final = MemoryCoefficients()
