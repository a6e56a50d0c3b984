"""OmegaConf-style interpolation in loaded YAML: `${a.b}`, `${.sibling}`, `${multiply:4, ${.hidden_size}}`.

What cannot be resolved (another file's key, the clock, the environment) becomes a marker (`scalars.unset`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from surrogate.ingest.configs.scalars import OPEN, as_float, as_text, unset
from surrogate.ingest.configs.tree import MAX_NODES, Tree

_INNERMOST: Final = re.compile(r"\$\{([^${}]*)\}")
_MAX_ROUNDS: Final = 12
_MAX_TEXT: Final = 4000
_FOLD: Final[Mapping[str, Callable[[float, float], float]]] = {
    "multiply": lambda a, b: a * b,
    "mul": lambda a, b: a * b,
    "add": lambda a, b: a + b,
    "sum": lambda a, b: a + b,
    "subtract": lambda a, b: a - b,
    "sub": lambda a, b: a - b,
    "divide": lambda a, b: a / b,
    "div": lambda a, b: a / b,
    "int_div": lambda a, b: a // b,
    "divide_floor": lambda a, b: a // b,
    "int_floor_div": lambda a, b: a // b,
}


def resolve(tree: Tree, *, package: str = "") -> Tree:
    """Return the tree with every interpolation that the file itself answers put in place.

    Parameters
    ----------
    tree : dict
        Loaded YAML.
    package : str
        Name under which a larger configuration would hold this file; absolute paths may start with it.

    Examples
    --------
    >>> resolve({"model": {"hidden_size": 8, "ffn": "${multiply:4, ${.hidden_size}}"}})["model"]["ffn"]
    32
    """
    resolver = _Resolver(tree, package)
    resolved = resolver.node(tree, ())
    return resolved if isinstance(resolved, dict) else tree


@dataclass(slots=True)
class _Resolver:
    root: Tree
    package: str
    visited: int = 0

    def node(self, node: object, path: tuple[str, ...]) -> object:
        self.visited += 1
        if self.visited > MAX_NODES or len(path) > 40:
            return node
        if isinstance(node, dict):
            return {key: self.node(value, (*path, str(key))) for key, value in node.items()}
        if isinstance(node, list):
            return [self.node(item, (*path, str(index))) for index, item in enumerate(node)]
        return self.scalar(node, path) if isinstance(node, str) and "${" in node else node

    def scalar(self, text: str, path: tuple[str, ...]) -> object:
        value: object = text
        for _ in range(_MAX_ROUNDS):
            if not isinstance(value, str) or len(value) > _MAX_TEXT:
                break
            found = _INNERMOST.search(value)
            if found is None:
                break
            inner = self.answer(found.group(1).strip(), path)
            whole = found.start() == 0 and found.end() == len(value)
            value = inner if whole else value[: found.start()] + _plain(inner) + value[found.end() :]
        return value if not isinstance(value, str) or "${" not in value else unset(text.strip("${}")[:60])

    def answer(self, expression: str, path: tuple[str, ...]) -> object:
        name, colon, rest = expression.partition(":")
        if not colon or name.startswith("."):
            return self.lookup(expression, path)
        arguments = [argument.strip() for argument in rest.split(",")]
        if name in _FOLD:
            return _folded(_FOLD[name], arguments, expression)
        if name in ("oc.env", "env") and len(arguments) > 1:
            return arguments[1].strip("'\"")
        if name in ("oc.decode", "int", "float") and len(arguments) == 1:
            return arguments[0].strip("'\"")
        return unset(arguments[0] if name in ("oc.env", "env") else expression[:60])

    def lookup(self, expression: str, path: tuple[str, ...]) -> object:
        name = expression.lstrip(".")
        dots = len(expression) - len(name)
        keys = tuple(re.split(r"[.\[\]]+", name.strip("]")))
        starts: list[tuple[str, ...]] = [path[: max(len(path) - dots, 0)]] if dots else [()]
        candidates = [(*start, *keys) for start in starts]
        if not dots and keys[0] == self.package:
            candidates.append(keys[1:])
        for candidate in candidates:
            found = _at(self.root, candidate)
            if found is not None and candidate != path:
                return found
        return unset(name[:60])


def _at(node: object, keys: Sequence[str]) -> object | None:
    for key in keys:
        if isinstance(node, dict):
            node = node.get(key)
        elif isinstance(node, list) and key.isdecimal() and int(key[:6]) < len(node):
            node = node[int(key[:6])]
        else:
            return None
    return node


def _folded(operation: Callable[[float, float], float], arguments: Sequence[str], expression: str) -> object:
    numbers = [as_float(argument) for argument in arguments]
    missing = next((argument for argument in arguments if OPEN in argument), None)
    if missing is not None:
        return missing
    total = numbers[0]
    for number in numbers[1:]:
        if total is None or number is None:
            return unset(expression[:60])
        try:
            total = operation(total, number)
        except (ZeroDivisionError, OverflowError):
            return unset(expression[:60])
    if total is None:
        return unset(expression[:60])
    return int(total) if total == int(total) else total


def _plain(value: object) -> str:
    return "" if isinstance(value, dict | list) else (as_text(value) or "")
