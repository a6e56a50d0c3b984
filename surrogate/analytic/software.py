"""What the software stack does to a step: kernels, compilation and age, beside the configuration itself."""

from __future__ import annotations

from dataclasses import dataclass, fields
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from surrogate.analytic.workload import BoolArray, FloatArray, IntArray


class AttentionKernel(IntEnum):
    """Generations of attention kernels, slowest first."""

    UNFUSED = 0
    """Separate products and softmax through memory."""
    FUSED_SOFTMAX = 1
    """Megatron's scale-mask-softmax kernel."""
    FLASH_1 = 2
    FLASH_2 = 3
    FLASH_3 = 4
    """Kernels written for Hopper and later: FlashAttention-3, cuDNN."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SoftwareTraits:
    """A column per trait, every array of shape (n,)."""

    attention_kernel: IntArray
    whole_program: BoolArray
    """The accelerator runs compiled programs (TPU, Gaudi, Trainium): kernel launches do not bound it."""
    compiled: BoolArray
    """torch.compile or XLA fuses element-wise work."""
    fused_norm: FloatArray
    """1 fused, 0 not, 0.5 unknown."""
    deepspeed_zero3: BoolArray
    """DeepSpeed's ZeRO-3, whose hooks gather and partition more than FSDP does."""
    routing_balanced: BoolArray
    """Benchmarks force balanced routing or drop tokens above the capacity."""
    years_of_software: FloatArray
    """Release date in years after mid-2023."""

    def __len__(self) -> int:
        return len(self.attention_kernel)

    def take(self, rows: NDArray[np.int64] | NDArray[np.bool_] | slice) -> SoftwareTraits:
        """Return the selected rows."""
        return SoftwareTraits(**{field.name: getattr(self, field.name)[rows] for field in fields(self)})
