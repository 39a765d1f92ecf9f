"""Of a sweep the fast tests take some, and the slow tests all others."""

from __future__ import annotations

import argparse
import itertools
from dataclasses import dataclass
from types import SimpleNamespace

import pytest

from tests.tiers import SWEEP, in_turn, outside_share, share


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


@dataclass(frozen=True)
class Case:
    """What a share looks at of a test."""

    nodeid: str
    params: tuple[tuple[str, object], ...] = ()
    slow: bool = True

    @property
    def callspec(self):
        return SimpleNamespace(params=dict(self.params))

    def get_closest_marker(self, name):
        return (self.slow and name == "slow") or None


def cases(count, inner=1, slow=True):
    pairs = itertools.product(range(count), range(inner))
    return [Case(f"a.py::test_b[{x}-{y}]", (("x", x), ("y", y)), slow) for x, y in pairs]


@pytest.mark.parametrize("inner", [3, 4, 9, 18])
def test_shares_have_each_case_of_a_sweep_once_and_each_value_of_its_parameters(inner):
    sweep = cases(7, inner)
    shares = [[c for c in sweep if c not in outside_share(sweep, k, 3)] for k in (1, 2, 3)]
    assert sorted(c.nodeid for each in shares for c in each) == sorted(c.nodeid for c in sweep)
    for each in shares:
        assert {dict(c.params)["x"] for c in each} == {*range(7)}
        assert {dict(c.params)["y"] for c in each} == {*range(inner)}
        assert abs(len(each) - len(sweep) / 3) <= 3


def test_a_share_has_all_that_is_fast_and_all_of_few_cases():
    few = [*cases(SWEEP - 1), Case("a.py::test_d"), Case("b.py::test_d")]
    assert not outside_share([*cases(20, slow=False), *few], 1, 3)
    assert not outside_share(cases(20), 1, 1)
    assert len(outside_share(cases(SWEEP), 1, 3)) == SWEEP * 2 / 3


@pytest.mark.parametrize("text", ["", "1", "0/3", "4/3", "a/b", "1/"])
def test_a_share_is_a_number_of_how_many(text):
    assert share("2/3") == (2, 3)
    with pytest.raises(argparse.ArgumentTypeError, match="such as 2/3"):
        share(text)
