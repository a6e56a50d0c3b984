"""What an event is: its kind by the profiler's category, and the class of a kernel by its name."""

from __future__ import annotations

import re
from enum import IntEnum, StrEnum
from typing import Final


class EventKind(IntEnum):
    """Kind of a kept event; the code is what `Trace.kind` holds."""

    OPERATOR = 0
    RUNTIME = 1
    ANNOTATION = 2
    KERNEL = 3
    COPY = 4
    MEMSET = 5
    SYNC = 6


KIND_OF_CATEGORY: Final = {
    "cpu_op": EventKind.OPERATOR,
    "operator": EventKind.OPERATOR,
    "user_annotation": EventKind.ANNOTATION,
    "cuda_runtime": EventKind.RUNTIME,
    "cuda_driver": EventKind.RUNTIME,
    "hip_runtime": EventKind.RUNTIME,
    "hip_driver": EventKind.RUNTIME,
    "runtime": EventKind.RUNTIME,
    "driver": EventKind.RUNTIME,
    "kernel": EventKind.KERNEL,
    "gpu_memcpy": EventKind.COPY,
    "memcpy": EventKind.COPY,
    "gpu_memset": EventKind.MEMSET,
    "memset": EventKind.MEMSET,
    "cuda_sync": EventKind.SYNC,
}
"""Lower-case category to kind: the names since 2022, those of 2021 (Operator, Runtime, Kernel...) and HIP's."""

FIRST_DEVICE_KIND: Final = EventKind.KERNEL
LAST_DEVICE_KIND: Final = EventKind.MEMSET


class KernelClass(StrEnum):
    """What a device event does, as far as its name tells."""

    COMMUNICATION = "communication"
    ATTENTION = "attention"
    MATMUL = "matmul"
    CONVOLUTION = "convolution"
    NORM = "norm"
    SOFTMAX = "softmax"
    EMBEDDING = "embedding"
    OPTIMIZER = "optimizer"
    REDUCTION = "reduction"
    ELEMENTWISE = "elementwise"
    COPY = "copy"
    MEMSET = "memset"
    OTHER = "other"


CLASSES: Final = tuple(KernelClass)
"""Class codes: `Trace.kernel_class` holds positions in this tuple."""

_PATTERNS: Final = (
    (KernelClass.COMMUNICATION, r"nccl|rccl|deep_?ep|nvshmem"),
    (KernelClass.COPY, r"^memcpy"),
    (KernelClass.MEMSET, r"^memset"),
    (KernelClass.ATTENTION, r"flash|fmha|attention|attn|sdpa|softmax_?warp_.*masked"),
    (KernelClass.OPTIMIZER, r"multi_?tensor|adam|fused_?sgd|optimizer|lamb(?!da)"),
    (KernelClass.NORM, r"norm(?!al)|\bbn_|batch_?normal|bnfw|bnbw|miopen.*bn"),
    (KernelClass.SOFTMAX, r"softmax|cross_?entropy|nll_?loss"),
    (KernelClass.EMBEDDING, r"embedding|index_?select|indexing|gather|scatter|segment_reduce|index_(put|elementwise)"),
    (
        KernelClass.CONVOLUTION,
        r"conv|wgrad|dgrad|winograd|cudnn::.*(engine|cnn)|implicit_gemm|igemm|scudnn|nchw|nhwc|xdlops|im2col|col2im",
    ),
    (KernelClass.MATMUL, r"gemm|gemv|cutlass|cublas|nvjet|\bcijk|_mm_|matmul|splitk|dot_kernel|s\d{3,5}cudnn"),
    (KernelClass.REDUCTION, r"reduce|reduction|argmax|\bcub::|sort|topk|cumsum|scan"),
    (
        KernelClass.ELEMENTWISE,
        r"elementwise|pointwise|triton|vectorized|unrolled|fill|copy|\bcat|dropout|pool|gelu|silu|relu|tensorop|op_tensor"
        r"|transpose",
    ),
)
_COMPILED: Final = tuple((kernel_class, re.compile(pattern, re.IGNORECASE)) for kernel_class, pattern in _PATTERNS)


def classify_kernel(name: str) -> KernelClass:
    """Return the class of a device event by the first pattern that its name matches.

    Examples
    --------
    >>> classify_kernel("ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)").value
    'communication'
    >>> classify_kernel("ampere_bf16_s16816gemm_bf16_128x64_ldg8_f2f_stages_64x4_tn").value
    'matmul'
    """
    for kernel_class, pattern in _COMPILED:
        if pattern.search(name):
            return kernel_class
    return KernelClass.OTHER
