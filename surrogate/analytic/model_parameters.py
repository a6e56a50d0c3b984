"""Parameters of whole models and of one GPU, from the matrix counts in `parameters`."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from surrogate.analytic import parameters
from surrogate.analytic.arrays import BoolLike
from surrogate.analytic.stages import LayerCounts, stage_layers
from surrogate.analytic.workload import FloatArray, Workload


class LayerParameters(NamedTuple):
    """Parameters of one layer by piece, each of shape (n,); a piece that the model lacks is 0."""

    attention_divided: FloatArray
    """Attention matrices that tensor parallelism divides."""
    attention_whole: FloatArray
    """MLA projections into the latents, and their norms: on every tensor-parallel rank."""
    attention_latent_norms: FloatArray
    """The norms inside `attention_whole`, which are no matrices."""
    norms: FloatArray
    dense_mlp: FloatArray
    expert: FloatArray
    """One routed expert."""
    shared_experts: FloatArray
    router: FloatArray

    @property
    def attention_matrices(self) -> FloatArray:
        """Weights of all attention projections."""
        return self.attention_divided + self.attention_whole - self.attention_latent_norms


class ModelParameters(NamedTuple):
    """Parameters of the whole model, each of shape (n,); multi-token-prediction layers are apart."""

    total: FloatArray
    active: FloatArray
    """Used by one token: k of E experts; embedding and head included as in `total`."""
    active_matrix: FloatArray
    """Weights that multiply one token, head included; no norms, no embedding look-up: the N of 6 N."""
    multi_token_prediction: FloatArray


class StageParameters(NamedTuple):
    """Parameters that one GPU of a stage holds before ZeRO, each of shape (n,)."""

    dense: FloatArray
    """All that data and context parallel ranks share, embedding and head apart."""
    expert: FloatArray
    embedding: FloatArray
    """Embedding and head."""

    @property
    def total(self) -> FloatArray:
        """All parameters of the GPU."""
        return self.dense + self.expert + self.embedding


class ParametersPerGpu(NamedTuple):
    """One GPU of the first, a middle and the last stage; the first and the last are one when pp = 1."""

    first: StageParameters
    middle: StageParameters
    last: StageParameters


def layer_parameters(w: Workload) -> LayerParameters:
    """Return the parameters of one layer by piece.

    Parameters
    ----------
    w : Workload
        n configurations.

    Returns
    -------
    LayerParameters
        Counts of shape (n,), before any division over GPUs.

    Notes
    -----
    Expert and MLA columns are 0 where a model has neither, so every piece is computed for every row.

    Assumptions: models with a gated MLP use RMSNorm, the others LayerNorm; no other biases and no routing bias
    (below 0.1 % of any published model).
    """
    size = {"hidden_size": w.hidden_size, "num_heads": w.num_heads}
    plain = parameters.attention_parameters(**size, num_kv_heads=w.num_kv_heads, head_dim=w.head_dim)
    ranks = {"q_lora_rank": w.q_lora_rank, "kv_lora_rank": w.kv_lora_rank}
    down = parameters.mla_down_parameters(hidden_size=w.hidden_size, qk_rope_head_dim=w.qk_rope_head_dim, **ranks)
    latent_norms = w.q_lora_rank + w.kv_lora_rank
    expert = parameters.mlp_parameters(
        hidden_size=w.hidden_size, ffn_hidden_size=w.moe_ffn_hidden_size, gated=w.gated_mlp
    )
    return LayerParameters(
        attention_divided=~w.is_mla * plain + _mla_up_parameters(w),
        attention_whole=down + latent_norms,
        attention_latent_norms=latent_norms,
        norms=parameters.norm_parameters(hidden_size=w.hidden_size, num_norms=2.0, has_bias=~w.gated_mlp),
        dense_mlp=parameters.mlp_parameters(
            hidden_size=w.hidden_size, ffn_hidden_size=w.ffn_hidden_size, gated=w.gated_mlp
        ),
        expert=expert,
        shared_experts=w.num_shared_experts * expert,
        router=parameters.router_parameters(hidden_size=w.hidden_size, num_experts=w.num_experts, has_bias=False),
    )


def _mla_up_parameters(w: Workload) -> FloatArray:
    query = parameters.mla_query_up_parameters(
        hidden_size=w.hidden_size,
        num_heads=w.num_heads,
        q_lora_rank=w.q_lora_rank,
        qk_head_dim=w.qk_nope_head_dim + w.qk_rope_head_dim,
    )
    key_value = parameters.mla_key_value_up_parameters(
        num_heads=w.num_heads,
        kv_lora_rank=w.kv_lora_rank,
        qk_nope_head_dim=w.qk_nope_head_dim,
        v_head_dim=w.v_head_dim,
    )
    output = parameters.mla_output_parameters(hidden_size=w.hidden_size, num_heads=w.num_heads, v_head_dim=w.v_head_dim)
    return query + key_value + output


def model_parameters(w: Workload) -> ModelParameters:
    """Return total, active and matrix parameters of the model.

    Parameters
    ----------
    w : Workload
        n configurations.

    Returns
    -------
    ModelParameters
        Counts of shape (n,).

    Notes
    -----
    Sum of the pieces over layers, embedding and head; E becomes k for the active counts, the router stays.
    Llama 3 and Mixtral come out exactly, DeepSeek-V3 without its routing bias of 58 * 256 weights.

    References
    ----------
    Counts published in arXiv 2407.21783 (Llama 3), 2401.04088 (Mixtral), 2412.19437 (DeepSeek-V3).
    """
    layer = layer_parameters(w)
    num_moe_layers = w.num_layers - w.num_dense_layers
    per_layer = layer.attention_matrices
    always_on = w.num_layers * per_layer + w.num_dense_layers * layer.dense_mlp
    always_on = always_on + num_moe_layers * (layer.shared_experts + layer.router)
    active_blocks = always_on + num_moe_layers * w.moe_top_k * layer.expert
    all_blocks = always_on + num_moe_layers * w.num_experts * layer.expert
    final_norm = 0.5 * layer.norms
    vocabulary = parameters.embedding_and_head_parameters(
        hidden_size=w.hidden_size, vocab_size=w.vocab_size, tied=w.tied_embeddings
    )
    rest = w.num_layers * (layer.norms + layer.attention_latent_norms) + final_norm + vocabulary
    return ModelParameters(
        total=all_blocks + rest,
        active=active_blocks + rest,
        active_matrix=active_blocks + w.vocab_size * w.hidden_size,
        multi_token_prediction=w.num_mtp_layers * _prediction_layer_parameters(w, layer),
    )


def _prediction_layer_parameters(w: Workload, layer: LayerParameters) -> FloatArray:
    """Count one multi-token-prediction layer: a layer, the 2h -> h projection and three norms more."""
    experts = w.num_experts * layer.expert + layer.shared_experts + layer.router
    block: FloatArray = experts + (w.num_experts == 0.0) * layer.dense_mlp
    attention = layer.attention_divided + layer.attention_whole
    return attention + 2.5 * layer.norms + block + 2.0 * w.hidden_size * w.hidden_size


def parameters_per_gpu(w: Workload) -> ParametersPerGpu:
    """Return the parameters that a GPU of the first, a middle and the last stage holds before ZeRO.

    Parameters
    ----------
    w : Workload
        n configurations.

    Returns
    -------
    ParametersPerGpu
        Counts of shape (n,).

    Notes
    -----
    ``dense / (t p) + experts / (p e t_e) + V h / t`` with the layers of `stages.stage_layers`; norms, router and
    the MLA down projections are not divided by t. A tied matrix is held by both end stages when pp > 1.
    Multi-token-prediction layers sit on the last stage.

    Assumptions: the vocabulary is divided by t evenly, without padding.
    """
    layer = layer_parameters(w)
    stages = stage_layers(w)
    single = w.pp == 1.0
    dense_model = w.num_experts == 0.0
    prediction = LayerCounts(dense=dense_model * w.num_mtp_layers, moe=~dense_model * w.num_mtp_layers)
    closing = (1.5 * w.num_mtp_layers + 0.5) * layer.norms
    closing = closing + w.num_mtp_layers * 2.0 * w.hidden_size * w.hidden_size / w.tp
    matrix = w.vocab_size * w.hidden_size / w.tp
    end = matrix + single * ~w.tied_embeddings * matrix
    nothing = np.zeros(len(w))
    first_layers = _add(stages.first, prediction, single)
    last_layers = _add(stages.last, prediction, True)
    return ParametersPerGpu(
        first=_stage_parameters(w, layer=layer, layers=first_layers, dense=single * closing, embedding=end),
        middle=_stage_parameters(w, layer=layer, layers=stages.middle, dense=nothing, embedding=nothing),
        last=_stage_parameters(w, layer=layer, layers=last_layers, dense=closing, embedding=end),
    )


def _add(layers: LayerCounts, more: LayerCounts, where: BoolLike) -> LayerCounts:
    return LayerCounts(dense=layers.dense + where * more.dense, moe=layers.moe + where * more.moe)


def _stage_parameters(
    w: Workload, *, layer: LayerParameters, layers: LayerCounts, dense: FloatArray, embedding: FloatArray
) -> StageParameters:
    attention = layer.attention_divided / w.tp + layer.attention_whole + layer.norms
    moe_part = layer.shared_experts / w.tp + layer.router
    return StageParameters(
        dense=layers.total * attention + layers.dense * (layer.dense_mlp / w.tp) + layers.moe * moe_part + dense,
        expert=layers.moe * (w.num_experts * layer.expert / (w.ep * w.expert_tp)),
        embedding=embedding,
    )
