"""The condition language: it means what Python means, per row, and nothing else gets in."""

from __future__ import annotations

import contextlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from surrogate.errors import InputError, UnknownNameError
from surrogate.search.expressions import MAX_LENGTH, parse_expression

COLUMNS = {
    "tp": np.array([1.0, 2.0, 8.0, 16.0]),
    "pp": np.array([4.0, 1.0, 2.0, 1.0]),
    "recompute": np.array(["none", "full", "full", "selective"]),
    "sequence_parallel": np.array([False, True, True, True]),
}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("tp <= 8", [True, True, True, False]),
        ("1 < tp <= 8", [False, True, True, False]),
        ("tp * pp == 4 or tp == 16", [True, False, False, True]),
        ("tp in (1, 16)", [True, False, False, True]),
        ("tp not in [1, 16]", [False, True, True, False]),
        ("recompute == 'full' and not pp == 1", [False, False, True, False]),
        ("recompute in ('none', 'selective')", [True, False, False, True]),
        ("not sequence_parallel or tp > 2", [True, False, True, True]),
        ("sequence_parallel == true", [False, True, True, True]),
        ("max(tp, pp) >= 4", [True, False, True, True]),
        ("log2(tp) == floor(log2(tp))", [True, True, True, True]),
        ("tp / 0 > 1", [False, False, False, False]),
        ("log2(tp - tp) < 1 or tp % 0 != 1", [False, False, False, False]),
        ("16 % tp == 0 and -tp < 0", [True, True, True, True]),
    ],
)
def test_it_means_what_python_means(text: str, expected: list[bool]) -> None:
    assert parse_expression(text).evaluate(COLUMNS).tolist() == expected


@pytest.mark.parametrize(
    "text",
    [
        "__import__('os').system('true')",
        "tp.__class__",
        "(lambda: 1)()",
        "[x for x in (1, 2)]",
        "tp[0] == 1",
        "tp ** 99999 > 1",
        "tp if pp else 1",
        "(tp := 3) == 3",
        "f'{tp}' == '1'",
        "open('x')",
        "max(tp)",
        "max(tp, pp, key=1)",
        "max(*tp)",
        "tp is 1",
        "tp in pp",
        "tp = 8",
        "tp <= 8; pp",
        "",
        "(",
        "b'1' == tp",
        "tp == None",
        "tp == 1j",
        "1 < 2 < (yield)",
        "tp << 2 > 1",
        "(" * 400 + "tp" + ")" * 40,
        "-" * 450 + "tp > 1",
        "tp == 1 or " * 40 + "tp == 2",
        "x" * (MAX_LENGTH + 1),
    ],
)
def test_nothing_else_parses(text: str) -> None:
    with pytest.raises(InputError):
        parse_expression(text)


@pytest.mark.parametrize("text", ["tp + 1", "tp", "recompute", "1"])
def test_a_number_is_no_condition(text: str) -> None:
    with pytest.raises(InputError, match="condition"):
        parse_expression(text).evaluate(COLUMNS)


@pytest.mark.parametrize("text", ["recompute > 3", "recompute == 1", "tp == 'full'", "recompute in (1, 2)", "not tp"])
def test_kinds_do_not_mix(text: str) -> None:
    with pytest.raises(InputError, match="kind"):
        parse_expression(text).evaluate(COLUMNS)


def test_an_unknown_column_is_named_with_near_ones() -> None:
    with pytest.raises(UnknownNameError, match="did you mean tp"):
        parse_expression("tpp <= 8", frozenset({"tp", "pp"}))


NUMBERS = st.integers(-20, 20)


@given(a=NUMBERS, b=NUMBERS, c=st.integers(1, 9), operator=st.sampled_from(["+", "-", "*", "//", "%"]))
def test_arithmetic_is_pythons(a: int, b: int, c: int, operator: str) -> None:
    text = f"x {operator} y <= {b}"
    expected = eval(text, {"x": a, "y": c})
    got = parse_expression(text).evaluate({"x": np.array([float(a)]), "y": np.array([float(c)])})
    assert got.tolist() == [expected]


@given(st.text(max_size=60))
def test_any_text_is_either_a_condition_or_an_error(text: str) -> None:
    with contextlib.suppress(InputError):
        parse_expression(text, frozenset({"tp"}))
