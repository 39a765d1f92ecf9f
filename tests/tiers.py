"""Parameters of tests of which a plain `pytest` takes only some."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import pytest


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
