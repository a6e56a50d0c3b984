"""Gaussian similarity of configurations: what the smooth terms, the gate and the evidence are made of."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped]

from surrogate.analytic.workload import FloatArray

Float = TypeVar("Float", np.float32, np.float64)

_BLOCK_ROWS = 256
"""Rows whose similarities to a few thousand others stay in a core's cache."""


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Keep BLAS on one thread, inside a `with` or as a decorator.

    Products and factorisations here are small: on a busy machine two threads waited for each other six times as long
    as one of them worked (benchmarks/speed.py).
    """
    with _thread_pools().limit(limits=1, user_api="blas"):
        yield


@cache
def _thread_pools() -> ThreadpoolController:
    return ThreadpoolController()


def squared_distances(one: NDArray[Float], other: NDArray[Float]) -> NDArray[Float]:
    """Return squared Euclidean distances between rows, shape (n, m)."""
    total: NDArray[Float] = one @ other.T
    total *= -2
    total += (one**2).sum(axis=1)[:, None]
    total += (other**2).sum(axis=1)[None, :]
    nearest: NDArray[Float] = np.maximum(total, 0, out=total)
    return nearest


class SimilarityBlock(NamedTuple):
    """Similarities of some rows to all known points."""

    rows: slice
    similarity: NDArray[np.float32]
    """Shape (b, m), overwritten by the next block."""


def similarity_blocks(points: FloatArray, known: FloatArray, length: float) -> Iterator[SimilarityBlock]:
    """Yield the Gaussian similarity of n points to m known ones, a block of rows at a time.

    Parameters
    ----------
    points : ndarray, shape (n, d)
        Configurations as knobs.
    known : ndarray, shape (m, d)
        What they are compared with.
    length : float
        Distance at which the similarity is exp(-1/2).

    Yields
    ------
    SimilarityBlock
        ``exp(-|x - y|^2 / (2 length^2))`` in single precision, within 1e-6 of the double-precision value.

    Notes
    -----
    ``-|x - y|^2 / 2 = [x, 1, -|x|^2/2] . [y, -|y|^2/2, 1]``: one matrix product per block, then exponentials in place.
    Points are centred first, so that the cancellation costs no digits that matter.
    """
    centre = known.mean(axis=0)
    one, other = (points - centre) / length, (known - centre) / length
    left = np.column_stack([one, np.ones(len(one)), -0.5 * (one**2).sum(axis=1)]).astype(np.float32)
    right = np.column_stack([other, -0.5 * (other**2).sum(axis=1), np.ones(len(other))]).astype(np.float32)
    transposed = np.ascontiguousarray(right.T)
    buffer = np.empty((min(_BLOCK_ROWS, len(left)), len(right)), dtype=np.float32)
    with one_blas_thread():
        for start in range(0, len(left), _BLOCK_ROWS):
            rows = slice(start, min(start + _BLOCK_ROWS, len(left)))
            block = buffer[: rows.stop - start]
            np.matmul(left[rows], transposed, out=block)
            np.exp(np.minimum(block, 0.0, out=block), out=block)
            yield SimilarityBlock(rows, block)
