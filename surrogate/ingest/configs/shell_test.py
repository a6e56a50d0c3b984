"""Conditions of shell scripts, as far as the text decides them: `[ -z "$X" ]`, `[[ $P == fp8 ]]`, `-gt`, `&&`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from surrogate.ingest.configs.scalars import as_float, has_opaque, without_unset
from surrogate.ingest.configs.shell_expand import matches

_NUMERIC: Final[Mapping[str, Callable[[float, float], bool]]] = {
    "-eq": lambda a, b: a == b,
    "-ne": lambda a, b: a != b,
    "-lt": lambda a, b: a < b,
    "-le": lambda a, b: a <= b,
    "-gt": lambda a, b: a > b,
    "-ge": lambda a, b: a >= b,
}
_MAX_DEPTH: Final = 30


def decide(items: Sequence[str]) -> bool | None:
    """Return whether a test holds, or None when only running the script could tell.

    Parameters
    ----------
    items : sequence of str
        Expanded words and operators between the brackets. A variable that nobody sets counts as empty, as it would
        be in an empty environment.

    Examples
    --------
    >>> decide(["fp8", "==", "fp8", "&&", "!", "-z", "1"])
    True
    """
    return _Test(items).whole()


class _Test:
    def __init__(self, items: Sequence[str]) -> None:
        self.items, self.position, self.depth = items, 0, 0

    def whole(self) -> bool | None:
        value = self._either()
        return value if self.position >= len(self.items) else None

    def _peek(self, ahead: int = 0) -> str | None:
        index = self.position + ahead
        return self.items[index] if index < len(self.items) else None

    def _either(self) -> bool | None:
        self.depth += 1
        if self.depth > _MAX_DEPTH:
            self.position = len(self.items) + 1
            return None
        value = self._both()
        while self._peek() in ("||", "-o"):
            self.position += 1
            value = either(value, self._both())
        self.depth -= 1
        return value

    def _both(self) -> bool | None:
        value = self._negated()
        while self._peek() in ("&&", "-a"):
            self.position += 1
            value = both(value, self._negated())
        return value

    def _negated(self) -> bool | None:
        turns = 0
        while self._peek() == "!" and self._peek(1) is not None:
            turns += 1
            self.position += 1
        value = self._primary()
        return value if value is None or turns % 2 == 0 else not value

    def _primary(self) -> bool | None:
        first, second, third = self._peek(), self._peek(1), self._peek(2)
        if first is None:
            return False
        if first == "(":
            self.position += 1
            value = self._either()
            self.position += 1
            return value
        if (
            second is not None
            and third is not None
            and (second in _NUMERIC or second in ("=", "==", "!=", "=~", "<", ">"))
        ):
            self.position += 3
            return _compare(first, second, third)
        if len(first) == 2 and first[0] == "-" and first[1].isalpha() and second is not None:
            self.position += 2
            return _unary(first, second)
        self.position += 1
        return None if has_opaque(first) else bool(without_unset(first))


def either(left: bool | None, right: bool | None) -> bool | None:
    """Three-valued or."""
    if left or right:
        return True
    return None if left is None or right is None else False


def both(left: bool | None, right: bool | None) -> bool | None:
    """Three-valued and."""
    if left is False or right is False:
        return False
    return None if left is None or right is None else True


def _compare(left: str, operator: str, right: str) -> bool | None:
    if operator in ("=", "=="):
        return matches(left, right)
    if operator == "!=":
        same = matches(left, right)
        return None if same is None else not same
    numbers = as_float(left), as_float(right)
    if operator in _NUMERIC and numbers[0] is not None and numbers[1] is not None:
        return _NUMERIC[operator](numbers[0], numbers[1])
    return None


def _unary(operator: str, operand: str) -> bool | None:
    if operator not in ("-z", "-n") or has_opaque(operand):
        return None
    return bool(without_unset(operand)) == (operator == "-n")
