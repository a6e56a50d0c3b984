"""The four parts of a plan: what is trained, on what, split how, and with which settings.

Field names and units are those of the runs table (`surrogate.schema`), which also holds each one's bounds and
vocabulary. None means "not said": the feature layer imputes it by a documented rule and flags it.
"""

from __future__ import annotations

from dataclasses import dataclass

from surrogate.catalog import Accelerator, resolve_accelerator
from surrogate.errors import InputError
from surrogate.plan.values import check_values


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelSpec:
    """The architecture.

    Raises
    ------
    InputError
        If a size is out of bounds or two sizes contradict each other.
    """

    num_layers: int
    hidden_size: int
    num_heads: int
    model_name: str | None = None
    arch_from: str | None = None
    ffn_hidden_size: int | None = None
    num_kv_heads: int | None = None
    head_dim: int | None = None
    vocab_size: int | None = None
    gated_mlp: bool | None = None
    tied_embeddings: bool | None = None
    num_experts: int | None = None
    moe_top_k: int | None = None
    moe_ffn_hidden_size: int | None = None
    num_shared_experts: int | None = None
    num_dense_layers: int | None = None
    attention: str | None = None
    q_lora_rank: int | None = None
    kv_lora_rank: int | None = None
    qk_nope_head_dim: int | None = None
    qk_rope_head_dim: int | None = None
    v_head_dim: int | None = None
    sliding_window: int | None = None
    windowed_layers_fraction: float | None = None
    num_mtp_layers: int | None = None
    published_params: float | None = None
    published_active_params: float | None = None

    def __post_init__(self) -> None:
        check_values(self)
        if self.head_dim is None and self.hidden_size % self.num_heads:
            rule = f"must be divisible by num_heads ({self.num_heads})"
            raise InputError("hidden_size", rule, self.hidden_size, "or give head_dim")
        if self.attention != "mla" and self.num_kv_heads and self.num_heads % self.num_kv_heads:
            raise InputError("num_kv_heads", f"must divide num_heads ({self.num_heads})", self.num_kv_heads)
        if (self.moe_top_k or 0) > (self.num_experts or 0):
            rule = f"must be at most num_experts ({self.num_experts or 0})"
            raise InputError("moe_top_k", rule, self.moe_top_k, "give num_experts, or 0 for a dense model")
        if self.is_moe and not self.moe_top_k:
            rule = "must be at least 1 in a mixture-of-experts model"
            raise InputError("moe_top_k", rule, self.moe_top_k, "give the experts per token")
        if (self.num_dense_layers or 0) > self.num_layers:
            raise InputError(
                "num_dense_layers", f"must be at most num_layers ({self.num_layers})", self.num_dense_layers
            )

    @property
    def is_moe(self) -> bool:
        """Whether some layers have routed experts."""
        return bool(self.num_experts)


@dataclass(frozen=True, kw_only=True, slots=True)
class ClusterSpec:
    """The machine; bandwidths in bytes per second, one direction, per node.

    Raises
    ------
    InputError
        If a value is out of bounds or the accelerator is unknown.
    """

    accelerator: str
    num_gpus: int
    gpus_per_node: int | None = None
    intra_node: str | None = None
    inter_node_bytes_per_s: float | None = None
    inter_node_from: str | None = None
    fabric: str | None = None
    nvlink_domain_gpus: int | None = None

    def __post_init__(self) -> None:
        check_values(self)
        resolve_accelerator(self.accelerator)

    @property
    def accelerator_entry(self) -> Accelerator:
        """The catalogue's entry of the accelerator."""
        return resolve_accelerator(self.accelerator)


@dataclass(frozen=True, kw_only=True, slots=True)
class ParallelismSpec:
    """How the model and the batch are split; sizes are numbers of ranks.

    Raises
    ------
    InputError
        If a size is out of bounds or two settings contradict each other.
    """

    tp: int
    pp: int
    cp: int | None = None
    dp: int | None = None
    ep: int | None = None
    vp: int | None = None
    expert_tp: int | None = None
    sequence_parallel: bool | None = None
    zero_stage: int | None = None
    fsdp: str | None = None
    hsdp_shard: int | None = None
    pipeline_schedule: str | None = None
    pipeline_layout: str | None = None

    def __post_init__(self) -> None:
        check_values(self)
        if (self.vp or 1) > 1 and self.pp == 1:
            raise InputError("vp", "must be 1 without pipeline parallelism (pp = 1)", self.vp, "drop vp or raise pp")

    @property
    def model_parallel_size(self) -> int:
        """Ranks that hold one replica: tp * pp * cp."""
        return self.tp * self.pp * (self.cp or 1)


@dataclass(frozen=True, kw_only=True, slots=True)
class TrainingSpec:
    """Batch, precision, recomputation, overlap and kernels; batch sizes in sequences.

    Raises
    ------
    InputError
        If a value is out of bounds or not in its vocabulary.
    """

    seq_len: int
    global_batch_size: int
    micro_batch_size: int | None = None
    framework: str | None = None
    framework_version: str | None = None
    stack: str | None = None
    precision: str | None = None
    fp8_recipe: str | None = None
    recompute: str | None = None
    recompute_kind: str | None = None
    recompute_layers: int | None = None
    recompute_modules: str | None = None
    flash_attention: bool | None = None
    attention_backend: str | None = None
    fused_norm: bool | None = None
    overlap_grad_reduce: bool | None = None
    overlap_param_gather: bool | None = None
    tp_comm_overlap: bool | None = None
    moe_dispatcher: str | None = None
    ep_overlap: bool | None = None
    moe_force_balance: bool | None = None
    moe_capacity_factor: float | None = None
    cuda_graphs: str | None = None
    compiled: bool | None = None
    cp_comm_type: str | None = None
    optimizer: str | None = None
    param_gather_dtype: str | None = None
    grad_reduce_dtype: str | None = None
    cpu_offload: str | None = None
    cpu_offload_layers: int | None = None

    def __post_init__(self) -> None:
        check_values(self)
        if self.micro_batch_size and self.micro_batch_size > self.global_batch_size:
            rule = f"must be at most global_batch_size ({self.global_batch_size})"
            raise InputError("micro_batch_size", rule, self.micro_batch_size)
