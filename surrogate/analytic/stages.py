"""Which layers the first, a middle and the last pipeline stage hold."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from surrogate.analytic.workload import FloatArray, Workload


class LayerCounts(NamedTuple):
    """Layers on one stage by kind, each of shape (n,)."""

    dense: FloatArray
    moe: FloatArray

    @property
    def total(self) -> FloatArray:
        """Layers of both kinds."""
        return self.dense + self.moe


class StageLayers(NamedTuple):
    """Layers of the first, a typical middle and the last stage; all three are the model when pp = 1."""

    first: LayerCounts
    middle: LayerCounts
    last: LayerCounts


def stage_layers(w: Workload) -> StageLayers:
    """Return the layers on the first, a middle and the last pipeline stage.

    Parameters
    ----------
    w : Workload
        n configurations.

    Returns
    -------
    StageLayers
        Counts of shape (n,). `middle` is meaningful for pp > 2; below that it is as large as the last.

    Notes
    -----
    When p does not divide L, stages hold ``ceil(L / p)`` or ``floor(L / p)`` layers; the stage of the head is the
    first to lack one, then that of the embedding, as published layouts do; `middle` is the largest of the others.
    Dense layers of an expert model come first when they fit on the first stage (DeepSeek) and are spread evenly
    otherwise (models that alternate).

    References
    ----------
    Llama 3, arXiv 2407.21783, section 3.3.2: one layer less on the first and the last stage.

    Examples
    --------
    126 layers over 16 stages: 7 on the first and the last, 8 on the fourteen between.
    """
    smallest = np.floor(w.num_layers / w.pp)
    remainder = w.num_layers - smallest * w.pp
    totals = (
        smallest + (remainder == w.pp - 1.0) * (remainder > 0.0),
        smallest + (remainder > 0.0) * (w.pp > 2.0),
        smallest,
    )
    dense_first = w.num_dense_layers <= totals[0]
    dense_share = w.num_dense_layers / w.num_layers

    def counts(total: FloatArray, leading_dense: FloatArray) -> LayerCounts:
        dense = dense_first * leading_dense + ~dense_first * total * dense_share
        return LayerCounts(dense=dense, moe=total - dense)

    elsewhere = (w.pp == 1.0) * w.num_dense_layers
    return StageLayers(
        first=counts(totals[0], w.num_dense_layers),
        middle=counts(totals[1], elsewhere),
        last=counts(totals[2], elsewhere),
    )


def largest_stage_layers(w: Workload) -> LayerCounts:
    """Return the layers of the largest stage, by kind, as the average mix of the model.

    Parameters
    ----------
    w : Workload
        n configurations.

    Returns
    -------
    LayerCounts
        Counts of shape (n,); their sum is ``ceil(L / p)``.

    Notes
    -----
    The stage that sets the pace of a pipeline: ``ceil(L / p)`` layers, of which a share ``L_d / L`` is dense.
    """
    total = np.ceil(w.num_layers / w.pp)
    dense = total * (w.num_dense_layers / w.num_layers)
    return LayerCounts(dense=dense, moe=total - dense)
