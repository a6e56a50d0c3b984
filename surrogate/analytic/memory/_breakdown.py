"""The itemised answer: bytes per GPU by cause."""

from __future__ import annotations

from dataclasses import dataclass, fields

from surrogate.analytic.workload import FloatArray


@dataclass(frozen=True, kw_only=True, slots=True)
class MemoryBreakdown:
    """Peak bytes per GPU of one pipeline stage, by cause; every array of shape (n,).

    `allocated_bytes` is what a framework's allocator hands out at the peak, `reserved_bytes` adds its fragmentation,
    `device_bytes` adds what the driver and the communication library take: the figure `nvidia-smi` shows.
    """

    stage: FloatArray
    """Pipeline stage, from 0."""
    weights_bytes: FloatArray
    gradients_bytes: FloatArray
    optimizer_bytes: FloatArray
    optimizer_step_bytes: FloatArray
    """What the optimizer step's fp32 gradient copy takes beyond the activations whose place it fills."""
    norm_activations_bytes: FloatArray
    attention_activations_bytes: FloatArray
    mlp_activations_bytes: FloatArray
    expert_activations_bytes: FloatArray
    gathered_inputs_bytes: FloatArray
    """Block inputs that sequence parallelism leaves gathered."""
    recomputation_bytes: FloatArray
    """Saved layer inputs and the layer being rebuilt, under full recomputation."""
    embedding_bytes: FloatArray
    logits_bytes: FloatArray
    transient_bytes: FloatArray
    communication_bytes: FloatArray
    gathered_parameters_bytes: FloatArray
    fragmentation_bytes: FloatArray
    context_bytes: FloatArray
    host_bytes: FloatArray
    """Offloaded to the memory of the host, per GPU."""

    @property
    def static_bytes(self) -> FloatArray:
        """Weights, gradients and optimizer states."""
        return self.weights_bytes + self.gradients_bytes + self.optimizer_bytes

    @property
    def activations_bytes(self) -> FloatArray:
        """All activations that wait for the backward pass."""
        return (
            self.norm_activations_bytes
            + self.attention_activations_bytes
            + self.mlp_activations_bytes
            + self.expert_activations_bytes
            + self.gathered_inputs_bytes
            + self.recomputation_bytes
            + self.embedding_bytes
        )

    @property
    def allocated_bytes(self) -> FloatArray:
        """Peak of the tensors."""
        buffers = self.logits_bytes + self.transient_bytes + self.communication_bytes + self.gathered_parameters_bytes
        return self.static_bytes + self.optimizer_step_bytes + self.activations_bytes + buffers

    @property
    def reserved_bytes(self) -> FloatArray:
        """Peak of what the allocator holds."""
        return self.allocated_bytes + self.fragmentation_bytes

    @property
    def device_bytes(self) -> FloatArray:
        """Peak of the whole device: what must fit."""
        return self.reserved_bytes + self.context_bytes

    def items(self) -> dict[str, FloatArray]:
        """Every device item by name, in order; their sum is `device_bytes`."""
        names = [field.name for field in fields(self) if field.name not in ("stage", "host_bytes")]
        return {name: getattr(self, name) for name in names}
