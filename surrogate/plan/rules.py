"""Rules that tie the parts of a plan together; each error names the field, the rule, the value and the way out."""

from __future__ import annotations

from surrogate.catalog import peak_rate_used
from surrogate.errors import InputError
from surrogate.plan.specs import ClusterSpec, ModelSpec, ParallelismSpec, TrainingSpec

_STAGES_FOR_EMBEDDING_AND_LOSS = 2  # layouts that count the embedding and the loss as layers of the pipeline


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
    _check_experts(model, cluster, parallelism)
    _check_sharding(parallelism, dp)
    if training.precision is not None:
        peak_rate_used(cluster.accelerator_entry, training.precision)
    if (training.recompute_layers or 0) > model.num_layers:
        rule = f"must be at most num_layers ({model.num_layers})"
        raise InputError("recompute_layers", rule, training.recompute_layers)


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
        raise InputError("tp", f"must divide num_kv_heads ({kv_heads}) or be a multiple of it", tp)


def _check_pipeline(model: ModelSpec, parallelism: ParallelismSpec) -> None:
    chunks = parallelism.pp * (parallelism.vp or 1)
    places = model.num_layers + (model.num_mtp_layers or 0) + _STAGES_FOR_EMBEDDING_AND_LOSS
    if chunks > places:
        rule = f"must leave every stage a layer: pp*vp = {chunks} exceeds the {model.num_layers} layers"
        raise InputError("pp", rule, parallelism.pp, "lower pp or vp")


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


def _divisors(number: int) -> str:
    small = [str(divisor) for divisor in range(1, min(number, 64) + 1) if number % divisor == 0]
    return f"possible are {', '.join(small)}" + (", ..." if number > 64 else "")
