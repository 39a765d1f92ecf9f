"""Draws are recorded, repeated, and made simpler."""

from __future__ import annotations

from septran.fuzz import Choices, simpler


def _draws(choices):
    return [
        choices.below(10), choices.of("abc"), choices.chance(50), choices.between(4, 9),
        choices.some("xyz", 2),
    ]  # fmt: skip


def test_draws_are_repeated_from_their_trace():
    first = Choices(3)
    drawn = _draws(first)
    assert _draws(Choices(0, first.trace)) == drawn


def test_after_its_end_a_trace_gives_the_simplest():
    empty = Choices(0, ())
    assert (empty.below(7), empty.of("abc"), empty.chance(99), empty.between(4, 9)) == (
        0,
        "a",
        False,
        4,
    )
    assert empty.some("xyz", 3) == []


def test_a_trace_beyond_its_bounds_stays_inside():
    assert Choices(0, (1000,)).below(3) == 2


def test_simpler_finds_the_least_failure():
    """A list fails where two of its numbers are 5 or more; the least such list is (5, 5)."""

    def fails(trace):
        return sum(n >= 5 for n in trace) >= 2

    start = tuple(Choices(1).below(100) for _ in range(1))
    start = (9, 3, *start, 77, 2, 41, 6, 0, 18)
    assert fails(start)
    assert simpler(start, fails, tries=500) == (5, 5)


def test_simpler_keeps_what_fails_and_its_budget():
    tried = []

    def fails(trace):
        tried.append(trace)
        return len(trace) >= 3

    assert fails(simpler((4, 4, 4, 4), fails, tries=5))
    assert len(tried) <= 6
