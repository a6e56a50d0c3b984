"""Conditions on layouts as text, read by a whitelist and evaluated on whole columns.

The language is the arithmetic, comparison and boolean part of Python, with `and`, `or` and `not` working per row.
Nothing else parses: no attributes, no indexing, no calls but the functions below. Text never reaches ``eval``.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from functools import reduce
from types import MappingProxyType
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from surrogate.analytic.workload import BoolArray
from surrogate.errors import InputError, UnknownNameError

Column = NDArray[Any]

MAX_LENGTH: Final = 500
MAX_NODES: Final = 200

_BINARY: Final[Mapping[type, Callable[[Any, Any], Any]]] = MappingProxyType(
    {
        ast.Add: np.add,
        ast.Sub: np.subtract,
        ast.Mult: np.multiply,
        ast.Div: np.divide,
        ast.FloorDiv: np.floor_divide,
        ast.Mod: np.mod,
    }
)
_COMPARISONS: Final[Mapping[type, Callable[[Any, Any], Any]]] = MappingProxyType(
    {
        ast.Eq: np.equal,
        ast.NotEq: np.not_equal,
        ast.Lt: np.less,
        ast.LtE: np.less_equal,
        ast.Gt: np.greater,
        ast.GtE: np.greater_equal,
    }
)
_FUNCTIONS: Final[Mapping[str, tuple[int, Callable[..., Any]]]] = MappingProxyType(
    {
        "min": (2, np.minimum),
        "max": (2, np.maximum),
        "abs": (1, np.abs),
        "ceil": (1, np.ceil),
        "floor": (1, np.floor),
        "log2": (1, np.log2),
    }
)
_CONSTANTS: Final = (bool, int, float, str)
_WORDS: Final = MappingProxyType({"true": True, "false": False})


@dataclass(frozen=True, slots=True)
class Expression:
    """A parsed condition.

    Parameters
    ----------
    text : str
        As written.
    names : frozenset of str
        Columns it reads.
    """

    text: str
    names: frozenset[str]
    _tree: ast.expr

    def evaluate(self, columns: Mapping[str, Column]) -> BoolArray:
        """Return where the condition holds, shape (n,) or () when it reads no column.

        Parameters
        ----------
        columns : Mapping[str, ndarray of shape (n,)]
            At least `names`.

        Raises
        ------
        InputError
            If text is compared with numbers, or the result is no condition.
        """
        try:
            with np.errstate(divide="ignore", invalid="ignore"):
                value = np.asarray(_value(self._tree, columns))
        except (TypeError, ValueError, OverflowError) as error:
            way_out = "compare text with quoted text and numbers with numbers"
            raise InputError("expression", "must fit the kind of its columns", self.text, way_out) from error
        if value.dtype != np.bool_:
            raise InputError("expression", "must be a condition, true or false", self.text, 'e.g. "tp <= 8"')
        return value


def parse_expression(text: str, known: frozenset[str] | None = None, option: str = "expression") -> Expression:
    """Parse a condition.

    Parameters
    ----------
    text : str
        For example ``"tp * cp <= 8 and recompute != 'full'"``.
    known : frozenset of str, optional
        Columns that may be named; any when absent.
    option : str
        What errors call it.

    Raises
    ------
    InputError
        If it does not parse, is too long, or uses anything outside the language.
    UnknownNameError
        If it names an unknown column.

    Examples
    --------
    >>> condition = parse_expression("tp <= 8 and pp in (1, 2)")
    >>> condition.evaluate({"tp": np.array([4, 16]), "pp": np.array([2, 2])}).tolist()
    [True, False]
    """
    if len(text) > MAX_LENGTH:
        raise InputError(option, f"must have at most {MAX_LENGTH} characters", text[:40] + "...")
    try:
        tree = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise InputError(option, "must be a condition on columns", text, 'e.g. "tp <= 8"') from error
    nodes = list(ast.walk(tree))
    if len(nodes) > MAX_NODES:
        raise InputError(option, f"must have at most {MAX_NODES} parts", text[:40] + "...")
    _check(tree, text, option)
    functions = {id(node.func) for node in nodes if isinstance(node, ast.Call)}
    named = (node for node in nodes if isinstance(node, ast.Name) and id(node) not in functions)
    names = frozenset(node.id for node in named if node.id not in _WORDS)
    for name in sorted(names - known) if known is not None else ():
        near = get_close_matches(name, sorted(known or ()), n=3)
        raise UnknownNameError(option, name, near, "name a column of the search space")
    return Expression(text, names, tree)


def _check(node: ast.expr, text: str, option: str) -> None:
    """Raise unless a node and all below it belong to the language."""
    for child in _children(node, text, option):
        _check(child, text, option)


def _children(node: ast.expr, text: str, option: str) -> list[ast.expr]:
    match node:
        case ast.Name():
            return []
        case ast.BoolOp(values=parts) | ast.Tuple(elts=parts) | ast.List(elts=parts):
            return parts
        case ast.UnaryOp(op=ast.Not() | ast.USub(), operand=operand):
            return [operand]
        case ast.BinOp(left=left, op=operator, right=right) if type(operator) in _BINARY:
            return [left, right]
        case ast.Compare(left=left, comparators=others) if _compares(node):
            return [left, *others]
        case ast.Call(args=arguments) if _is_known_call(node):
            return arguments
    if isinstance(node, ast.Constant) and isinstance(node.value, _CONSTANTS):
        return []
    functions = ", ".join(f"{name}()" for name in _FUNCTIONS)
    allowed = "names, numbers, quoted text, + - * / // %, comparisons, in (...), and, or, not"
    raise InputError(option, f"may use {allowed}, {functions}", text)


def _compares(node: ast.Compare) -> bool:
    return all(_is_comparison(operator, other) for operator, other in zip(node.ops, node.comparators, strict=True))


def _is_known_call(node: ast.Call) -> bool:
    """Tell whether a call is of a known function with as many plain arguments as it takes."""
    name = node.func.id if isinstance(node.func, ast.Name) else ""
    return name in _FUNCTIONS and len(node.args) == _FUNCTIONS[name][0] and not node.keywords


def _is_comparison(operator: ast.cmpop, other: ast.expr) -> bool:
    if isinstance(operator, ast.In | ast.NotIn):
        return isinstance(other, ast.Tuple | ast.List)
    return type(operator) in _COMPARISONS


def _value(node: ast.expr, columns: Mapping[str, Column]) -> Any:
    match node:
        case ast.Constant(value=value):
            return value
        case ast.Name(id=name):
            return _WORDS[name] if name in _WORDS else columns[name]
        case ast.BoolOp(op=operator, values=values):
            joined = np.logical_and if isinstance(operator, ast.And) else np.logical_or
            return reduce(joined, (_condition(value, columns) for value in values))
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return np.logical_not(_condition(operand, columns))
        case ast.UnaryOp(operand=operand):
            return np.negative(_value(operand, columns))
        case ast.BinOp(left=left, op=operator, right=right):
            return _BINARY[type(operator)](_value(left, columns), _value(right, columns))
        case ast.Call(func=ast.Name(id=name), args=arguments):
            return _FUNCTIONS[name][1](*(_value(argument, columns) for argument in arguments))
    return _compared(node, columns)


def _condition(node: ast.expr, columns: Mapping[str, Column]) -> Any:
    value = np.asarray(_value(node, columns))
    if value.dtype != np.bool_:
        raise TypeError(ast.unparse(node))
    return value


def _compared(node: ast.expr, columns: Mapping[str, Column]) -> Any:
    """Return a chain of comparisons; ``a < b < c`` holds where both do, none where something is divided by zero."""
    if not isinstance(node, ast.Compare):
        raise TypeError(ast.unparse(node))
    left, held = _value(node.left, columns), []
    for operator, other in zip(node.ops, node.comparators, strict=True):
        if isinstance(operator, ast.In | ast.NotIn) and isinstance(other, ast.Tuple | ast.List):
            among = reduce(np.logical_or, (_equal(left, _value(one, columns)) for one in other.elts), np.False_)
            held.append(np.logical_not(among) if isinstance(operator, ast.NotIn) else among)
            continue
        right = _value(other, columns)
        _require_same_kind(left, right)
        held.append(_COMPARISONS[type(operator)](left, right) & _is_a_number(left) & _is_a_number(right))
        left = right
    return reduce(np.logical_and, held)


def _equal(left: Any, right: Any) -> Any:
    _require_same_kind(left, right)
    return np.equal(left, right)


def _is_a_number(value: Any) -> Any:
    """Return where a value is text or finite."""
    return np.isfinite(value) if np.asarray(value).dtype.kind == "f" else np.True_


def _require_same_kind(left: Any, right: Any) -> None:
    """Raise if text meets a number: numpy would say that they differ, silently."""
    if (np.asarray(left).dtype.kind in "OU") != (np.asarray(right).dtype.kind in "OU"):
        raise TypeError(left, right)
