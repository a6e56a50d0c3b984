"""Bytes per GPU of a training step: itemised, per pipeline stage, over whole columns."""

from surrogate.analytic.memory._activations import TokenBytes, saved_token_bytes
from surrogate.analytic.memory._breakdown import MemoryBreakdown
from surrogate.analytic.memory._coefficients import TEXTBOOK, MemoryCoefficients
from surrogate.analytic.memory._parameters import HeldParameters, held_parameters
from surrogate.analytic.memory._peak import memory_at, peak_memory, stage_memory
from surrogate.analytic.memory._rules import (
    ENDS,
    NO_RULE_BROKEN,
    RULES,
    MemoryRule,
    broken_rule_errors,
    check_memory_rules,
    first_broken_rule,
)
from surrogate.analytic.memory._stages import Stage, build_stage, num_microbatches

__all__ = [
    "ENDS",
    "NO_RULE_BROKEN",
    "RULES",
    "TEXTBOOK",
    "HeldParameters",
    "MemoryBreakdown",
    "MemoryCoefficients",
    "MemoryRule",
    "Stage",
    "TokenBytes",
    "broken_rule_errors",
    "build_stage",
    "check_memory_rules",
    "first_broken_rule",
    "held_parameters",
    "memory_at",
    "num_microbatches",
    "peak_memory",
    "saved_token_bytes",
    "stage_memory",
]
