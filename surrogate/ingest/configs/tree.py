"""Nested settings: reading by dotted path, and flattening to leaves, with bounds on size."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from surrogate.errors import FileFormatError
from surrogate.ingest.configs.scalars import as_text

Tree = dict[str, object]
MAX_NODES: Final = 50_000
"""More settings than any configuration has; aliases could otherwise blow a small file up."""


def section(tree: Tree, path: str) -> Tree:
    """Return the mapping at a dotted path, empty when there is none."""
    found = lookup(tree, path)
    return {str(key): value for key, value in found.items()} if isinstance(found, dict) else {}


def lookup(tree: Tree, path: str) -> object | None:
    """Return what stands at a dotted path, or None."""
    node: object = tree
    for key in path.split("."):
        if not isinstance(node, dict):
            return None
        node = node.get(key)
    return node


def first(tree: Tree, *paths: str) -> object | None:
    """Return the first of several dotted paths that says something, or None."""
    for path in paths:
        value = lookup(tree, path)
        if as_text(value) is not None and not isinstance(value, list):
            return value
    return None


def leaves(tree: Tree) -> Iterator[tuple[str, object]]:
    """Yield every (name, value) below `tree` by its last key; lists count as values.

    Raises
    ------
    FileFormatError
        More than `MAX_NODES` settings.
    """
    stack: list[object] = [tree]
    visited = 0
    while stack:
        node = stack.pop()
        if not isinstance(node, dict):
            continue
        for key, value in node.items():
            visited += 1
            if visited > MAX_NODES:
                raise FileFormatError(f"a configuration of more than {MAX_NODES} settings")
            if isinstance(value, dict):
                stack.append(value)
            else:
                yield str(key), value
