"""Rules that tie the parts of a plan together; each error names the field, the rule, the value and the way out."""

from __future__ import annotations

from typing import Final

from surrogate.catalog import peak_rate_used
from surrogate.errors import InputError
from surrogate.plan.specs import ClusterSpec, ModelSpec, ParallelismSpec, TrainingSpec

_STAGES_FOR_EMBEDDING_AND_LOSS: Final = 2  # layouts that count the embedding and the loss as layers of the pipeline
_SPLIT_BACKWARD: Final = ("zb-h1", "zb-h2", "zb-v", "dualpipe", "v-half", "v-min")
_ONE_CHUNK: Final = ("1f1b", "gpipe", "zb-h1", "zb-h2")
_FSDP: Final = ("fsdp1", "fsdp2", "megatron-fsdp", "gspmd")
_PIPELINES_THAT_KEEP_GRADIENTS: Final = ("megatron", "deepspeed", "neox", "nemo", "bridge", "nanotron")
"""Parts of the names of frameworks whose pipelines accumulate whole gradients over the micro-batches."""
_ALL_LAYERS: Final = "leave it out to recompute every layer"


def check_consistency(
    model: ModelSpec, cluster: ClusterSpec, parallelism: ParallelismSpec, training: TrainingSpec
) -> None:
    """Raise on the first rule that two parts of a plan break together.

    Raises
    ------
    InputError
        With the way out.
    """
    _check_world_size(cluster, parallelism)
    dp = cluster.num_gpus // parallelism.model_parallel_size
    _check_batch(training, dp)
    _check_sequence(parallelism, training)
    _check_tensor_parallelism(model, parallelism)
    _check_pipeline(model, parallelism)
    _check_schedule(parallelism)
    _check_experts(model, cluster, parallelism)
    _check_sharding(parallelism, dp)
    check_sharded_pipeline(parallelism, training)
    _check_recomputation(model, parallelism, training)
    if training.precision is not None:
        peak_rate_used(cluster.accelerator_entry, training.precision)


def _check_world_size(cluster: ClusterSpec, parallelism: ParallelismSpec) -> None:
    tp, pp, cp = parallelism.tp, parallelism.pp, parallelism.cp or 1
    replica = parallelism.model_parallel_size
    if cluster.num_gpus % replica:
        rule = f"must be a multiple of tp*pp*cp = {tp}*{pp}*{cp} = {replica}"
        raise InputError("num_gpus", rule, cluster.num_gpus, f"e.g. {replica * max(1, cluster.num_gpus // replica)}")
    node = cluster.gpus_per_node
    if node and cluster.num_gpus > node and cluster.num_gpus % node:
        whole = node * (cluster.num_gpus // node)
        raise InputError("num_gpus", f"must fill nodes of gpus_per_node = {node}", cluster.num_gpus, f"e.g. {whole}")
    if parallelism.dp is not None and replica * parallelism.dp != cluster.num_gpus:
        rule = f"must make tp*pp*cp*dp = num_gpus: {tp}*{pp}*{cp}*dp = {cluster.num_gpus}"
        raise InputError("dp", rule, parallelism.dp, f"leave dp out (it follows) or use {cluster.num_gpus // replica}")


def _check_batch(training: TrainingSpec, dp: int) -> None:
    micro = training.micro_batch_size or 1
    if training.global_batch_size % (micro * dp):
        rule = f"must be a multiple of micro_batch_size*dp = {micro}*{dp}"
        near = micro * dp * max(1, round(training.global_batch_size / (micro * dp)))
        raise InputError("global_batch_size", rule, training.global_batch_size, f"the nearest is {near}")


def _check_sequence(parallelism: ParallelismSpec, training: TrainingSpec) -> None:
    parts, rule = parallelism.cp or 1, "must be a multiple of cp"
    if parallelism.sequence_parallel:
        parts, rule = parts * parallelism.tp, "must be a multiple of cp*tp under sequence parallelism"
    if training.seq_len % parts:
        raise InputError("seq_len", f"{rule} = {parts}", training.seq_len)


def _check_tensor_parallelism(model: ModelSpec, parallelism: ParallelismSpec) -> None:
    tp, kv_heads = parallelism.tp, model.num_kv_heads
    if model.num_heads % tp:
        raise InputError("tp", f"must divide num_heads ({model.num_heads})", tp, _divisors(model.num_heads))
    if model.attention != "mla" and kv_heads and kv_heads % tp and tp % kv_heads:
        rule = f"must divide num_kv_heads ({kv_heads}) or be a multiple of it, which replicates the heads"
        raise InputError("tp", rule, tp, _divisors(kv_heads) + f" and multiples of {kv_heads}")


def _check_pipeline(model: ModelSpec, parallelism: ParallelismSpec) -> None:
    chunks = parallelism.pp * (parallelism.vp or 1)
    places = model.num_layers + (model.num_mtp_layers or 0) + _STAGES_FOR_EMBEDDING_AND_LOSS
    if chunks > places:
        rule = f"must leave every stage a layer: pp*vp = {chunks} exceeds the {model.num_layers} layers"
        raise InputError("pp", rule, parallelism.pp, "lower pp or vp")


def _check_schedule(parallelism: ParallelismSpec) -> None:
    schedule, pp, vp = parallelism.pipeline_schedule, parallelism.pp, parallelism.vp
    if pp == 1 or schedule is None:
        return
    if schedule == "dualpipe" and pp % 2:
        raise InputError("pp", "must be even under dualpipe", pp, "choose an even pp, or pipeline_schedule 1f1b")
    if schedule == "interleaved-1f1b" and vp == 1:
        raise InputError("vp", "must be above 1 under interleaved-1f1b", vp, "raise vp, or pipeline_schedule 1f1b")
    if schedule in _ONE_CHUNK and (vp or 1) > 1:
        raise InputError("vp", f"must be 1 under {schedule}", vp, "drop vp, or pipeline_schedule interleaved-1f1b")


def _check_experts(model: ModelSpec, cluster: ClusterSpec, parallelism: ParallelismSpec) -> None:
    ep, expert_tp = parallelism.ep or 1, parallelism.expert_tp or 1
    if ep == 1 and expert_tp == 1:
        return
    if not model.is_moe:
        field, got = ("ep", ep) if ep > 1 else ("expert_tp", expert_tp)
        raise InputError(field, "must be 1 for a model without experts", got, "drop it, or give num_experts")
    if (model.num_experts or 0) % ep:
        raise InputError("ep", f"must divide num_experts ({model.num_experts})", ep, _divisors(model.num_experts or 1))
    ranks = cluster.num_gpus // parallelism.pp
    if ranks % (ep * expert_tp):
        rule = f"times expert_tp ({expert_tp}) must divide the {ranks} ranks of a pipeline stage"
        raise InputError("ep", rule, ep, _divisors(ranks))


def _check_sharding(parallelism: ParallelismSpec, dp: int) -> None:
    ranks = dp * (parallelism.cp or 1)
    if parallelism.hsdp_shard is not None and ranks % parallelism.hsdp_shard:
        raise InputError("hsdp_shard", f"must divide dp*cp = {ranks}", parallelism.hsdp_shard, _divisors(ranks))


def check_sharded_pipeline(parallelism: ParallelismSpec, training: TrainingSpec) -> None:
    """Refuse sharded gradients or parameters where the pipeline needs them whole, micro-batch after micro-batch.

    Raises
    ------
    InputError
        With the way out.
    """
    stage, schedule = parallelism.zero_stage or 0, parallelism.pipeline_schedule
    if stage <= 1 or parallelism.pp == 1:
        return
    if schedule in _SPLIT_BACKWARD:
        rule = f"must be at most 1 under {schedule}, which splits the backward pass"
        raise InputError("zero_stage", rule, stage, "set zero_stage to 1, or pipeline_schedule to 1f1b")
    if parallelism.fsdp in _FSDP:
        return
    name = training.stack or training.framework or ""
    if not name or ("automodel" not in name.lower() and _names_one(name, _PIPELINES_THAT_KEEP_GRADIENTS)):
        rule = f"must be at most 1 under pipeline parallelism (pp = {parallelism.pp}) unless FSDP shards the parameters"
        raise InputError("zero_stage", rule, stage, "set zero_stage or pp to 1, or name fsdp, for example fsdp2")


def _names_one(name: str, parts: tuple[str, ...]) -> bool:
    return any(part in name.lower() for part in parts)


def _check_recomputation(model: ModelSpec, parallelism: ParallelismSpec, training: TrainingSpec) -> None:
    """Bound `recompute_layers`, a count per pipeline stage, by the fullest stage of an even split, or by the model."""
    layers, pp = training.recompute_layers or 0, parallelism.pp
    if layers > model.num_layers:
        raise InputError("recompute_layers", f"must be at most num_layers ({model.num_layers})", layers, _ALL_LAYERS)
    stage = -(-model.num_layers // pp)
    if layers > stage and parallelism.pipeline_layout is None:
        rule = f"must be at most the layers of a pipeline stage ({model.num_layers}/{pp} = {stage})"
        raise InputError("recompute_layers", rule, layers, _ALL_LAYERS)


def _divisors(number: int) -> str:
    small = [str(divisor) for divisor in range(1, min(number, 64) + 1) if number % divisor == 0]
    return f"possible are {', '.join(small)}" + (", ..." if number > 64 else "")
