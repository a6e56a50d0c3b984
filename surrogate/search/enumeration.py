"""Every layout that exists, in blocks of bounded size: columns are joined one by one and filtered at once by rules."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from surrogate.analytic.workload import BoolArray, IntArray
from surrogate.errors import InputError
from surrogate.search.rules import Rule
from surrogate.search.space import Codes, SearchSpace, meets

BLOCK_ROWS: Final = 32_768
"""Candidates handed on at once: their columns stay in cache."""
JOIN_ROWS: Final = 262_144
"""Combinations looked at in one join."""

CodeBlock = dict[str, Codes]


def block_length(block: Mapping[str, Codes]) -> int:
    """Return the number of candidates of a block."""
    return len(next(iter(block.values())))


def candidate_blocks(
    space: SearchSpace, *, columns: Sequence[str] | None = None, start: CodeBlock | None = None, rows: int = BLOCK_ROWS
) -> Iterator[CodeBlock]:
    """Enumerate candidates as codes into the domains.

    Parameters
    ----------
    space : SearchSpace
        What to enumerate.
    columns : sequence of str, optional
        Enumerate these only (rules over others are left out); all when absent.
    start : dict of ndarray, optional
        Partial candidates to complete.
    rows : int
        Most rows of a block.

    Yields
    ------
    dict of ndarray, each of shape (m,), 0 < m <= rows
        In lexicographic order of the domains.
    """
    known = frozenset(start or ())
    order = [name for name in (columns or space.domains) if name not in known]
    plan = _join_plan(space, known, order)
    waiting: list[CodeBlock] = []
    for block in _joined(space, plan, dict(start or {}), 0):
        waiting.append(block)
        if sum(map(block_length, waiting)) >= rows:
            yield from _cut(waiting, rows)
    yield from _cut(waiting, rows, last=True)


def count_candidates(space: SearchSpace, *, at_most: int | None = None) -> int:
    """Count candidates, or stop counting above a limit."""
    count = 0
    for block in candidate_blocks(space):
        count += block_length(block)
        if at_most is not None and count > at_most:
            break
    return count


def require_candidates(space: SearchSpace) -> None:
    """Raise if the space is empty, naming the rules to blame.

    Raises
    ------
    InputError
        With the rules without which layouts would exist.
    """
    if next(candidate_blocks(space), None) is not None:
        return
    blamed = [rule for rule in space.rules if _exists(space, [other for other in space.rules if other is not rule])]
    first, *others = blamed or [_first_to_empty(space)]
    condition = "" if first.name in first.says else f" ({first.requires})"
    also = "".join(f"; or drop: {rule.name}" for rule in others[:3])
    raise InputError(
        first.column,
        first.says,
        f"no layout that does{condition}",
        (first.way_out or "open more columns of the plan") + also,
    )


def _first_to_empty(space: SearchSpace) -> Rule:
    """Return the rule that leaves nothing after those before it left something."""
    low, high = 0, len(space.rules)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if _exists(space, space.rules[:middle]) else (low, middle)
    return space.rules[high - 1]


def _exists(space: SearchSpace, rules: Sequence[Rule]) -> bool:
    """Tell whether any candidate meets these rules."""
    return next(candidate_blocks(replace(space, rules=tuple(rules))), None) is not None


def _join_plan(space: SearchSpace, known: frozenset[str], order: Sequence[str]) -> list[tuple[str, tuple[Rule, ...]]]:
    """Return each column with the rules that can be checked once it is there; constant rules go with the first."""
    plan, seen = [], set(known)
    pending = [rule for rule in space.rules if not (known and space.rule_inputs[rule.name] <= known)]
    for name in order:
        seen.add(name)
        ready = tuple(rule for rule in pending if space.rule_inputs[rule.name] <= seen)
        pending = [rule for rule in pending if rule not in ready]
        plan.append((name, ready))
    return plan


def _joined(
    space: SearchSpace, plan: Sequence[tuple[str, tuple[Rule, ...]]], block: CodeBlock, depth: int
) -> Iterator[CodeBlock]:
    if depth == len(plan):
        yield block
        return
    name, rules = plan[depth]
    size = len(space.domains[name])
    count = block_length(block) if block else 1
    step = max(1, JOIN_ROWS // size)
    for first in range(0, count, step):
        rows = np.arange(first, min(first + step, count))
        parents = np.repeat(rows, size)
        added = np.tile(np.arange(size, dtype=np.int16), len(rows))
        kept = _kept(space, rules, block, parents, name, added)
        if kept.any():
            grown = {column: codes[parents[kept]] for column, codes in block.items()}
            yield from _joined(space, plan, {**grown, name: added[kept]}, depth + 1)


def _kept(  # noqa: PLR0913
    space: SearchSpace, rules: Sequence[Rule], block: CodeBlock, parents: IntArray, name: str, added: Codes
) -> BoolArray:
    """Return which joined rows meet the rules; only the columns that rules read are built."""
    kept = np.ones(len(added), dtype=np.bool_)
    if not rules:
        return kept
    needed = frozenset().union(*(space.rule_inputs[rule.name] for rule in rules))
    columns = space.columns(
        {**{column: codes[parents] for column, codes in block.items() if column in needed}, name: added}
    )
    for rule in rules:
        kept &= meets(rule, columns, len(added))
    return kept


def _cut(waiting: list[CodeBlock], rows: int, *, last: bool = False) -> Iterator[CodeBlock]:
    """Hand on waiting rows in full blocks; what is left over waits on, or goes out as the last block."""
    if not waiting:
        return
    whole = {name: np.concatenate([block[name] for block in waiting]) for name in waiting[0]}
    count = block_length(whole)
    end = count if last else count - count % rows
    for first in range(0, end, rows):
        yield {name: codes[first : min(first + rows, end)] for name, codes in whole.items()}
    waiting.clear()
    if end < count:
        waiting.append({name: codes[end:] for name, codes in whole.items()})
