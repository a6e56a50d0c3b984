"""Dense peak rates by accelerator and precision, for one pair or for whole columns.

A precision an accelerator has no rate for runs at the next wider one it supports: FP8 recipes on an A100 at its 16-bit
rate, bfloat16 on a V100 at the float32 rate. Where no wider rate is published the lookup is an error, never a guess.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import numpy as np
from numpy.typing import NDArray

from surrogate.catalog.accelerators import Accelerator, resolve_accelerator
from surrogate.errors import InputError, UnknownNameError

_FROM_BF16: Final = ("bf16", "tf32", "fp32")
_FROM_FP8: Final = ("fp8", *_FROM_BF16)
_FROM_FP4: Final = ("fp4", *_FROM_FP8)

RATES_BY_PRECISION: Final[dict[str, tuple[str, ...]]] = {
    "fp32": ("fp32",),
    "tf32": ("tf32", "fp32"),
    "bf16": _FROM_BF16,
    "fp16": ("fp16", "tf32", "fp32"),
    "fp8": _FROM_FP8,
    "mxfp8": _FROM_FP8,
    "nvfp4": _FROM_FP4,
    "mxfp4": _FROM_FP4,
    "int8": ("int8", "bf16", "fp16"),
}
"""Training precision of a runs table -> the catalogue's rates in the order they are tried."""


def peak_rate_used(accelerator: Accelerator, precision: str) -> str:
    """Return which published rate a precision runs at: its own, or the next wider one.

    Raises
    ------
    UnknownNameError
        For a precision that does not exist.
    InputError
        If neither this rate nor a wider one is published for the accelerator.

    Examples
    --------
    >>> peak_rate_used(resolve_accelerator("H100"), "mxfp8"), peak_rate_used(resolve_accelerator("A100"), "fp8")
    ('fp8', 'bf16')
    """
    rates = RATES_BY_PRECISION.get(precision.strip().lower())
    if rates is None:
        raise UnknownNameError("precision", precision, [], f"one of {', '.join(RATES_BY_PRECISION)}")
    for rate in rates:
        if getattr(accelerator, f"{rate}_flops_per_s") is not None:
            return rate
    published = [p for p in RATES_BY_PRECISION if getattr(accelerator, f"{p}_flops_per_s", None) is not None]
    raise InputError(
        "precision",
        f"must have a published dense rate on {accelerator.name}",
        precision,
        f"published are {', '.join(published)}",
    )


def dense_peak_flops_per_s(accelerator: Accelerator | str, precision: str) -> float:
    """Return the dense peak of one accelerator in FLOP/s (operations per second for int8).

    Parameters
    ----------
    accelerator : Accelerator or str
        An entry, a name or an alias.
    precision : str
        A key of `RATES_BY_PRECISION`.

    Raises
    ------
    UnknownNameError, InputError
        As in `peak_rate_used`.

    Examples
    --------
    >>> dense_peak_flops_per_s("H100", "bf16")
    989400000000000.0
    """
    entry = resolve_accelerator(accelerator) if isinstance(accelerator, str) else accelerator
    return float(getattr(entry, f"{peak_rate_used(entry, precision)}_flops_per_s"))


def dense_peaks_flops_per_s(accelerators: Iterable[object], precisions: Iterable[object]) -> NDArray[np.float64]:
    """Return the dense peak per row of two columns; each distinct pair is looked up once.

    Parameters
    ----------
    accelerators, precisions : iterable of str, shape (n,)
        Names or aliases, and precisions; what is no text (None, NaN, NA) counts as missing.

    Returns
    -------
    NDArray of float, shape (n,)
        FLOP/s; NaN where either value is missing.
    """
    pairs = list(zip(accelerators, precisions, strict=True))
    peaks = {pair: _peak_or_nan(*pair) for pair in set(pairs)}
    return np.fromiter((peaks[pair] for pair in pairs), dtype=np.float64, count=len(pairs))


def _peak_or_nan(accelerator: object, precision: object) -> float:
    if isinstance(accelerator, str) and isinstance(precision, str):
        return dense_peak_flops_per_s(accelerator, precision)
    return float("nan")
