"""Conditions: arithmetic and comparison over names, and nothing that could do harm."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from septran.location import Location
from septran.machine.positions import Node
from septran.mapping.conditions import condition
from septran.mapping.mistakes import ConditionError

HERE = Location("x.yaml", 1, 1)
VALUES = {"M": 512, "N": 128, "dtype": "float16", "flag": True}


def value(text):
    return condition(Node(text, HERE)).evaluate(VALUES)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("M * N < 2**20", True), ("M * N < 2**16", False), ("M % 128 == 0 and N > 4", True),
        ('dtype == "float16"', True), ("dtype != 'float16'", False), ("not flag", False),
        ("M // 3 + -N", 42), ("1 < N < M", True), ("1 < N > M", False), ("M / 4", 128.0),
        ("flag or M < 1", True), ("true", True), ("(M + N) * 2", 1280), ("2 ** 10", 1024),
    ],
)  # fmt: skip
def test_values(text, expected):
    assert value(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "__import__('os').system('x')", "open('/etc/passwd')", "M.__class__", "[M]", "(M, N)",
        "{M: N}", "lambda: M", "M if N else M", "[x for x in M]", "M[0]", "f'{M}'", "M := 1",
        "M is N", "M in N", "M & N", "M << 60", "~M", "b'x'", "1j", "...", "", "M N", "M;N",
        "import os", "M = 1", "*M", "await M", "yield", "\0", "M\n+", "(" * 300 + ")" * 300,
        "not " * 120 + "M", "M" * 500,
    ],
)  # fmt: skip
def test_nothing_else_is_taken(text):
    with pytest.raises(ConditionError) as caught:
        condition(Node(text, HERE))
    assert caught.value.where == HERE


@pytest.mark.parametrize(
    "text",
    [
        "9**9**9**9", "M // 0", "M % 0", "1.0 / 0", "10.0 ** 4000", "M < dtype", "dtype + M",
        "-dtype", "unknown < 1", "2 ** 0.5 ** -9999", "0 ** -1", "dtype * M", "dtype % 3",
        "*".join(["M**400"] * 40),
    ],
)  # fmt: skip
def test_impossible_arithmetic_is_a_located_error(text):
    with pytest.raises(ConditionError) as caught:
        value(text)
    assert caught.value.where == HERE


def test_an_unknown_name_gets_the_nearest():
    with pytest.raises(ConditionError) as caught:
        value("dtyp == 1")
    assert "dtype" in str(caught.value.hint)


@settings(max_examples=100)
@given(st.text(alphabet="MN flagdtype0123456789+-*/%<>=!()'\".,[]{}and or not\\\n#:", max_size=60))
def test_any_text_gives_a_value_or_a_located_error(text):
    try:
        result = value(text)
    except ConditionError:
        return
    assert isinstance(result, int | float | bool | str)
