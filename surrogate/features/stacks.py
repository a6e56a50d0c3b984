"""Framework stacks: frameworks that share a performance core, and habits that follow from the stack and its age."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from surrogate.analytic.workload import BoolArray, FloatArray
from surrogate.features.columns import lookup, texts, years
from surrogate.features.imputation import DEFAULT_YEAR

DEFAULT_STACK = "megatron-core"
"""Where neither `stack` nor `framework` says what trains: the stack of most recent large runs."""

_RULES = (
    ("megatron-bridge", "megatron-core"),
    ("megatron-deepspeed", "megatron-deepspeed"),
    ("automodel", "nemo-automodel"),
    ("nemo", "megatron-core"),
    ("megatron", "megatron-core"),
    ("primus", "megatron-core"),
    ("titan", "torchtitan"),
    ("fsdp", "torchtitan"),
    ("composer", "composer-fsdp-torch2"),
    ("foundry", "composer-fsdp-torch2"),
    ("maxtext", "maxtext"),
    ("pax", "paxml"),
    ("t5x", "paxml"),
    ("jax", "maxtext"),
    ("nanotron", "nanotron"),
    ("intern", "internevo"),
    ("neox", "megatron-deepspeed"),
    ("deepspeed", "deepspeed-zero"),
)
"""First match by substring of `framework`; the shipped table names its stacks itself."""

_MEGATRON_LIKE = ("megatron-core", "megatron-lm-classic", "megatron-deepspeed", "aleph-alpha-scaling")
_XLA = ("maxtext", "paxml")


def stack_of(framework: str) -> str:
    """Return the stack of a framework's name; the name itself when no rule knows it."""
    name = framework.lower()
    if not name:
        return DEFAULT_STACK
    return next((stack for part, stack in _RULES if part in name), name)


@dataclass(frozen=True, kw_only=True, slots=True)
class StackTraits:
    """What stack and date say about n rows."""

    stack: pd.Categorical
    year: FloatArray
    is_megatron: BoolArray
    is_classic_megatron: BoolArray
    is_xla: BoolArray
    is_torch_fsdp: BoolArray

    def named(self, *names: str) -> BoolArray:
        """Return which rows run one of these stacks."""
        return np.asarray(lookup(self.stack, lambda text: text in names, bool), dtype=np.bool_)


def stack_traits(runs: pd.DataFrame) -> StackTraits:
    """Return stack, date and habits per row; `stack` is filled from `framework` by rule where it is missing."""
    given = texts(runs, "stack")
    framework = texts(runs, "framework")
    by_rule = np.asarray(lookup(framework, stack_of, object), dtype=object)
    named = np.asarray(given, dtype=object)
    stack: pd.Categorical = pd.Categorical(np.where(named == "", by_rule, named).astype(object))

    def rows(*names: str) -> BoolArray:
        return np.asarray(lookup(stack, lambda text: text in names, bool), dtype=np.bool_)

    return StackTraits(
        stack=stack,
        year=years(runs, DEFAULT_YEAR),
        is_megatron=rows(*_MEGATRON_LIKE),
        is_classic_megatron=rows("megatron-lm-classic", "megatron-deepspeed"),
        is_xla=rows(*_XLA),
        is_torch_fsdp=rows("torchtitan", "nemo-automodel"),
    )
