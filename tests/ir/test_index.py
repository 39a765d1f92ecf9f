"""Index expressions agree with Python's integers, however they are combined."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from septran.ir.atoms import CallExtent, Element, table_of
from septran.ir.gather import evaluate
from septran.ir.index import Index, Var, axis, ceil_div, is_axis, maximum, minimum, product

VI, VJ, VK = (Var(n) for n in "ijk")
NAMES = {"i": VI, "j": VJ, "k": VK}
small = st.integers(-9, 9)
positive = st.integers(1, 9)
values = st.fixed_dictionaries({v: small for v in (VI, VJ, VK)})
ranges = st.fixed_dictionaries(
    {v: st.tuples(small, st.integers(0, 4)).map(lambda r: (r[0], sum(r))) for v in (VI, VJ, VK)}
)


def combined(parts):
    """An index and the same calculation on integers."""

    def binary(symbolic, plain):
        return st.tuples(parts, parts).map(
            lambda p: (
                symbolic(p[0][0], p[1][0]), lambda at: plain(p[0][1](at), p[1][1](at))
            )
        )  # fmt: skip

    def scaled(symbolic, numbers):
        return st.tuples(parts, numbers).map(
            lambda p: (symbolic(p[0][0], p[1]), lambda at: symbolic(p[0][1](at), p[1]))
        )

    return st.one_of(
        binary(lambda a, b: a + b, lambda a, b: a + b),
        binary(lambda a, b: a - b, lambda a, b: a - b),
        binary(minimum, min),
        binary(maximum, max),
        scaled(lambda a, n: a * n, small),
        scaled(lambda a, n: n - a, small),
        scaled(lambda a, n: a // n, positive),
        scaled(lambda a, n: a % n, positive),
        parts.map(lambda p: (-p[0], lambda at: -p[1](at))),
    )


leaves = st.one_of(
    small.map(lambda n: (Index.of(n), lambda at: n)),
    st.sampled_from((VI, VJ, VK)).map(lambda v: (Index.of(v), lambda at: at[v])),
)
expressions = st.recursive(leaves, combined, max_leaves=8)


@given(expressions, values)
def test_values_are_those_of_plain_integers(expression, at):
    index, plain = expression
    assert index.evaluate(at) == plain(at)
    assert evaluate(index, at) == plain(at)


@given(expressions, values)
def test_the_text_is_python_for_the_value(expression, at):
    index, plain = expression
    named = {name: at[v] for name, v in NAMES.items()}
    assert eval(str(index), {"min": min, "max": max}, named) == plain(at)


@given(expressions, expressions, values)
def test_substituting_is_evaluating_later(expression, replacement, at):
    index, _ = expression
    new, _ = replacement
    assert index.substitute({VI: new}).evaluate(at) == index.evaluate({**at, VI: new.evaluate(at)})
    constant = index.substitute(at)
    assert constant.is_constant
    assert constant.as_int() == index.evaluate(at)


def points(within):
    spans = [range(low, high + 1) for low, high in within.values()]
    for place in itertools.product(*spans):
        yield dict(zip(within, place, strict=True))


@settings(max_examples=60)
@given(expressions, ranges)
def test_bounds_hold_and_simplifying_changes_no_value(expression, within):
    index, _ = expression
    low, high = index.bounds(within)
    simple = index.simplify(within)
    for at in points(within):
        value = index.evaluate(at)
        assert low <= value <= high
        assert simple.evaluate(at) == value


@given(expressions, expressions)
def test_equal_sums_are_equal(first, second):
    a, b = first[0], second[0]
    assert a + b == b + a
    assert hash(a + b) == hash(b + a)
    assert a - a == Index()
    assert a + b - b == a
    assert a * 2 == a + a
    assert minimum(a, b) == minimum(b, a)
    assert minimum(a, a) == maximum(a, a) == a
    assert (a * 6) // 3 == a * 2
    assert (a * 6) % 3 == Index()


@given(values, positive)
def test_ceil_div_rounds_up(at, divisor):
    assert ceil_div(VI, divisor).evaluate(at) == -(-at[VI] // divisor)


def test_only_linear_products_and_positive_divisors():
    with pytest.raises(ValueError, match="not linear"):
        Index.of(VI) * VJ
    assert Index.of(2) * Index.of(VI) == Index.of(VI) * 2
    for divisor in (0, -2):
        with pytest.raises(ValueError, match="positive integer"):
            Index.of(VI) // divisor
        with pytest.raises(ValueError, match="positive integer"):
            Index.of(VI) % divisor
    with pytest.raises(ValueError, match="not constant"):
        Index.of(VI).as_int()
    with pytest.raises(KeyError):
        Index.of(VI).evaluate({VJ: 1})


def test_variables_are_found_wherever_they_are():
    index = minimum(Index.of(VI) // 2, 5) + maximum(Index.of(VJ) % 3, VK) * 2
    assert index.variables() == {VI, VJ, VK}
    assert index.coefficient(VI) == 0
    assert (index + Index.of(VI) * 7).coefficient(VI) == 7
    assert is_axis(axis(0))
    assert not is_axis(VI)


def test_the_most_of_an_index_is_over_all_elements():
    n, m = (Index(((Element("n", (Index.of(at),), 7), 1),)) for at in (0, 1))
    i = Index.of(VI)
    for index in (
        n - m, 5 - n, ceil_div(n - m, 4), maximum(0, minimum(i - 3, n) - m), 2 * i - 3 * (n % 4),
        minimum(n, 4) - maximum(m, i - 8), i + 1,
    ):  # fmt: skip
        for at in (2, 9):
            found = [
                evaluate(index, {VI: at, table_of("n"): np.array(given)})
                for given in itertools.product(range(7), repeat=2)
            ]
            assert max(found) <= index.at_most().evaluate({VI: at}) <= max(found) + 2, str(index)


def test_products_with_sizes_are_sums_of_products():
    i, n, m = Index.of(VI), _size("N"), _size("M")
    index = product(i * 2 + 3, product(n, m))
    assert index == product(product(m, i * 2 + 3), n) == product(product(n, i * 2 + 3), m)
    values = {VI: 5, CallExtent("N", 1, 9).table: 7, CallExtent("M", 1, 9).table: 4}
    assert index.evaluate(values) == 13 * 28
    assert index.substitute({CallExtent("N", 1, 9): 7}).evaluate(values) == 13 * 28
    assert index.substitute({CallExtent("N", 1, 9): 7, CallExtent("M", 1, 9): 4}) == i * 56 + 84
    assert index.substitute({VI: 5}).evaluate(values) == 13 * 28
    assert set(index.sizes()) == {CallExtent("N", 1, 9), CallExtent("M", 1, 9)}
    with pytest.raises(ValueError, match="not linear"):
        product(i, i)


def test_a_size_of_one_value_is_that_value():
    fixed = Index(((CallExtent("N", 6, 6), 1),))
    assert product(Index.of(VI), fixed).simplify({}) == Index.of(VI) * 6


def _size(name):
    return Index(((CallExtent(name, 1, 9), 1),))
