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
