"""Command-line arguments of a training script as a mapping: from words, from a log's dump, from YAML."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from surrogate.ingest.configs.scalars import OPEN, as_flag, as_text

ArgumentValue = object
"""True for a bare flag, a text, or a list of texts for an argument with several values."""

_LIST_ITEM: Final = re.compile(r"[A-Za-z_][\w.-]*")
_SHELL_END: Final = frozenset({"|", "||", "&&", ";", "&", ">", ">>", "<", "2>&1"})
_DUMP_LINE: Final = re.compile(r"([A-Za-z_]\w*) ?\.{3,} ?(.*\S|)\s*$")


class Arguments:
    """Arguments by name, without leading dashes and with `_` for `-`.

    Parameters
    ----------
    values : mapping of str to object
        Argument name to value; `None`, ``"None"`` and `False` count as absent where a value is asked for.
    """

    def __init__(self, values: Mapping[str, ArgumentValue]) -> None:
        self._values = {normal_name(str(name)): value for name, value in values.items()}

    def __contains__(self, name: str) -> bool:
        return name in self._values

    def __len__(self) -> int:
        return len(self._values)

    def names(self) -> Iterable[str]:
        """Return the argument names."""
        return self._values.keys()

    def raw(self, *names: str) -> object | None:
        """Return the first of these arguments that says something; of several values the first."""
        for name in names:
            value = self._values.get(name)
            if isinstance(value, list):
                value = value[0] if value else None
            if value is not None and value is not True and as_text(value) is not None:
                return value
        return None

    def text(self, *names: str) -> str | None:
        """Return the first of these arguments as text, or None when none says anything known."""
        text = as_text(self.raw(*names))
        return None if text is None or OPEN in text else text

    def on(self, *names: str) -> bool:
        """Tell whether one of these flags is given and not switched off."""
        return any(self.flag(name) is True for name in names)

    def flag(self, name: str) -> bool | None:
        """Return a flag: True when given bare, its value when it has one, None when absent or not a truth value."""
        value = self._values.get(name)
        if isinstance(value, list):
            return as_flag(value[0]) if len(value) == 1 and as_flag(value[0]) is not None else True
        return as_flag(value)

    def items(self, name: str) -> list[str]:
        """Return an argument with several values as a list of names (`['mlp', 'norm']`, `mlp norm`, a YAML list)."""
        value = self._values.get(name)
        parts = value if isinstance(value, list) else [as_text(value) or ""]
        text = " ".join(str(part) for part in parts if OPEN not in str(part))
        return [] if value is True else _LIST_ITEM.findall(text)


def normal_name(name: str) -> str:
    """Return an argument's name as Python code spells it."""
    return name.strip().lstrip("-").replace("-", "_")


def parse_words(words: Sequence[str]) -> dict[str, ArgumentValue]:
    """Return the ``--name value ...`` arguments among command words; a later one wins.

    Examples
    --------
    >>> parse_words(["torchrun", "--nnodes", "2", "train.py", "--bf16", "--lr=1e-4"])
    {'nnodes': '2', 'bf16': True, 'lr': '1e-4'}
    """
    arguments: dict[str, list[str]] = {}
    current: list[str] = []
    for word in _flattened(words):
        if word.startswith("--") and len(word) > 2:
            name, given, value = word[2:].partition("=")
            current = [value] if given else []
            arguments[normal_name(name)] = current
        elif not word.endswith(".py"):
            current.append(word)
    return {name: _unwrapped(values) for name, values in arguments.items()}


def parse_dump(text: str) -> dict[str, ArgumentValue]:
    """Return the ``name ......... value`` lines of an argument dump, whatever stands around them."""
    found: dict[str, ArgumentValue] = {}
    for line in text.splitlines():
        match = _DUMP_LINE.search(line[:1000]) if "..." in line else None
        if match:
            found[match.group(1)] = match.group(2)
    return found


def _flattened(words: Sequence[str]) -> Iterable[str]:
    for word in words:
        if word in _SHELL_END:
            break
        if any(char.isspace() for char in word.strip()) and "--" in word:
            yield from _until_end(word.split())
        else:
            yield word


def _until_end(words: list[str]) -> list[str]:
    end = next((index for index, word in enumerate(words) if word in _SHELL_END), len(words))
    return words[:end]


def _unwrapped(values: list[str]) -> ArgumentValue:
    if not values:
        return True
    is_open = OPEN in values[0]  # `--bf16 $EXTRA`: a bare flag before a variable that nobody sets, or a value
    return values[0] if len(values) == 1 and not is_open else values
