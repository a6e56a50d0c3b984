"""Framework stacks: frameworks that share a performance core, and habits that follow from the stack and its age."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from surrogate.analytic.workload import BoolArray, FloatArray
from surrogate.features.columns import lookup, texts, years
from surrogate.features.imputation import DEFAULT_YEAR

DEFAULT_STACK = "megatron-core"
"""Where neither `stack` nor `framework` says what trains: the stack of most recent large runs."""

_STACK_BY_PART = (
    ("nemo-megatron", "megatron-lm-classic"),
    ("megatron-deepspeed", "megatron-deepspeed"),
    ("automodel", "nemo-automodel"),
    ("bridge", "megatron-core"),
    ("nemo", "megatron-core"),
    ("primus", "megatron-core"),
    ("megatron", "megatron-core"),
    ("titan", "torchtitan"),
    ("foundry", "composer-fsdp"),
    ("composer", "composer-fsdp"),
    ("fsdp", "torchtitan"),
    ("maxtext", "maxtext"),
    ("pax", "paxml"),
    ("nanotron", "nanotron"),
    ("intern", "internevo"),
    ("neox", "megatron-deepspeed"),
    ("easycontext", "deepspeed-zero"),
    ("deepspeed", "deepspeed-zero"),
)
"""Stack of the frameworks whose lower-case name contains a part; the first that does."""
_FIRST_MEGATRON_CORE_YEAR = 2023.0

_MEGATRON_LIKE = ("megatron-core", "megatron-lm-classic", "megatron-deepspeed", "aleph-alpha-scaling")
_XLA = ("maxtext", "paxml")
_FUSED_DISPATCHERS = ("deepep", "hybridep")


def stack_of(framework: str, *, before_megatron_core: bool = False, torch_1: bool = False) -> str:
    """Return the stack of a framework: frameworks that share a performance core, with its generation.

    Parameters
    ----------
    framework : str
        As published, in any case; the empty string for unknown.
    before_megatron_core : bool
        Whether the run is older than Megatron Core (2023): Megatron-LM is then the classic one.
    torch_1 : bool
        Whether Composer ran on torch 1.

    Returns
    -------
    str
        The name itself when no rule knows it, empty when there is none.
    """
    name = framework.lower()
    stack = next((stack for part, stack in _STACK_BY_PART if part in name), name)
    if name == "megatron-lm" and before_megatron_core:
        return "megatron-lm-classic"
    if stack == "composer-fsdp":
        return f"composer-fsdp-torch{1 if torch_1 else 2}"
    return stack


def stack_names(runs: pd.DataFrame) -> NDArray[np.object_]:
    """Return the stack per row, shape (n,): as given, else by rule; empty where neither stack nor framework is known.

    Parameters
    ----------
    runs : DataFrame of shape (n, columns)
        Read are `stack`, `framework`, `framework_version` and `date`.
    """
    framework = texts(runs, "framework")
    old = years(runs, DEFAULT_YEAR) < _FIRST_MEGATRON_CORE_YEAR
    torch_1 = np.asarray(lookup(texts(runs, "framework_version"), lambda text: "torch 1." in text, bool))
    recent = lookup(framework, stack_of, object)
    classic = lookup(framework, partial(stack_of, before_megatron_core=True), object)
    first_torch = lookup(framework, partial(stack_of, torch_1=True), object)
    by_rule = np.where(old & (classic != recent), classic, np.where(torch_1, first_torch, recent))
    given = np.asarray(texts(runs, "stack"), dtype=object)
    return np.where(given == "", by_rule, given)


@dataclass(frozen=True, kw_only=True, slots=True)
class StackTraits:
    """What stack and date say about n rows."""

    stack: pd.Categorical
    year: FloatArray
    is_megatron: BoolArray
    is_classic_megatron: BoolArray
    is_xla: BoolArray
    is_torch_fsdp: BoolArray
    fused_dispatch: BoolArray
    """DeepEP or HybridEP kernels move tokens to their experts, instead of a permutation and an all-to-all."""

    def named(self, *names: str) -> BoolArray:
        """Return which rows run one of these stacks."""
        return np.asarray(lookup(self.stack, lambda text: text in names, bool), dtype=np.bool_)


def stack_traits(runs: pd.DataFrame) -> StackTraits:
    """Return stack, date and habits per row; `stack` is filled from `framework` by rule where it is missing."""
    named = stack_names(runs)
    stack = texts(pd.DataFrame({"stack": np.where(named == "", DEFAULT_STACK, named)}), "stack")

    def rows(*names: str) -> BoolArray:
        return np.asarray(lookup(stack, lambda text: text in names, bool), dtype=np.bool_)

    return StackTraits(
        stack=stack,
        year=years(runs, DEFAULT_YEAR),
        is_megatron=rows(*_MEGATRON_LIKE),
        is_classic_megatron=rows("megatron-lm-classic", "megatron-deepspeed"),
        is_xla=rows(*_XLA),
        is_torch_fsdp=rows("torchtitan", "nemo-automodel"),
        fused_dispatch=np.asarray(
            lookup(texts(runs, "moe_dispatcher"), lambda text: text in _FUSED_DISPATCHERS, bool), dtype=np.bool_
        ),
    )
