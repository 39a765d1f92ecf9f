"""Bounds hold for every value, and are reached where an index is affine."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from septran.ir.atoms import CallExtent
from septran.ir.bounds import (
    alternatives,
    bounds,
    bounds_if_known,
    greatest,
    least,
    loop_range,
    magnitude,
)
from septran.ir.index import Index, Var, ceil_div, maximum, minimum, product

VARIABLES = VI, VJ, VK = tuple(Var(n) for n in "ijk")
I, J, K = map(Index.of, VARIABLES)  # noqa: E741  # indices of loops
small = st.integers(-9, 9)
positive = st.integers(1, 9)
ranges = st.fixed_dictionaries(
    {v: st.tuples(small, st.integers(0, 4)).map(lambda r: (r[0], sum(r))) for v in VARIABLES}
)
factors = st.tuples(small, small, small)


def combined(parts):
    return st.one_of(
        st.tuples(parts, parts).map(lambda p: p[0] + p[1]),
        st.tuples(parts, parts).map(lambda p: p[0] - p[1]),
        st.tuples(parts, parts).map(lambda p: minimum(*p)),
        st.tuples(parts, parts).map(lambda p: maximum(*p)),
        st.tuples(parts, small).map(lambda p: p[0] * p[1]),
        st.tuples(parts, positive).map(lambda p: p[0] // p[1]),
        st.tuples(parts, positive).map(lambda p: p[0] % p[1]),
    )


def indices(*variables):
    """Any index on some of the variables."""
    leaves = [small.map(Index.of), *([st.sampled_from(variables).map(Index.of)] * bool(variables))]
    return st.recursive(st.one_of(leaves), combined, max_leaves=5)


nests = st.tuples(indices(), indices(VI), indices(VI, VJ)).map(
    lambda found: {v: minimum(e, 4) for v, e in zip(VARIABLES, found, strict=True)}
)
"""The extents of three nested loops, which depend on those around them and are short."""
sums = indices(*VARIABLES)
calm = settings(max_examples=100, suppress_health_check=[HealthCheck.too_slow])


def affine(multiples, constant):
    return sum((Index.of(v) * f for v, f in zip(VARIABLES, multiples, strict=True)), Index()) + (
        constant
    )


def points(within):
    for place in itertools.product(*(range(low, high + 1) for low, high in within.values())):
        yield dict(zip(within, place, strict=True))


def iterations(extents, known=None):
    """The values of the indices in every iteration of nested loops."""
    known = known or {}
    if len(known) == len(extents):
        yield dict(known)
        return
    variable = list(extents)[len(known)]
    for value in range(extents[variable].evaluate(known)):
        yield from iterations(extents, {**known, variable: value})


def ranges_of(extents):
    known = {}
    for variable, extent in extents.items():
        known[variable] = loop_range(extent, known)
    return known


@calm
@given(sums, ranges)
def test_every_value_is_between_the_bounds(index, within):
    low, high = bounds(index, within)
    assert (low, high) == (least(index, within), greatest(index, within)) == index.bounds(within)
    for at in points(within):
        assert low <= index.evaluate(at) <= high


@given(factors, small, ranges)
def test_both_ends_of_an_affine_index_are_reached(multiples, constant, within):
    index = affine(multiples, constant)
    found = [index.evaluate(at) for at in points(within)]
    assert bounds(index, within) == (min(found), max(found))


@given(factors, factors, small, ranges)
def test_an_affine_index_and_what_clips_it_are_seen_together(multiples, other, constant, within):
    """It is bounded at least as well as the sums that the minimum chooses from."""
    index, end = affine(multiples, 0), affine(other, constant)
    clipped = index + minimum(end - index, 5)
    parts = (end, index + 5)
    assert greatest(clipped, within) <= min(greatest(part, within) for part in parts)
    assert least(clipped, within) >= min(least(part, within) for part in parts)


@calm
@given(nests, sums)
def test_every_value_in_a_nest_of_loops_is_between_the_bounds(extents, index):
    within = ranges_of(extents)
    low, high = bounds(index, within, extents)
    alone = bounds(index, within)
    assert alone[0] <= low
    assert high <= alone[1]
    for at in iterations(extents):
        assert low <= index.evaluate(at) <= high
        assert all(within[v][0] <= n <= within[v][1] for v, n in at.items())


@given(factors, small, st.integers(1, 4), small, small)
def test_loops_that_depend_on_outer_ones_are_exact(multiples, constant, turns, slope, offset):
    """``for i in range(turns): for j in range(slope*i + offset): for k in range(i + 1)``."""
    extents = {VI: Index.of(turns), VJ: I * slope + offset, VK: I + 1}
    index, within = affine(multiples, constant), ranges_of(extents)
    found = [index.evaluate(at) for at in iterations(extents)]
    assume(found)
    low, high = bounds(index, within, extents)
    assert low <= min(found)
    assert max(found) <= high
    if slope >= 0 and offset > 0:  # every loop has iterations
        assert (low, high) == (min(found), max(found))


def test_a_tile_ends_where_its_tensor_ends():
    within = {VI: (0, 2)}
    assert greatest(I * 8 + minimum(8, 20 - I * 8), within) == 20
    assert least(maximum(0, 20 - I * 8) + I * 8, within) == 20


def test_a_loop_index_is_below_its_extent():
    within, extents = {VI: (0, 7), VK: (0, 7)}, {VI: Index.of(8), VK: I + 1}
    assert least(I - K, within) == -7
    assert least(I - K, within, extents) == 0
    assert least(I * 128 - K * 128 + 128, within, extents) == 128
    assert least(I * 128 - K * 128 + 128, within, {VK: minimum(8, I + 1)}) == 128
    assert least(minimum(128, I * 128 - K * 128 + 128), within, extents) == 128
    assert least(minimum(5, I - K), within, extents) == 0
    assert least(K - minimum(3, I), within, extents) == -3


def test_inner_loops_are_replaced_before_those_around_them():
    """``k < 8 - i``: where the greatest i is put in first, the range of k is all there is."""
    within, extents = {VI: (0, 7), VK: (0, 7)}, {VI: Index.of(8), VK: 8 - I}
    assert least(-I - K, within, extents) == -7


def test_an_extent_with_a_ceiling_bounds_what_is_left_of_an_axis():
    """The last of 256 in each of two parts of 1024 of 1500 begins before the end."""
    extents = {VI: Index.of(2), VK: minimum((1500 - I * 1024 + 255) // 256, 4)}
    left = minimum(1500 - I * 1024 - K * 256, 256)
    assert least(left, ranges_of(extents), extents) > 0
    assert least(left, ranges_of(extents)) < 0


def test_what_is_not_known_has_no_bounds():
    assert bounds_if_known(I + J, {VI: (0, 1)}) is None
    assert bounds_if_known(I + 2, {VI: (0, 1)}) == (2, 3)
    with pytest.raises(KeyError):
        bounds(I + J, {VI: (0, 1)})


def test_the_index_of_an_empty_loop_has_the_range_of_one_iteration():
    assert loop_range(I - 5, {VI: (0, 3)}) == (0, 0)
    assert loop_range(I * 2, {VI: (0, 3)}) == (0, 5)


COUNT = 2**17
KNOWN = {VI: (0, COUNT - 1)}


@pytest.mark.parametrize(
    ("index", "most"),
    [
        (I * 3 + 5, 3 * (COUNT - 1) + 5),
        (I * -3 + 5, 3 * (COUNT - 1) + 5),
        (I * 7 - I * 7, 0),
        (I * 100_000 // 99_999, 100_000 * (COUNT - 1)),
        (I * 100_000 % 3, 100_000 * (COUNT - 1)),
        (minimum(I * 100_000, 7), 100_000 * (COUNT - 1)),
        (I // 2**40, 2**40),
        (J, None),
    ],
    ids=str,
)
def test_the_magnitude_counts_all_that_an_index_is_computed_from(index, most):
    assert magnitude(index, KNOWN) == most


def test_the_indices_of_which_one_is_the_least():
    found = set(alternatives(minimum(100, I * 128) - K))
    assert found == {100 - K, I * 128 - K}


N = Index(((CallExtent("N", 1, 40), 1),))


@given(factors, small, st.integers(2, 9), st.integers(-9, 9))
def test_every_value_for_every_size_is_between_the_bounds(multiples, constant, divisor, factor):
    a, b, c = multiples
    index = N * a + (N + b) // divisor * (c * divisor) + minimum(divisor, N - 3) * factor
    index += product(I, N) + constant
    low, high = bounds(index, {VI: (0, 2)})
    for n, i in itertools.product(range(1, 41), range(3)):
        size = CallExtent("N", 1, 40)
        assert low <= index.evaluate({size.table: n, VI: i}) <= high


def test_the_last_tile_of_any_length_holds_something():
    # for i in range(ceil(N / 8)): min(8, N - 8*i)
    left = minimum(8, N - I * 8)
    loops = {VI: ceil_div(N, 8)}
    assert least(left, {VI: (0, 4)}, loops) == 1
    assert greatest(left, {VI: (0, 4)}, loops) == 8


def test_a_multiple_of_a_quotient_is_seen_as_its_dividend_outside_of_loops_too():
    left = N - ceil_div(N, 8) * 8
    assert (least(left, {}), greatest(left, {})) == (-7, 0)


def test_bounds_are_those_of_the_ranges_that_are_passed():
    """What is kept of an index is found again for the same ranges only, whatever their order."""
    assert [greatest(I - J * 2, {VJ: (0, n), VI: (0, 9 - n)}) for n in (1, 8, 1)] == [8, 1, 8]
    assert [(I // 4).simplify({VI: (0, n)}) for n in (3, 4, 3)] == [Index(), I // 4, Index()]
    assert least(I + J, {VI: (1, 2), VJ: (3, 4)}) == least(I + J, {VJ: (3, 4), VI: (1, 2)}) == 4


def test_a_size_without_a_call_is_as_great_as_it_may_be():
    assert N.evaluate({}) == 40
    assert product(N + 1, N).at_most() == Index.of(41 * 40)


def test_a_loop_that_turns_once_at_most_says_where_it_does():
    """In ``for j in range(i)``, of which j is always 0, i is not 0."""
    i, j = Var("i"), Var("j")
    extents = {i: Index.of(2), j: Index.of(i)}
    assert least(Index.of(i) - j - 1, {i: (0, 1), j: (0, 0)}, extents) == 0


def test_minima_in_maxima_in_loops_are_bounded_once_each():
    value = I
    for step in range(16):  # 2^32 ways lead through it, of which few differ
        value = maximum(0, minimum(J + step, value - 1) + 40 - J)
    loops = {VI: Index.of(31), VJ: Index.of(10)}
    assert bounds(value - J, {VI: (0, 30), VJ: (0, 9)}, loops) == (46, 55)


def test_what_is_left_of_a_slice_that_data_end_is_something():
    loops = {VI: Index.of(9), VK: maximum(0, J - I)}
    left = maximum(0, J - I) - K
    assert least(left, {VI: (0, 8), VJ: (0, 9), VK: (0, 8)}, loops) == 1
    assert least(minimum(left, 1), {VI: (0, 8), VJ: (0, 9), VK: (0, 8)}, loops) == 1
