"""Activation recomputation: which share of a forward pass runs again, and what that costs."""

from __future__ import annotations

import numpy as np

from surrogate.analytic.flops import FORWARD_AND_BACKWARD, LayerFlops, forward_flops_per_token, layer_flops_per_token
from surrogate.analytic.workload import FloatArray, Recompute, Workload

FLASH_BACKWARD_EXTRA = 0.5
"""Fused attention recomputes the scores in backward: five products where forward has two, 2.5 instead of 2
forward passes (arXiv 2307.08691, section 4.1)."""


def recomputed_layer_fraction(w: Workload) -> FloatArray:
    """Return the share of a stage's layers to which the recomputation setting applies.

    Parameters
    ----------
    w : Workload
        n configurations.

    Returns
    -------
    ndarray, shape (n,)
        Fraction in [0, 1]; 0 without recomputation.

    Notes
    -----
    ``min(1, recompute_layers / (L / p))``.
    """
    share = np.clip(w.recompute_layers / (w.num_layers / w.pp), 0.0, 1.0)
    return np.where(w.recompute == Recompute.NONE, 0.0, share)


def recompute_flops_per_token(w: Workload) -> FloatArray:
    """Return the forward FLOPs per token that recomputation repeats, causal attention.

    Parameters
    ----------
    w : Workload
        n configurations.

    Returns
    -------
    ndarray, shape (n,)
        FLOPs of the whole model per token; the fused kernel's own recomputation is not in it.

    Notes
    -----
    None 0; selective one attention core; operator-selective 0 (matrix products are kept); full one forward pass
    of the layer; the head is never repeated. Recomputed modules add their own forward pass unless the layer is
    repeated anyway.

    References
    ----------
    arXiv 2205.05198, section 5 and appendix A.
    """
    layer = layer_flops_per_token(w)
    moe_layers = w.num_layers - w.num_dense_layers
    fraction = recomputed_layer_fraction(w)
    full = _all_layers(w, layer)
    selective = np.where(w.recompute == Recompute.SELECTIVE, w.num_layers * layer.core_causal, 0.0)
    mlp = np.where(w.recompute_mlp, w.num_dense_layers * layer.dense_mlp + moe_layers * layer.shared_experts, 0.0)
    experts = np.where(w.recompute_moe, moe_layers * (layer.routed_experts + layer.router), 0.0)
    modules = np.where(w.recompute_moe & ~w.recompute_mlp, moe_layers * layer.shared_experts, 0.0) + mlp + experts
    repeated = np.where(w.recompute == Recompute.FULL, full, selective + modules)
    return fraction * repeated


def _all_layers(w: Workload, layer: LayerFlops) -> FloatArray:
    moe = layer.routed_experts + layer.shared_experts + layer.router
    blocks = w.num_dense_layers * layer.dense_mlp + (w.num_layers - w.num_dense_layers) * moe
    return w.num_layers * (layer.projections + layer.core_causal) + blocks


def hardware_flops_per_token(w: Workload) -> FloatArray:
    """Return the FLOPs per token that are executed, causal attention: model FLOPs plus recomputation.

    Parameters
    ----------
    w : Workload
        n configurations.

    Returns
    -------
    ndarray, shape (n,)
        FLOPs of the whole model per token, forward and backward.

    Notes
    -----
    ``3 forward + recomputation``, and half an attention core more where a fused kernel rebuilds the scores.

    References
    ----------
    arXiv 2205.05198, appendix A; arXiv 2307.08691, section 4.1.
    """
    forward = forward_flops_per_token(w)
    fused = np.where(w.flash_attention, FLASH_BACKWARD_EXTRA * forward.attention_core_causal, 0.0)
    return FORWARD_AND_BACKWARD * forward.total_causal + fused + recompute_flops_per_token(w)


def repeated_forward_fraction(w: Workload) -> FloatArray:
    """Return the share of a stage's forward collectives and launches that run again in backward.

    Parameters
    ----------
    w : Workload
        n configurations.

    Returns
    -------
    ndarray, shape (n,)
        Fraction in [0, 1]; above 0 for full recomputation only.

    Notes
    -----
    Full recomputation repeats the two forward collectives of tensor parallelism: 6 per layer instead of 4.

    References
    ----------
    arXiv 1909.08053, section 3.
    """
    return np.where(w.recompute == Recompute.FULL, recomputed_layer_fraction(w), 0.0)
