"""What the common frameworks call step time, throughput, utilisation and memory in W&B and MLflow."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final, NamedTuple

from surrogate.units import GIB, GIGA, MIB, MILLI, TERA

PERCENT: Final = 0.01


class Meaning(NamedTuple):
    """What a metric says, in the terms of a step record.

    Parameters
    ----------
    attribute : str
        Attribute of `StepRecord`.
    factor : float
        Times the logged value gives SI units.
    is_inverse : bool
        The metric is steps per second; its inverse is the step time.
    memory_kind : str
        "allocated" or "reserved" for memory.
    """

    attribute: str
    factor: float = 1.0
    is_inverse: bool = False
    memory_kind: str = ""


_TIME = "time_s"
_RULES: Final[tuple[tuple[str, Meaning], ...]] = (
    # seconds per optimizer step, most explicit first
    (r"iteration-time|runtime/iteration_time|time_metrics/end_to_end\(s\)|perf/step_time_seconds", Meaning(_TIME)),
    (r"elapsed_time_per_iteration_ms|time_per_iteration_ms|(avg_)?iter(ation)?_time_ms", Meaning(_TIME, MILLI)),
    (r"train_step_timing( in s)?|(perf/)?(train_)?step_time(_s|_sec|_seconds|\(s\))?", Meaning(_TIME)),
    (r"step_time_ms|ms_per_(iter|iteration|step)|step_duration_ms", Meaning(_TIME, MILLI)),
    (r"(sec|secs|seconds)_per_(iter|iteration|step|batch)|(time|s)_per_(iter|iteration|step|batch)", Meaning(_TIME)),
    (r"(perf/)?(iter|iteration|batch|step)_(time|duration)|time/(step|iteration|batch_time)", Meaning(_TIME)),
    (r"(train_)?(steps|iterations|iters|batches|it)_per_(second|sec|s)", Meaning(_TIME, is_inverse=True)),
    # tokens per second: of one accelerator, of the job
    (r"device/tokens_per_sec(ond)?|(per_)?device_tokens_per_sec", Meaning("tokens_per_s_per_gpu")),
    (r"tokens?(_per_|/)s(ec|econd)?(_per_|/)(gpu|device|chip)|throughput\(tps\)|tgs", Meaning("tokens_per_s_per_gpu")),
    (r"(train_)?tokens_per_s(ec|econd)?|tokens/s(ec)?|total_tps", Meaning("tokens_per_s")),
    (r"(train_)?samples[_ ]per[_ ]s(ec|econd)?", Meaning("samples_per_s")),
    # FLOP/s of one accelerator, utilisation
    (r"device/flops_per_sec|flops_per_sec_per_gpu", Meaning("flops_per_s")),
    (
        r"(model_)?tflops?(_per_|/)?(s_per_)?(gpu|device|s)?|tflops per gpu.*|(per_)?device_tflops_per_sec",
        Meaning("flops_per_s", TERA),
    ),
    (r"throughput", Meaning("flops_per_s", TERA)),
    (r"mfu\(%\)|mfu_percent", Meaning("mfu", PERCENT)),
    (r"(device/)?(model_flops_utilization|mfu)", Meaning("mfu")),
    # device memory
    (r"mem-max-allocated-bytes|max_memory_allocated(_bytes)?", Meaning("memory_bytes", memory_kind="allocated")),
    (r"mem-reserved-bytes|mem-max-reserved-bytes", Meaning("memory_bytes", memory_kind="reserved")),
    (r"peak_memory_(active|alloc)", Meaning("memory_bytes", GIB, memory_kind="allocated")),
    (r"(memory/)?max_active\(gib\)", Meaning("memory_bytes", GIB, memory_kind="allocated")),
    (r"(memory/)?max_reserved\(gib\)|peak_memory_reserved", Meaning("memory_bytes", GIB, memory_kind="reserved")),
    (r"(memory/)?peak_allocated_mem", Meaning("memory_bytes", GIGA, memory_kind="allocated")),
    (r"(memory/)?peak_reserved_mem", Meaning("memory_bytes", GIGA, memory_kind="reserved")),
    (r"(max|peak)_memory(_allocated)?_gi?b", Meaning("memory_bytes", GIB, memory_kind="allocated")),
    (r"peak gpu memory \(mb\)", Meaning("memory_bytes", MIB, memory_kind="allocated")),
    # counters
    (r"batch-size|global_batch_size", Meaning("global_batch_size")),
    (r"consumed[-_]samples", Meaning("consumed_samples")),
    (r"consumed[-_]tokens", Meaning("consumed_tokens")),
)
_PATTERNS: Final = tuple((re.compile(pattern), meaning) for pattern, meaning in _RULES)
_WRAPPERS: Final = re.compile(
    r"^(train|training|perf|performance|metrics|throughput|speed|speed_monitor|system|timing|runtime|iteration-time)[/.]"
)
_NOT_TRAINING: Final = re.compile(r"(^|[/_. -])(eval|val|valid|validation|test)([/_. -]|$)", re.IGNORECASE)
_STEP_NAMES: Final = (
    *("train/global_step", "trainer/global_step", "global_step"),
    *("iteration", "iter", "step", "steps", "_step"),
)
"""Step counters, the optimizer's own before the tracker's, which counts log calls."""

_LOSS: Final = re.compile(r"(.*[/_ ])?(lm[_ ]?loss|train[/_]loss|loss)$", re.IGNORECASE)


def meaning_of(metric: str) -> tuple[int, Meaning] | None:
    """Return the rank (lower is more explicit) and meaning of a metric's name, or None when it says nothing here.

    Examples
    --------
    >>> meaning_of("throughput/device/tokens_per_sec")[1].attribute, meaning_of("train/grad_norm")
    ('tokens_per_s_per_gpu', None)
    """
    if is_evaluation(metric):
        return None
    names = [metric.strip().lower()]
    while (shorter := _WRAPPERS.sub("", names[-1])) != names[-1]:
        names.append(shorter)
    halves = names[-1].split("/")
    if len(halves) == 2 and halves[0] == halves[1]:
        names.append(halves[0])
    for name in names:
        for rank, (pattern, meaning) in enumerate(_PATTERNS):
            if pattern.fullmatch(name):
                return rank, meaning
    return None


def chosen_metrics(metrics: Iterable[str]) -> dict[str, Meaning]:
    """Return the metrics to read: for each attribute the most explicit name, ties by the order given.

    A bare `throughput` counts (Megatron's TFLOP/s) only when nothing else gives a rate per accelerator.
    """
    best: dict[str, tuple[int, str, Meaning]] = {}
    for metric in metrics:
        found = meaning_of(metric)
        if found is None:
            continue
        rank, meaning = found
        if meaning.attribute not in best or rank < best[meaning.attribute][0]:
            best[meaning.attribute] = (rank, metric, meaning)
    return {metric: meaning for _rank, metric, meaning in best.values()}


def is_evaluation(metric: str) -> bool:
    """Tell whether a metric belongs to an evaluation."""
    return _NOT_TRAINING.search(metric) is not None


def step_column(columns: Iterable[str]) -> str | None:
    """Return the column that counts optimizer steps, or None."""
    by_name = {column.strip().lower(): column for column in columns}
    return next((by_name[name] for name in _STEP_NAMES if name in by_name), None)


def is_loss(metric: str) -> bool:
    """Tell whether a metric is the training loss."""
    return _LOSS.fullmatch(metric) is not None and not is_evaluation(metric)
