"""Parameters of tests of which a plain `pytest` takes only some, and shares of the slow ones."""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import pytest

SWEEP = 6
"""Slow cases from which on a function's are a sweep, of which a run may take a share."""


def slow_where(is_slow: Callable[[Any], bool], values: Iterable[Any]) -> list[Any]:
    """The values as parameters, of which those with `is_slow` are for the slow tests alone."""
    return [
        pytest.param(
            *(value if isinstance(value, tuple) else (value,)),
            marks=pytest.mark.slow if is_slow(value) else (),
        )
        for value in values
    ]


def slow_but(fast: Sequence[Any], values: Iterable[Any] | Mapping[Any, Any]) -> list[Any]:
    """The values as parameters, of which all but `fast` are for the slow tests alone.

    Raises ValueError where one of `fast` is no value: it would never run.
    """
    known = list(values)
    if unknown := [value for value in fast if value not in known]:
        raise ValueError(f"{unknown} are none of the values")
    return slow_where(lambda value: value not in fast, known)


def in_turn(
    firsts: Iterable[Any],
    seconds: Sequence[Any],
    first: int = 0,
    slow: Sequence[Any] = (),
    *,
    alone: bool = False,
) -> list[Any]:
    """All pairs as parameters, of which each of `firsts` with one of `seconds` is fast.

    That one is `seconds[first]` for the first of them, and the next in turn for each further one,
    so that either kind is whole in the fast tests; those of `firsts` that are in `slow` are for
    the slow tests alone. With `alone` the other pairs are left out: others test them.
    """
    return [
        pytest.param(
            *(a, b),
            marks=() if m == (first + n) % len(seconds) and a not in slow else pytest.mark.slow,
        )
        for n, a in enumerate(firsts)
        for m, b in enumerate(seconds)
        if not alone or m == (first + n) % len(seconds)
    ]


def share(text: str) -> tuple[int, int]:
    """The numbers of a share, such as ``2/3``; raises ArgumentTypeError for another text."""
    first, _, parts = text.partition("/")
    if not (first.isdecimal() and parts.isdecimal() and 1 <= int(first) <= int(parts)):
        raise argparse.ArgumentTypeError(f"a share is such as 2/3, the second of three, not {text}")
    return int(first), int(parts)


def outside_share(items: Iterable[pytest.Item], first: int, parts: int) -> set[pytest.Item]:
    """The slow cases of sweeps that another of `parts` runs takes than the one of number `first`.

    Each value of a parameter has its place, and the sum of a case's places decides: with each
    value of one parameter the values of another take turns.
    """
    sweeps = defaultdict(list)
    for item in items:
        if item.get_closest_marker("slow"):
            sweeps[item.nodeid.partition("[")[0]].append(item)
    return {
        item
        for cases in sweeps.values()
        if len(cases) >= SWEEP
        for item, place in zip(cases, _places(cases), strict=True)
        if place % parts != first - 1
    }


def _places(cases: Iterable[pytest.Item]) -> Iterator[int]:
    """The sum of the places of each case's values among those of the same parameter."""
    places: dict[str, dict[str, int]] = defaultdict(dict)
    for case in cases:
        values = [(places[name], repr(value)) for name, value in case.callspec.params.items()]
        yield sum(known.setdefault(value, len(known)) for known, value in values)
