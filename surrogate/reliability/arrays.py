"""Array aliases and the one range check every public function of the package shares."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from surrogate.errors import InputError

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]


def real(field: str, values: ArrayLike, *, minimum: float = 0.0, strict: bool = False) -> FloatArray:
    """Return ``values`` as float64, refusing what is not finite or below ``minimum``.

    Parameters
    ----------
    field : str
        Name used in the error.
    values : array_like
        Any shape.
    minimum : float
        Smallest value allowed.
    strict : bool
        Whether ``minimum`` itself is refused.

    Returns
    -------
    ndarray of float64

    Raises
    ------
    InputError
        Names the field and the first offending value.
    """
    try:
        array = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(field, "must be a number", values) from error
    fine = np.isfinite(array) & ((array > minimum) if strict else (array >= minimum))
    if not fine.all():
        rule = f"must be a finite number {'>' if strict else '>='} {minimum:g}"
        raise InputError(field, rule, float(array[~fine].flat[0]))
    return array


def fraction(field: str, values: ArrayLike) -> FloatArray:
    """Return ``values`` as float64, refusing what lies outside [0, 1].

    Raises
    ------
    InputError
        Names the field and the first offending value.
    """
    array = real(field, values)
    if (array > 1.0).any():
        raise InputError(field, "must lie in [0, 1]", float(array[array > 1.0].flat[0]))
    return array
