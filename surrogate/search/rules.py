"""Which layouts can exist: each rule is data, a condition in the language of `surrogate.search.expressions`.

Rules read the columns of the space and what follows from them (`surrogate.search.derived`). A rule that says what
frameworks or hardware cannot do is strict; one that only says what nobody should do is a habit and can be waived.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Final

from surrogate.errors import InputError, UnknownNameError
from surrogate.search.expressions import Expression, parse_expression


@dataclass(frozen=True, kw_only=True, slots=True)
class Rule:
    """A condition that every layout meets.

    Parameters
    ----------
    name : str
        For people, and for `--waive`.
    requires : str
        The condition, as text.
    column : str
        The column to blame when a plan breaks it.
    says : str
        The rule as the end of a sentence about that column.
    way_out : str
        What to do instead.
    is_habit : bool
        Whether it may be waived, and yields to a column that the plan fixes.
    """

    name: str
    requires: str
    column: str
    says: str
    way_out: str = ""
    is_habit: bool = False
    condition: Expression = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "condition", parse_expression(self.requires))


def _rule(name: str, requires: str, column: str, says: str, way_out: str = "") -> Rule:
    return Rule(name=name, requires=requires, column=column, says=says, way_out=way_out)


def _habit(name: str, requires: str, column: str, says: str) -> Rule:
    return Rule(name=name, requires=requires, column=column, says=says, way_out=f"or --waive {name}", is_habit=True)


RULES: Final[tuple[Rule, ...]] = (
    _rule(
        "whole-nodes",
        "num_gpus <= gpus_per_node or num_gpus % gpus_per_node == 0",
        "num_gpus",
        "must fill whole nodes",
    ),
    _rule("heads", "num_heads % tp == 0", "tp", "must divide num_heads", "choose a divisor of num_heads"),
    _rule(
        "kv-heads",
        "is_mla or num_kv_heads % tp == 0 or tp % num_kv_heads == 0",
        "tp",
        "must divide num_kv_heads or be a multiple of it",
    ),
    _rule("ffn", "ffn_hidden_size % tp == 0", "tp", "must divide ffn_hidden_size"),
    _rule("world", "num_gpus % (tp * cp) == 0", "tp", "times cp must divide num_gpus", "lower tp or cp"),
    _rule(
        "whole-replicas",
        "num_gpus % (tp * cp * pp) == 0",
        "num_gpus",
        "must be a multiple of tp*pp*cp",
        "change num_gpus, tp, pp or cp",
    ),
    _rule("cp-sequence", "cp == 1 or seq_len % (2 * cp) == 0", "seq_len", "must be a multiple of 2*cp", "lower cp"),
    _rule("stages", "pp * vp <= num_layers + 2", "pp", "times vp must leave every chunk a layer", "lower pp or vp"),
    _rule("chunks-need-stages", "vp == 1 or pp > 1", "vp", "must be 1 without pipeline parallelism", "raise pp"),
    _rule(
        "even-chunks",
        "missing_layers <= 2 or (vp == 1 and missing_layers <= 2 * (layers_per_chunk - 1))",
        "pp",
        "times vp must split the layers evenly, give or take embedding and loss or a shorter first and last stage",
        "choose pp*vp among the divisors of num_layers, +1 or +2",
    ),
    _rule("batch", "global_batch_size % dp == 0", "global_batch_size", "must be a multiple of dp"),
    _rule(
        "micro-batches",
        "global_batch_size % (dp * micro_batch_size) == 0",
        "micro_batch_size",
        "times dp must divide global_batch_size",
    ),
    _rule(
        "interleaved-micro-batches",
        "vp == 1 or num_microbatches % pp == 0",
        "vp",
        "above 1 needs a number of micro-batches that is a multiple of pp",
        "lower micro_batch_size or pp",
    ),
    _rule("dense-experts", "ep == 1 or num_experts > 0", "ep", "must be 1 for a model without experts"),
    _rule("experts", "num_experts % ep == 0", "ep", "must divide num_experts", "choose a divisor of num_experts"),
    _rule(
        "expert-ranks",
        "num_experts == 0 or (tp * cp * dp) % (ep * expert_tp) == 0",
        "ep",
        "times expert_tp must divide the ranks of a pipeline stage",
        "lower ep or expert_tp",
    ),
    _rule(
        "sequence-parallel",
        "not sequence_parallel or (tp > 1 and seq_len % (tp * cp) == 0)",
        "sequence_parallel",
        "needs tp > 1 and a seq_len that is a multiple of cp*tp",
    ),
    _rule(
        "experts-need-sequence-parallel",
        "not is_megatron or num_experts == 0 or tp == 1 or sequence_parallel",
        "sequence_parallel",
        "must be on for experts under tensor parallelism in Megatron",
    ),
    _rule(
        "sharded-pipeline",
        "zero_stage <= 1 or pp == 1 or is_fsdp",
        "zero_stage",
        "must be at most 1 under pipeline parallelism: gradients accumulate over micro-batches",
        "set pp to 1 or zero_stage to 1",
    ),
    _rule("shards", "(dp * cp) % hsdp_shard == 0", "hsdp_shard", "must divide dp*cp"),
    _rule(
        "plain-schedule",
        "pipeline_schedule in ('follows vp', 'interleaved-1f1b') or vp == 1",
        "vp",
        "must be 1 under a schedule without interleaving",
        "set pipeline_schedule to interleaved-1f1b",
    ),
    _rule(
        "interleaved-schedule",
        "pipeline_schedule != 'interleaved-1f1b' or vp > 1",
        "vp",
        "must be above 1 under an interleaved schedule",
        "set pipeline_schedule to 1f1b",
    ),
    _rule(
        "schedule-without-stages",
        "pp > 1 or pipeline_schedule in ('follows vp', '1f1b')",
        "pipeline_schedule",
        "must be 1f1b without a pipeline",
    ),
    _rule("dualpipe", "pipeline_schedule != 'dualpipe' or pp % 2 == 0", "pp", "must be even under dualpipe"),
    _rule(
        "split-backward",
        "zero_stage < 2 or pp == 1 or pipeline_schedule in ('follows vp', '1f1b', 'interleaved-1f1b', 'gpipe')",
        "zero_stage",
        "must be at most 1 under a schedule that splits the backward pass",
    ),
    _rule(
        "partly-recomputed",
        "recompute_share == 1 or recompute == 'full'",
        "recompute_layers",
        "must be left out unless recompute is full",
    ),
    _rule(
        "offloaded-activations",
        "cpu_offload != 'activations' or not is_megatron or (pp == 1 and recompute == 'none')",
        "cpu_offload",
        "of activations needs pp = 1 and no recomputation in Megatron",
    ),
    _rule(
        "offloaded-optimizer",
        "cpu_offload != 'optimizer' or zero_stage >= 1",
        "cpu_offload",
        "of the optimizer needs zero_stage >= 1",
    ),
    _habit("tp-in-fast-domain", "tp <= fast_domain_gpus", "tp", "should stay inside the fast link's domain"),
    _habit(
        "tp-fills-domain", "fast_domain_gpus % tp == 0 or tp % fast_domain_gpus == 0", "tp", "should divide the domain"
    ),
    _habit("long-shards", "cp == 1 or seq_len / cp >= 1024", "cp", "should leave each rank 1,024 tokens"),
    _habit("something-to-shard", "zero_stage == 0 or dp * cp > 1", "zero_stage", "should be 0 with one replica"),
    _habit(
        "measured-sharding",
        "stack != 'megatron-core' or zero_stage <= 1",
        "zero_stage",
        "should be at most 1 in Megatron-Core, where hardly a run with more was published",
    ),
    _habit(
        "measured-offload",
        "cpu_offload != 'activations' or host_link_bytes_per_s >= 2e11 or whole_program",
        "cpu_offload",
        "of activations should go over a host link of 200 GB/s: no published run does it over PCIe",
    ),
)
"""Every built-in rule; docs/search.md lists them."""

RULE_NAMES: Final = frozenset(rule.name for rule in RULES)


def own_rules(require: Iterable[str], forbid: Iterable[str], known: frozenset[str]) -> tuple[Rule, ...]:
    """Return a user's conditions as rules, named by their text.

    Raises
    ------
    InputError
        If one does not parse or names no column of the space.
    """
    required = [(text, text, "must meet", "--require") for text in require]
    forbidden = [(f"not ({text})", text, "must not meet", "--forbid") for text in forbid]
    rules = []
    for condition, text, says, option in required + forbidden:
        names = parse_expression(text, known, option).names
        column, way_out = min(names, default=option), f"loosen {option}"
        rules.append(Rule(name=text, requires=condition, column=column, says=f"{says} {text}", way_out=way_out))
    return tuple(rules)


def without_waived(rules: Sequence[Rule], waived: Iterable[str]) -> tuple[Rule, ...]:
    """Return the rules that are not waived.

    Raises
    ------
    UnknownNameError
        If there is no rule of that name.
    InputError
        If the rule says what cannot exist.
    """
    names = set(waived)
    by_name = {rule.name: rule for rule in rules}
    for name in sorted(names):
        if name not in by_name:
            raise UnknownNameError("--waive", name, get_close_matches(name, by_name, n=3), "see docs/search.md")
        if not by_name[name].is_habit:
            raise InputError("--waive", "must name a habit, not what cannot exist", name)
    return tuple(rule for rule in rules if rule.name not in names)
