"""Model FLOPs by published conventions, and the utilisations that follow.

Model FLOPs count no recomputation (MFU), hardware FLOPs count it (HFU). Closed forms of GPT models assume
f = 4h, multi-head attention and the whole score matrix.
"""

from __future__ import annotations

from surrogate.analytic.arrays import FloatLike, as_floats
from surrogate.analytic.flops import FORWARD_AND_BACKWARD, forward_flops_per_token
from surrogate.analytic.model_parameters import model_parameters
from surrogate.analytic.workload import FloatArray, Workload


def gpt_model_flops(
    *, num_layers: FloatLike, hidden_size: FloatLike, seq_len: FloatLike, vocab_size: FloatLike, batch_size: FloatLike
) -> FloatArray:
    """Return the model FLOPs of a step of a GPT.

    Parameters
    ----------
    num_layers, hidden_size, seq_len, vocab_size : array_like, shape (n,)
        Architecture.
    batch_size : array_like, shape (n,)
        Sequences per step.

    Returns
    -------
    ndarray, shape (n,)
        FLOPs per step.

    Notes
    -----
    ``72 Bg s L h^2 (1 + s / (6 h) + V / (12 L h))``.

    References
    ----------
    arXiv 2205.05198, appendix A.

    Examples
    --------
    L = h = s = 1, V = 12, one sequence: 72 (1 + 1/6 + 1).

    >>> round(float(gpt_model_flops(num_layers=1, hidden_size=1, seq_len=1, vocab_size=12, batch_size=1)), 6)
    156.0
    """
    layers = 72.0 * batch_size * seq_len * num_layers * as_floats(hidden_size) ** 2
    return as_floats(layers * (1.0 + seq_len / (6.0 * hidden_size) + vocab_size / (12.0 * num_layers * hidden_size)))


def gpt_full_recompute_flops(
    *, num_layers: FloatLike, hidden_size: FloatLike, seq_len: FloatLike, vocab_size: FloatLike, batch_size: FloatLike
) -> FloatArray:
    """Return the hardware FLOPs of a step of a GPT with full recomputation.

    Parameters
    ----------
    num_layers, hidden_size, seq_len, vocab_size, batch_size : array_like, shape (n,)
        As for `gpt_model_flops`.

    Returns
    -------
    ndarray, shape (n,)
        FLOPs per step.

    Notes
    -----
    ``96 Bg s L h^2 (1 + s / (6 h) + V / (16 L h))``.

    References
    ----------
    Megatron-LM, arXiv 2104.04473, section 5.1, equation 3.

    Examples
    --------
    >>> round(float(gpt_full_recompute_flops(num_layers=1, hidden_size=1, seq_len=1, vocab_size=16, batch_size=1)), 6)
    208.0
    """
    layers = 96.0 * batch_size * seq_len * num_layers * as_floats(hidden_size) ** 2
    return as_floats(layers * (1.0 + seq_len / (6.0 * hidden_size) + vocab_size / (16.0 * num_layers * hidden_size)))


def gpt_selective_recompute_flops(
    *, num_layers: FloatLike, hidden_size: FloatLike, seq_len: FloatLike, vocab_size: FloatLike, batch_size: FloatLike
) -> FloatArray:
    """Return the hardware FLOPs of a step of a GPT that recomputes the attention core.

    Parameters
    ----------
    num_layers, hidden_size, seq_len, vocab_size, batch_size : array_like, shape (n,)
        As for `gpt_model_flops`.

    Returns
    -------
    ndarray, shape (n,)
        FLOPs per step.

    Notes
    -----
    ``72 Bg s L h^2 (1 + 2 s / (9 h) + V / (12 L h))``: one more forward core, ``4 Bg s^2 h`` per layer.

    Assumptions and error: the HFU printed in arXiv 2205.05198, table 5, follows ``s / (3 h)`` in the place of
    ``2 s / (9 h)``, 0.5 to 1.4 points above this count.

    References
    ----------
    Derived from arXiv 2205.05198, section 5.

    Examples
    --------
    >>> float(gpt_selective_recompute_flops(num_layers=1, hidden_size=1, seq_len=9, vocab_size=12, batch_size=1))
    2592.0
    """
    layers = 72.0 * batch_size * seq_len * num_layers * as_floats(hidden_size) ** 2
    return as_floats(
        layers * (1.0 + 2.0 * seq_len / (9.0 * hidden_size) + vocab_size / (12.0 * num_layers * hidden_size))
    )


def causal_model_flops_per_token(w: Workload) -> FloatArray:
    """Return model FLOPs per token with causal attention: three forward passes.

    Parameters
    ----------
    w : Workload
        n configurations.

    Returns
    -------
    ndarray, shape (n,)
        FLOPs of the whole model per token; windows and multi-token-prediction layers counted.

    Notes
    -----
    ``3 forward``; the work that an ideal causal kernel does, without recomputation.
    """
    return FORWARD_AND_BACKWARD * forward_flops_per_token(w).total_causal


def model_flops_per_token(w: Workload) -> FloatArray:
    """Return model FLOPs per token by the convention of the runs table, on which its MFU rests.

    Parameters
    ----------
    w : Workload
        n configurations.

    Returns
    -------
    ndarray, shape (n,)
        FLOPs per token, forward and backward.

    Notes
    -----
    ``6 (N + V h) + 12 L A s``: N active parameters without embedding, head and norms; A the summed head width
    ``a d_h``, for MLA ``a (d_n + d_r + d_v) / 2``. Attention is not halved, windows and
    multi-token-prediction layers are not counted.

    References
    ----------
    PaLM, arXiv 2204.02311, appendix B.

    Examples
    --------
    Llama 3 8B at s = 8192: 6 * 7,504,658,432 + 12 * 32 * 4096 * 8192.
    """
    latent_width = 0.5 * (w.qk_nope_head_dim + w.qk_rope_head_dim + w.v_head_dim)
    width = w.num_heads * (latent_width + ~w.is_mla * w.head_dim)
    return 6.0 * model_parameters(w).active_matrix + 12.0 * w.num_layers * width * w.seq_len


def flops_utilization(
    *, flops: FloatLike, step_time_s: FloatLike, num_gpus: FloatLike, peak_flops_per_s: FloatLike
) -> FloatArray:
    """Return MFU for model FLOPs, HFU for hardware FLOPs.

    Parameters
    ----------
    flops : array_like, shape (n,)
        FLOPs of a step over all GPUs, model or hardware.
    step_time_s, num_gpus : array_like, shape (n,)
        Seconds per step and accelerators.
    peak_flops_per_s : array_like, shape (n,)
        Dense peak of one accelerator at the training precision.

    Returns
    -------
    ndarray, shape (n,)
        Fraction.

    Notes
    -----
    ``FLOPs / (T N Pk)``.

    References
    ----------
    PaLM, arXiv 2204.02311, appendix B.

    Examples
    --------
    >>> float(flops_utilization(flops=4e15, step_time_s=1.0, num_gpus=8, peak_flops_per_s=1e15))
    0.5
    """
    return as_floats(flops / (as_floats(step_time_s) * num_gpus * peak_flops_per_s))


def training_time_s(
    *,
    num_parameters: FloatLike,
    num_tokens: FloatLike,
    num_gpus: FloatLike,
    achieved_flops_per_s: FloatLike,
    full_recompute: bool,
) -> FloatArray:
    """Return the time of a whole training run from an achieved rate.

    Parameters
    ----------
    num_parameters, num_tokens, num_gpus : array_like, shape (n,)
        Active parameters, tokens of the run, accelerators.
    achieved_flops_per_s : array_like, shape (n,)
        FLOP/s per accelerator: hardware FLOPs with `full_recompute`, model FLOPs otherwise.
    full_recompute : bool
        Whether the rate counts a second forward pass.

    Returns
    -------
    ndarray, shape (n,)
        Seconds.

    Notes
    -----
    ``8 P D / (N X)`` with full recomputation, ``6 P D / (N X)`` for model FLOPs; attention is left out.

    References
    ----------
    Megatron-LM, arXiv 2104.04473, section 5.1, equation 4.

    Examples
    --------
    GPT-3, 300e9 tokens on 1024 A100 at 140 TFLOP/s: 34 days.

    >>> args = {"num_parameters": 175e9, "num_tokens": 300e9, "num_gpus": 1024, "achieved_flops_per_s": 140e12}
    >>> round(float(training_time_s(full_recompute=True, **args)) / 86400, 1)
    33.9
    """
    factor = 8.0 if full_recompute else 6.0
    return as_floats(factor * num_parameters * num_tokens / (as_floats(num_gpus) * achieved_flops_per_s))
