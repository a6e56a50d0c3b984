"""What a publication's FLOP/s or utilisation figure counts per token, by the prefix of its `tflops_kind`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

import numpy as np
import pandas as pd

from surrogate.analytic.workload import FloatArray
from surrogate.derive.architecture import (
    Architecture,
    attention_core_flops_per_token,
    attention_parameters,
    expert_block_parameters,
    matrix_flops_per_token,
    model_flops_per_token,
)
from surrogate.units import TERA


class Convention(NamedTuple):
    """A formula under which publications print FLOP/s."""

    prefix: str
    """Start of `tflops_kind`; the first convention that matches is used."""
    flops_per_token: Callable[[Architecture, FloatArray], FloatArray]
    """Sizes and multi-token-prediction layers -> FLOPs of one token."""
    reference: str


def megatron_hardware_flops_per_token(a: Architecture, mtp_layers: FloatArray) -> FloatArray:
    """Return ``96 L h^2 (1 + s / 6h + V / 16Lh)``, which counts the recomputed forward."""
    del mtp_layers
    corrections = a.seq_len / (6.0 * a.hidden_size) + a.vocab_size / (16.0 * a.num_layers * a.hidden_size)
    return 96.0 * a.num_layers * a.hidden_size**2 * (1.0 + corrections)


def eight_n_flops_per_token(a: Architecture, mtp_layers: FloatArray) -> FloatArray:
    """Return ``8 N`` with ``N = 12 L h^2``: no embedding, no attention core, one recomputed forward."""
    del mtp_layers
    return 96.0 * a.num_layers * a.hidden_size**2


def causal_flops_per_token(a: Architecture, mtp_layers: FloatArray) -> FloatArray:
    """Return model FLOPs with the attention core halved, multi-token-prediction layers included.

    Notes
    -----
    An extra prediction layer is one more layer, a ``2h -> h`` projection and one more pass through the head.
    """
    experts = expert_block_parameters(a, experts_per_layer=a.moe_top_k)
    layer = 6.0 * (attention_parameters(a) + experts + 2.0 * a.hidden_size**2 + a.vocab_size * a.hidden_size)
    core = 0.5 * attention_core_flops_per_token(a)
    return matrix_flops_per_token(a) + core + mtp_layers * (layer + core / a.num_layers)


def full_attention_flops_per_token(a: Architecture, mtp_layers: FloatArray) -> FloatArray:
    """Return model FLOPs with the attention core not halved."""
    del mtp_layers
    return model_flops_per_token(a)


_MEGATRON: Final = "arXiv 2104.04473, equation 3"
CONVENTIONS: Final = (
    Convention("hardware:megatron-96Bslh2", megatron_hardware_flops_per_token, _MEGATRON),
    Convention("hardware:8N (N=12Lh^2", eight_n_flops_per_token, "bigscience-workshop/bigscience, train/tr11-176B-ml"),
    Convention("model:megatron-bridge", causal_flops_per_token, "NVIDIA-NeMo/Megatron-Bridge, performance summary"),
    Convention("model:6N+attn(causal/2)", causal_flops_per_token, "NVIDIA/dgxc-benchmarking, README of each recipe"),
    Convention("model:6N(no input emb)+causal", causal_flops_per_token, "AI-Hypercomputer/maxtext, pull request 1988"),
    Convention("model:6N", full_attention_flops_per_token, "arXiv 2204.02311, appendix B"),
    Convention("model:aleph-alpha", full_attention_flops_per_token, "arXiv 2311.05610"),
    Convention("model:nanotron", full_attention_flops_per_token, "huggingface/nanotron, FLOPs of the Llama model"),
    Convention("model:megatron", full_attention_flops_per_token, _MEGATRON + " without the recomputed forward"),
)
"""Formulas that are stated well enough to turn a rate into a time."""


def source_flops_per_token(runs: pd.DataFrame, a: Architecture) -> FloatArray:
    """Return the FLOPs per token that each row's own figure counts; NaN where its convention is not known.

    Publications do not say how they count windowed attention, so rows with a window have no known convention.

    Parameters
    ----------
    runs : DataFrame of shape (n, columns)
        Canonical columns; read are `tflops_kind`, `num_mtp_layers` and `sliding_window`.
    a : Architecture
        Sizes of the same rows.

    Returns
    -------
    ndarray of shape (n,)
        FLOPs per token.
    """
    kinds = runs["tflops_kind"].fillna("")
    mtp_layers = runs["num_mtp_layers"].fillna(0).to_numpy(dtype=np.float64)
    flops = np.full(len(runs), np.nan)
    for convention in reversed(CONVENTIONS):
        matching = kinds.str.startswith(convention.prefix).to_numpy(dtype=bool)
        flops = np.where(matching, convention.flops_per_token(a, mtp_layers), flops)
    return np.where(runs["sliding_window"].isna(), flops, np.nan)


def source_peak_flops_per_s(runs: pd.DataFrame, peak_flops_per_s: FloatArray) -> FloatArray:
    """Return the peak that each row's utilisation is relative to: the one stated in `tflops_kind`, else the dense one.

    Parameters
    ----------
    runs : DataFrame of shape (n, columns)
        Canonical columns; ``"... / 989"`` at the end of `tflops_kind` states a peak of 989 TFLOP/s.
    peak_flops_per_s : ndarray of shape (n,)
        Dense peak per accelerator at the row's precision.

    Returns
    -------
    ndarray of shape (n,)
        FLOP/s.
    """
    stated = runs["tflops_kind"].str.extract(r"/ (\d+(?:\.\d+)?)$", expand=False).astype(np.float64) * TERA
    return np.where(stated.isna(), peak_flops_per_s, stated)
