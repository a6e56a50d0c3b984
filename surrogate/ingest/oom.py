"""Out-of-memory reports of PyTorch (CUDA, HIP, XPU), DeepSpeed, Megatron, cuBLAS and XLA."""

from __future__ import annotations

import re
from typing import Final

NEEDLES: Final[tuple[bytes, ...]] = (
    b"ut of memory", b"OfMemory", b"RESOURCE_EXHAUSTED", b"ALLOC_FAILED", b"Out Of Memory", b"oom-kill",
)  # fmt: skip

_DEVICE_OOM: Final = re.compile(
    r"(?:CUDA|HIP|XPU|NPU|GPU) out of memory|OutOfMemoryError:|"
    r"(?:CUDA|HIP|cuda|hip)\w* (?:error|failure)\W+out of memory|"
    r"(?:hip|cuda)ErrorOutOfMemory|CUBLAS_STATUS_ALLOC_FAILED|HIPBLAS_STATUS_ALLOC_FAILED|"
    r"RESOURCE_EXHAUSTED.*(?:[Mm]emory|HBM|hbm)|Cuda failure (?:\d+ )?'out of memory'"
)
_HOST_OOM: Final = re.compile(r"oom-kill|Out of memory: Killed process|Out Of Memory handler|oom_kill")
_RECOVERED: Final = re.compile(r"will be decreased from|Gradient Accumulation increased|out of memory detected")
_DETAIL: Final = re.compile(
    r"Tried to allocate ([\d.]+ [KMG]i?B)|(?:GPU \d+ has a total capacit?y of|;) ([\d.]+ [MG]i?B)(?: total capacity)?"
)


def read_oom(text: str) -> tuple[str, str] | None:
    """Recognise an out-of-memory report.

    Parameters
    ----------
    text : str
        One line.

    Returns
    -------
    tuple of (str, str) or None
        ``("oom", detail)`` for accelerator memory, ``("note", why)`` for the host's memory or a report that the
        program recovers from by itself, None for a line that only talks about it.

    Examples
    --------
    >>> read_oom("RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB (GPU 0; 79.15 GiB total capacity; ...")
    ('oom', 'tried to allocate 2.00 GiB; capacity 79.15 GiB')
    >>> read_oom("slurmstepd: error: Detected 1 oom-kill event(s)")
    ('note', "the host's memory ran out, not the accelerators'")
    """
    if _HOST_OOM.search(text):
        return "note", "the host's memory ran out, not the accelerators'"
    if _RECOVERED.search(text):
        return "note", "went out of memory and made the micro-batch smaller by itself"
    if not _DEVICE_OOM.search(text):
        return None
    details = list(_DETAIL.finditer(text))
    wanted = next((match[1] for match in details if match[1]), "")
    capacity = next((match[2] for match in details if match[2]), "")
    parts = [f"tried to allocate {wanted}"] if wanted else []
    parts += [f"capacity {capacity}"] if capacity else []
    return "oom", "; ".join(parts) or "out of memory"
