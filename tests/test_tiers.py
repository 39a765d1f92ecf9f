"""Of a sweep the fast tests take some, and the slow tests all others."""

from __future__ import annotations

import pytest

from tests.tiers import in_turn


@pytest.mark.one_in(3, first=1)
@pytest.mark.parametrize("kind", ["fast", pytest.param("slow", marks=pytest.mark.slow)])
@pytest.mark.parametrize("number", range(7))
def test_every_third_of_those_that_are_not_slow_is_fast(number, kind, request):
    slow = request.node.get_closest_marker("slow") is not None
    assert slow == (kind == "slow" or number % 3 != 1)


def test_each_of_both_is_fast_with_one_of_the_other():
    pairs = in_turn("abcde", [1, 2, 3], first=1, slow="d")
    assert [p.values for p in pairs] == [(a, b) for a in "abcde" for b in (1, 2, 3)]
    fast = in_turn("abcde", [1, 2, 3], first=1, slow="d", alone=True)
    assert [p.values for p in fast] == [("a", 2), ("b", 3), ("c", 1), ("d", 2), ("e", 3)]
    assert [p.values for p in pairs if not p.marks] == [("a", 2), ("b", 3), ("c", 1), ("e", 3)]
