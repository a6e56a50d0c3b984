"""Shell arithmetic on integers: `$(( 8 * NNODES / (TP * PP) ))`, comparisons and `a ? b : c`; no side effects."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final

_TOKEN: Final = re.compile(r"\s*(\d\w*|[A-Za-z_]\w*|\*\*|<=|>=|==|!=|&&|\|\||<<|>>|[-+*/%()?:<>!])")
_LEVELS: Final = (("||",), ("&&",), ("==", "!="), ("<=", ">=", "<", ">"), ("+", "-"), ("*", "/", "%"), ("**",))
_MAX_DEPTH: Final = 40
_MAX_LENGTH: Final = 2000
_MAX_MAGNITUDE: Final = 2**63

_OPERATIONS: Final[Mapping[str, Callable[[int, int], int]]] = {
    "||": lambda a, b: int(bool(a or b)),
    "&&": lambda a, b: int(bool(a and b)),
    "==": lambda a, b: int(a == b),
    "!=": lambda a, b: int(a != b),
    "<=": lambda a, b: int(a <= b),
    ">=": lambda a, b: int(a >= b),
    "<": lambda a, b: int(a < b),
    ">": lambda a, b: int(a > b),
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": lambda a, b: int(abs(a) // abs(b)) * (1 if (a < 0) == (b < 0) else -1),
    "%": lambda a, b: abs(a) % abs(b) * (1 if a >= 0 else -1),
    "**": lambda a, b: a**b,
}


class _NotArithmeticError(Exception):
    """The text is not arithmetic, or its value is out of range."""


def evaluate(expression: str, variables: Mapping[str, str]) -> int | None:
    """Return the value of shell arithmetic, or None when it cannot be told.

    Parameters
    ----------
    expression : str
        Text between ``$((`` and ``))`` with ``$NAME`` already expanded; bare names are looked up.
    variables : mapping of str to str
        Values of the names; unset names make the result unknown.

    Examples
    --------
    >>> evaluate("GPUS * (NODES - 1) / 2", {"GPUS": "8", "NODES": "5"})
    16
    """
    if len(expression) > _MAX_LENGTH:
        return None
    try:
        return _Reader(expression, variables).whole()
    except _NotArithmeticError:
        return None


class _Reader:
    def __init__(self, expression: str, variables: Mapping[str, str]) -> None:
        self.tokens = _split(expression)
        self.variables = variables
        self.position = self.depth = 0

    def whole(self) -> int:
        value = self._ternary()
        if self.position < len(self.tokens):
            raise _NotArithmeticError
        return value

    def _peek(self) -> str:
        return self.tokens[self.position] if self.position < len(self.tokens) else ""

    def _accept(self, token: str) -> bool:
        matches = self._peek() == token
        self.position += matches
        return matches

    def _ternary(self) -> int:
        self.depth += 1
        if self.depth > _MAX_DEPTH:
            raise _NotArithmeticError
        value = self._binary(0)
        if self._accept("?"):
            yes = self._ternary()
            if not self._accept(":"):
                raise _NotArithmeticError
            no = self._ternary()
            value = yes if value else no
        self.depth -= 1
        return value

    def _binary(self, level: int) -> int:
        if level == len(_LEVELS):
            return self._unary()
        value = self._binary(level + 1)
        while self._peek() in _LEVELS[level]:
            operator = self._peek()
            self.position += 1
            value = _apply(operator, value, self._binary(level + 1))
        return value

    def _unary(self) -> int:
        sign, negate = 1, 0
        while self._peek() in ("-", "+", "!"):
            negate += self._peek() == "!"
            sign *= -1 if self._peek() == "-" else 1
            self.position += 1
        value = sign * self._atom()
        return int(bool(value) == (negate % 2 == 0)) if negate else value

    def _atom(self) -> int:
        token = self._peek()
        self.position += 1
        if token == "(":
            value = self._ternary()
            if not self._accept(")"):
                raise _NotArithmeticError
            return value
        text = token if token[:1].isdigit() else self.variables.get(token, "")
        digits = text.strip().replace("_", "")
        if not digits.isascii() or not digits.isdigit() or len(digits) > 19:
            raise _NotArithmeticError
        return int(digits)


def _apply(operator: str, left: int, right: int) -> int:
    if operator in "/%" and right == 0:
        raise _NotArithmeticError
    if operator == "**" and not 0 <= right <= 64:
        raise _NotArithmeticError
    value = _OPERATIONS[operator](left, right)
    if abs(value) > _MAX_MAGNITUDE:
        raise _NotArithmeticError
    return value


def _split(expression: str) -> list[str]:
    tokens, position = [], 0
    text = expression.strip()
    while position < len(text):
        found = _TOKEN.match(text, position)
        if found is None:
            raise _NotArithmeticError
        tokens.append(found.group(1))
        position = found.end()
    return tokens
